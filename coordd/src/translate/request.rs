//! Requests, as the core takes them.

use coordd_core::effect::Size;
use coordd_core::id::MessageId;
use coordd_core::permission::Question;
use coordd_core::request::{Join, NewSession, Request};
use coordd_core::session::Inbound;
use coordd_core::settings::{ApprovalMode, Model, Permissions, Provider, Sandbox};
use proto::address::{Address, AddressError};
use proto::error::{ErrorBody, ErrorCode};
use proto::request::Request as Wire;

use super::bridge;
use crate::peer::LookedUp;

/// The request, or why it says nothing. `looked_up` is what it needs from the system.
#[expect(
    clippy::too_many_lines,
    reason = "one short arm for each request, and none may be forgotten"
)]
pub(crate) fn request(wire: Wire, looked_up: LookedUp) -> Result<Request, ErrorBody> {
    Ok(match wire {
        Wire::Ping {} => Request::Ping,
        Wire::DaemonStatus {} => Request::DaemonStatus,
        Wire::DaemonStop { keep_agents } => Request::DaemonStop { keep_agents },
        Wire::SessionNew { session } => {
            Request::SessionNew(new_session(*session, looked_up.definitions)?)
        }
        Wire::SessionList {} => Request::SessionList,
        Wire::SessionShow { session } => Request::SessionShow { session },
        Wire::SessionStop { session } => Request::SessionStop { session },
        // The environment is the shell's: it is kept in a file of its own and never enters the
        // journal.
        Wire::SessionResume { session, env: _, mode_variable } => {
            Request::SessionResume { session, mode_variable }
        }
        Wire::SessionRemove { session, force } => Request::SessionRemove { session, force },
        Wire::Join { session, role, name } => {
            Request::Join(Join { session, role, name, process: looked_up.process })
        }
        Wire::Prompt { session, agent, text } => Request::Prompt { session, agent, text },
        Wire::Interrupt { session } => Request::Interrupt { session },
        Wire::Send { session, to, body, summary, notify_when_idle } => {
            let to = address(&to)?;
            Request::Send { session, to, body, summary, notify_when_idle }
        }
        Wire::PeerList {} => Request::PeerList,
        Wire::InboundList { session } => Request::InboundList { session },
        Wire::InboundAnswer { message, accept, reason } => {
            Request::InboundAnswer { message, accept, reason }
        }
        Wire::InboundSet { session, cross_session_inbound } => {
            Request::InboundSet { session, inbound: inbound(&cross_session_inbound)? }
        }
        Wire::Receipt { message } => Request::Receipt { message },
        Wire::AgentSpawn { agent } => Request::AgentSpawn(*agent),
        Wire::AgentStop { agent } => Request::AgentStop { agent },
        Wire::AgentShow { agent } => Request::AgentShow { agent },
        Wire::Transcript { agent, from, limit } => Request::Transcript { agent, from, limit },
        Wire::PermissionAsk { question } => Request::PermissionAsk(Question {
            tool: question.tool,
            input: question.input.0.to_string(),
            reason: question.reason,
            rule: question.rule,
            about: question.about,
            shown: serde_json::to_string(&question.shown).map_err(|error| unreadable(&error))?,
        }),
        Wire::PermissionList { session } => Request::PermissionList { session },
        Wire::PermissionAnswer { id, allow, always, reason } => {
            Request::PermissionAnswer { id, allow, always, reason }
        }
        Wire::StructuredOutput { output } => {
            Request::StructuredOutput { output: output.0.to_string() }
        }
        Wire::TeamCreate { session, name, description, agent_type } => {
            Request::TeamCreate { session, name, description, agent_type }
        }
        Wire::TeamDelete { session } => Request::TeamDelete { session },
        Wire::TeamList {} => Request::TeamList,
        Wire::TeamShow { team } => Request::TeamShow { team },
        Wire::TeamInvite(it) => Request::TeamInvite(it),
        Wire::TaskCreate { team, subject, description, blocked_by } => {
            Request::TaskCreate { team, subject, description, blocked_by }
        }
        Wire::TaskList { team } => Request::TaskList { team },
        Wire::TaskGet { team, task } => Request::TaskGet { team, task },
        Wire::TaskUpdate { team, task, status, owner, blocked_by } => {
            Request::TaskUpdate { team, task, status, owner, blocked_by }
        }
        Wire::ScratchpadList { session } => Request::ScratchpadList { session },
        Wire::ScratchpadShow { session, path } => Request::ScratchpadShow { session, path },
        Wire::BridgeSet { on } => Request::BridgeSet { on },
        Wire::BridgeAllow { session, peer, inbound, outbound } => {
            Request::BridgeAllow { session, peer, inbound, outbound }
        }
        Wire::BridgeStatus {} => Request::BridgeStatus,
        Wire::BridgeTold { id, fate, reason } => bridge::told(id, fate, reason),
        Wire::BridgeBring { peer, name, row } => bridge::brought(peer, name, row),
        Wire::BridgeReport { report } => bridge::report(report),
        Wire::Usage { session } => Request::Usage { session },
        Wire::Subscribe { session, after } => Request::Subscribe { session, after },
        Wire::Attach { session, agent, history } => Request::Attach { session, agent, history },
        Wire::Screen { agent, size } => Request::Screen { agent, size: size.map(Size::clamped) },
        Wire::ScreenInput { agent, size, bytes } => {
            Request::ScreenInput { agent, size: size.map(Size::clamped), bytes: bytes.0 }
        }
        Wire::TerminalEnded(it) => Request::TerminalEnded(it),
        Wire::Acknowledge { messages, run } => {
            let messages = messages.iter().filter_map(|id| MessageId::parse(id)).collect();
            Request::Acknowledge { messages, run }
        }
        Wire::RunEnded { run, outcome } => Request::RunEnded { run, outcome },
    })
}

