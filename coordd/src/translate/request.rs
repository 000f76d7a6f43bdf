//! Requests, as the core takes them.

use super::bridge;
use crate::peer::LookedUp;
use coordd_core::agent::{Ended, Runtime};
use coordd_core::effect::Size;
use coordd_core::id::MessageId;
use coordd_core::permission::Question;
use coordd_core::request::Invite;
use coordd_core::request::{Body, Join, NewAgent, NewSession, Request, To};
use coordd_core::role::Role;
use coordd_core::session::Inbound;
use coordd_core::task::TaskStatus;
use proto::address::Address;
use proto::error::{ErrorBody, ErrorCode};
use proto::message;
use proto::request::Request as Wire;
use proto::view;

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
            let role = core_role(role);
            Request::Join(Join { session, role, name, process: looked_up.process })
        }
        Wire::Prompt { session, agent, text } => Request::Prompt { session, agent, text },
        Wire::Interrupt { session } => Request::Interrupt { session },
        Wire::Send { session, to, body, summary, notify_when_idle } => {
            let (to, body) = (address(&to)?, self::body(body));
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
        Wire::AgentSpawn { agent } => Request::AgentSpawn(NewAgent {
            description: agent.description,
            prompt: agent.prompt,
            subagent_type: agent.subagent_type,
            name: agent.name,
            runtime: agent.runtime.map(runtime),
            host: agent.host,
            model: agent.model,
            phase: agent.phase,
            wait: agent.wait,
        }),
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
        Wire::TeamInvite(it) => Request::TeamInvite(Invite {
            team: it.team,
            name: it.name,
            description: it.description,
            start: it.start,
            arguments: it.arguments,
        }),
        Wire::TaskCreate { team, subject, description, blocked_by } => {
            Request::TaskCreate { team, subject, description, blocked_by }
        }
        Wire::TaskList { team } => Request::TaskList { team },
        Wire::TaskGet { team, task } => Request::TaskGet { team, task },
        Wire::TaskUpdate { team, task, status, owner, blocked_by } => {
            let status = status.map(task_status);
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
        Wire::Screen { agent, size } => Request::Screen { agent, size: size.map(self::size) },
        Wire::ScreenInput { agent, size, bytes } => {
            Request::ScreenInput { agent, size: size.map(self::size), bytes: bytes.0 }
        }
        Wire::TerminalEnded(it) => {
            Request::TerminalEnded(Ended { status: it.status, said: it.said })
        }
        Wire::Acknowledge { messages, run } => {
            let messages = messages.iter().filter_map(|id| MessageId::parse(id)).collect();
            Request::Acknowledge { messages, run }
        }
        Wire::RunEnded { run, outcome } => {
            Request::RunEnded { run, outcome: super::core_outcome(outcome) }
        }
    })
}

fn new_session(
    wire: proto::request::NewSession,
    definitions: Vec<String>,
) -> Result<NewSession, ErrorBody> {
    Ok(NewSession {
        name: wire.name,
        cwd: wire.cwd,
        mode: wire.mode,
        mode_variable: wire.mode_variable,
        simple_variable: wire.simple_variable,
        model: match &wire.model {
            Some(model) => serde_json::to_string(model).map_err(|error| unreadable(&error))?,
            None => String::new(),
        },
        runtime: runtime(wire.runtime),
        lead_runtime: runtime(wire.lead_runtime),
        permissions: serde_json::to_string(&wire.permissions)
            .map_err(|error| unreadable(&error))?,
        scratchpad: wire.scratchpad,
        definitions,
        worker_turns: wire.max_turns,
        worker_run_ms: u64::from(wire.run_s) * 1_000,
        workers: wire.workers,
        prompt: wire.prompt,
        host_for: wire.host_for,
        bypasses: wire.permissions.mode == "bypassPermissions",
        inbound: inbound(&wire.cross_session_inbound)?,
    })
}

fn size(wire: proto::screen::Size) -> Size {
    let proto::screen::Size { rows, columns } = wire.clamped();
    Size { rows, columns }
}

pub(super) fn runtime(wire: proto::agent::Runtime) -> Runtime {
    match wire {
        proto::agent::Runtime::Native => Runtime::Native,
        proto::agent::Runtime::Claude => Runtime::Claude,
        proto::agent::Runtime::External => Runtime::External,
        proto::agent::Runtime::Terminal => Runtime::Terminal,
        proto::agent::Runtime::Bridged => Runtime::Bridged,
    }
}

fn core_role(wire: proto::agent::Role) -> Role {
    match wire {
        proto::agent::Role::Coordinator => Role::Coordinator,
        proto::agent::Role::Lead => Role::Lead,
        proto::agent::Role::Worker => Role::Worker,
        proto::agent::Role::Peer => Role::Peer,
    }
}

fn unreadable(error: &serde_json::Error) -> ErrorBody {
    ErrorBody::new(ErrorCode::Invalid, error.to_string())
}

fn inbound(word: &str) -> Result<Option<Inbound>, ErrorBody> {
    Inbound::from_word(word).map_err(|denial| super::error_body(&denial))
}

fn address(to: &str) -> Result<To, ErrorBody> {
    let parsed: Address = to.parse().map_err(|error: proto::address::AddressError| {
        ErrorBody::new(ErrorCode::Invalid, error.to_string())
    })?;
    Ok(match parsed {
        Address::Name(name) => To::Name(name),
        Address::Everyone => To::Everyone,
        Address::Uds(path) => To::Uds(path.to_string_lossy().into_owned()),
        Address::Bridge(id) => To::Bridge(id),
    })
}

fn body(wire: message::Body) -> Body {
    match wire {
        message::Body::Text { text } => Body::Text { text },
        message::Body::ShutdownRequest { reason } => Body::ShutdownRequest { reason },
        message::Body::ShutdownResponse { request_id, approve, reason } => {
            Body::ShutdownResponse { request_id, approve, reason }
        }
        message::Body::PlanApprovalResponse { request_id, approve, feedback } => {
            Body::PlanApprovalResponse { request_id, approve, feedback }
        }
    }
}

fn task_status(wire: view::TaskStatus) -> TaskStatus {
    match wire {
        view::TaskStatus::Pending => TaskStatus::Pending,
        view::TaskStatus::InProgress => TaskStatus::InProgress,
        view::TaskStatus::Completed => TaskStatus::Completed,
    }
}
