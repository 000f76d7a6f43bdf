//! The way from a request to its file: one for each family.

mod agents;
mod bridge;
mod control;
mod joining;
pub(crate) mod outside;
pub(crate) mod permissions;
mod reports;
mod screens;
mod sending;
mod sessions;
pub(crate) mod tasks;
pub(crate) mod teams;

use crate::rules::call::{Call, Said, Verdict};
use crate::rules::turn::Turn;
use crate::state::answer::Answer;
use crate::state::request::{Address, Request};

/// Answers a call whose caller is known to be allowed to make it.
#[expect(
    clippy::too_many_lines,
    reason = "one short arm for each request, and none may be forgotten"
)]
pub(crate) fn answer(call: &Call, turn: &mut Turn<'_>, request: Request) -> Verdict {
    match request {
        Request::Ping => Ok(Said::Now(Answer::Done)),
        Request::DaemonStatus => Ok(Said::Now(Answer::Daemon)),
        Request::DaemonStop { keep_agents } => Ok(control::stop_daemon(call, turn, keep_agents)),
        Request::SessionNew(new) => sessions::new(call, turn, new),
        Request::SessionList => Ok(Said::Now(Answer::Sessions)),
        Request::SessionShow { session } => sessions::show(turn, &session),
        Request::SessionStop { session } => sessions::stop(turn, &session),
        Request::SessionResume { session, mode_variable } => {
            sessions::resume(turn, &session, mode_variable.as_deref())
        }
        Request::SessionRemove { session, force } => sessions::remove(call, turn, &session, force),
        Request::Join(join) => joining::join(turn, join),
        Request::Prompt { session, agent, text } => {
            sending::prompt(call, turn, &session, agent.as_deref(), text)
        }
        Request::Interrupt { session } => control::interrupt(turn, &session),
        Request::Send { session, to: Address::Uds(path), body, summary, notify_when_idle } => {
            outside::send(call, turn, &session, &path, &body, &summary, notify_when_idle)
        }
        Request::Send { to: Address::Bridge(id), body, summary, .. } => {
            outside::send_over(call, turn, &id, &body, &summary)
        }
        Request::Send { session, to, body, summary, .. } => {
            sending::send(call, turn, &session, &to, &body, &summary)
        }
        Request::PeerList => Ok(outside::peers(call, turn)),
        Request::InboundList { session } => outside::list(turn, &session),
        Request::InboundAnswer { message, accept, reason } => {
            outside::answer(turn, &message, accept, &reason)
        }
        Request::InboundSet { session, inbound } => outside::set(turn, &session, inbound),
        Request::Receipt { message } => sending::receipt(turn, &message),
        Request::AgentSpawn(new) => agents::spawn(call, turn, new),
        Request::AgentStop { agent } => agents::stop(call, turn, &agent),
        Request::AgentShow { agent } => agents::show(call, turn, &agent),
        Request::Transcript { agent, from, limit } => {
            agents::transcript(call, turn, &agent, from, limit)
        }
        Request::PermissionAsk(question) => permissions::ask(call, turn, question),
        Request::PermissionList { session } => permissions::list(turn, &session),
        Request::PermissionAnswer { id, allow, always, reason } => {
            permissions::answer(turn, &id, allow, always, reason)
        }
        Request::StructuredOutput { output } => control::output(call, turn, output),
        Request::TeamCreate { session, name, description, agent_type } => {
            teams::create(call, turn, &session, &name, description, agent_type)
        }
        Request::TeamDelete { session } => teams::delete(call, turn, &session),
        Request::TeamList => Ok(Said::Now(Answer::Teams)),
        Request::TeamShow { team } => teams::show(turn, &team),
        Request::TeamInvite(invite) => teams::invite(call, turn, invite),
        Request::TaskCreate { team, subject, description, blocked_by } => {
            tasks::create(call, turn, &team, subject, description, blocked_by)
        }
        Request::TaskList { team } => tasks::list(turn, &team),
        Request::TaskGet { team, task } => tasks::get(turn, &team, task),
        Request::TaskUpdate { team, task, status, owner, blocked_by } => {
            let update = tasks::Update { status, owner, blocked_by };
            tasks::update(call, turn, &team, task, update)
        }
        Request::ScratchpadList { session } => sessions::scratchpad(call, turn, &session, None),
        Request::ScratchpadShow { session, path } => {
            sessions::scratchpad(call, turn, &session, Some(path))
        }
        Request::Usage { session } => sessions::usage(turn, &session),
        Request::Subscribe { session, after } => control::subscribe(call, turn, &session, after),
        Request::Attach { session, agent, history } => {
            control::attach(call, turn, &session, &agent, history)
        }
        Request::Screen { agent, size } => screens::show(call, turn, &agent, size),
        Request::ScreenInput { agent, size, bytes } => {
            screens::input(call, turn, &agent, size, bytes)
        }
        Request::TerminalEnded(ended) => screens::ended(call, turn, &ended),
        Request::Acknowledge { messages, run } => reports::acknowledge(call, turn, &messages, run),
        Request::BridgeSet { on } => Ok(bridge::set(turn, on)),
        Request::BridgeAllow { session, peer, inbound, outbound } => {
            bridge::allow(turn, &session, &peer, inbound, outbound)
        }
        Request::BridgeStatus => Ok(Said::Now(Answer::Bridge)),
        Request::BridgeTold { id, fate } => Ok(bridge::told(turn, id, fate)),
        Request::BridgeBring(it) => Ok(bridge::bring(turn, it)),
        Request::BridgeReport(report) => Ok(bridge::report(turn.live, report)),
        Request::RunEnded { run, outcome } => reports::run_ended(call, turn, run, outcome),
    }
}