fn new_session(
    wire: proto::request::NewSession,
    definitions: Vec<String>,
) -> Result<NewSession, ErrorBody> {
    let permissions = permissions(wire.permissions)?;
    Ok(NewSession {
        name: wire.name,
        cwd: wire.cwd,
        mode: wire.mode,
        mode_variable: wire.mode_variable,
        simple_variable: wire.simple_variable,
        model: wire.model.map(model),
        runtime: wire.runtime,
        lead_runtime: wire.lead_runtime,
        bypasses: permissions.mode == ApprovalMode::BypassPermissions,
        permissions,
        scratchpad: wire.scratchpad,
        definitions,
        worker_turns: wire.max_turns,
        worker_run_ms: u64::from(wire.run_s) * 1_000,
        workers: wire.workers,
        prompt: wire.prompt,
        host_for: wire.host_for,
        inbound: inbound(&wire.cross_session_inbound)?,
    })
}

fn unreadable(error: &serde_json::Error) -> ErrorBody {
    ErrorBody::new(ErrorCode::Invalid, error.to_string())
}

fn model(wire: proto::agent::Model) -> Model {
    let proto::agent::Model { provider, name, base_url, rehearsal_file } = wire;
    let provider = match provider {
        proto::agent::Provider::Anthropic => Provider::Anthropic,
        proto::agent::Provider::Openai => Provider::Openai,
        proto::agent::Provider::Rehearsal => Provider::Rehearsal,
        proto::agent::Provider::Responses => Provider::Responses,
    };
    Model { provider, name, base_url, rehearsal_file }
}

fn permissions(wire: proto::agent::Permissions) -> Result<Permissions, ErrorBody> {
    let proto::agent::Permissions { mode, allow, ask, deny, sandbox } = wire;
    let Some(mode) = ApprovalMode::from_word(&mode) else {
        let known: Vec<_> = ApprovalMode::ALL.map(ApprovalMode::as_str).into();
        let known = known.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let message =
            format!("there is no permission mode {mode:?}; there are {}", known.join(", "));
        return Err(ErrorBody::new(ErrorCode::Invalid, message));
    };
    let proto::agent::SandboxChoice { off, hosts, outside } = sandbox;
    let sandbox = Box::new(Sandbox { off, hosts, outside });
    Ok(Permissions { mode, allow, ask, deny, sandbox })
}

fn inbound(word: &str) -> Result<Option<Inbound>, ErrorBody> {
    Inbound::from_word(word).map_err(|denial| super::error_body(&denial))
}

fn address(to: &str) -> Result<Address, ErrorBody> {
    to.parse().map_err(|error: AddressError| ErrorBody::new(ErrorCode::Invalid, error.to_string()))
}
