//! Answers, as responses: what the core named by ids is looked up here.

use std::collections::BTreeMap;

use coordd_core::Core;
use coordd_core::answer::{Answer, SendRow};
use coordd_core::denial::Denial;
use coordd_core::id::SessionId;
use proto::hello::Credentials;
use proto::message::{Receipt, SendResult};
use proto::notification::Usage;
use proto::response::{Response, UsageRow};
use proto::teammate;
use proto::view::AgentView;

use super::bridge;
use super::kept::{Kept, kept};
use super::{Facts, view};

/// The response, or that what it was about is gone since.
#[expect(
    clippy::too_many_lines,
    reason = "one short arm for each answer, and none may be forgotten"
)]
pub(crate) fn response(core: &Core, facts: &Facts, answer: Answer) -> Result<Response, Denial> {
    let durable = &core.durable;
    let gone = |what: &'static str, given: &dyn ToString| Denial::NoSuch {
        what,
        given: given.to_string(),
    };
    Ok(match answer {
        Answer::Done => Response::Done {},
        Answer::Daemon => Response::Daemon { daemon: view::daemon(core, facts) },
        Answer::Session(id) => {
            let it = durable.sessions.get(&id).ok_or_else(|| gone("session", &id))?;
            Response::Session { session: view::session(core, it) }
        }
        Answer::Sessions => sessions(core),
        Answer::Detail(id) => {
            let it = durable.sessions.get(&id).ok_or_else(|| gone("session", &id))?;
            let agents = durable
                .agents_of(&id)
                .into_iter()
                .map(|agent| view::agent(core, facts, agent))
                .collect();
            Response::SessionDetail { session: view::session(core, it), agents }
        }
        Answer::Stopped { agents, bounced } => Response::Stopped { agents, bounced },
        Answer::StopAsked { agent } => Response::StopAsked { agent },
        Answer::Resumed { session: id, note, waiting_messages, interrupted } => {
            let it = durable.sessions.get(&id).ok_or_else(|| gone("session", &id))?;
            let Kept { restored, restartable, lost } = kept(core, facts, it);
            Response::Resumed {
                session: view::session(core, it),
                note,
                waiting_messages,
                interrupted,
                restored,
                restartable,
                lost,
            }
        }
        Answer::Joined { agent: id, token } => {
            let it = durable.agents.get(&id).ok_or_else(|| gone("agent", &id))?;
            let of = durable.sessions.get(&it.session);
            let of = of.ok_or_else(|| gone("session", &it.session))?;
            Response::Joined {
                credentials: Credentials {
                    agent: it.id.to_string(),
                    incarnation: it.incarnation,
                    token,
                    pid: it.process.as_ref().map(|it| it.pid).unwrap_or_default(),
                },
                name: it.name.to_string(),
                role: it.role,
                simple_tools: of.simple_tools,
                session: view::session(core, of),
            }
        }
        Answer::Sent(rows) => {
            Response::Sent { results: rows.into_iter().map(send_result).collect() }
        }
        Answer::Receipt(id) => {
            Response::Receipt { receipt: receipt(core, id).ok_or_else(|| gone("message", &id))? }
        }
        Answer::Inbound(ids) => {
            let found = ids.iter().filter_map(|id| durable.messages.get(id));
            Response::Inbound { messages: found.filter_map(|it| view::held(core, it)).collect() }
        }
        Answer::Spawned { agent: id, waits_for, note } => {
            let it = durable.agents.get(&id).ok_or_else(|| gone("agent", &id))?;
            let state =
                waits_for.map_or_else(|| "started".to_owned(), |what| format!("waits for {what}"));
            Response::Spawned { agent: id.to_string(), name: it.name.to_string(), state, note }
        }
        Answer::Ran { agent: id, outcome: how } => {
            let it = durable.agents.get(&id).ok_or_else(|| gone("agent", &id))?;
            Response::Ran { agent: id.to_string(), name: it.name.to_string(), outcome: how }
        }
        Answer::Agent(id) => {
            let it = durable.agents.get(&id).ok_or_else(|| gone("agent", &id))?;
            Response::Agent { agent: view::agent(core, facts, it) }
        }
        Answer::Invited(id) => {
            let it = durable.agents.get(&id).ok_or_else(|| gone("agent", &id))?;
            let of =
                durable.sessions.get(&it.session).ok_or_else(|| gone("session", &it.session))?;
            let team = durable.team_of(&it.session).ok_or(Denial::NoTeam)?;
            invited(view::agent(core, facts, it), team.name.as_str(), &of.id.0, &of.cwd)
        }
        Answer::Permitted { allow, reason, rule } => Response::Permitted { allow, reason, rule },
        Answer::Permissions(ids) => {
            let found = ids.iter().filter_map(|id| durable.permissions.get(id));
            Response::Permissions {
                permissions: found.map(|it| view::permission(core, it)).collect(),
            }
        }
        Answer::Team(name) => {
            let it = durable.teams.get(&name).ok_or_else(|| gone("team", &name))?;
            Response::Team { team: view::team(core, facts, it) }
        }
        Answer::Teams => Response::Teams {
            teams: durable.teams.values().map(|it| view::team(core, facts, it)).collect(),
        },
        Answer::Task { team, task } => {
            let team = durable.teams.get(&team).ok_or_else(|| gone("team", &team))?;
            let it = team.tasks.get(&task).ok_or_else(|| gone("task", &task))?;
            Response::Task { task: view::task(team, it) }
        }
        Answer::Tasks(team) => {
            let it = durable.teams.get(&team).ok_or_else(|| gone("team", &team))?;
            Response::Tasks {
                tasks: it.tasks.values().map(|task| view::task_row(it, task)).collect(),
            }
        }
        Answer::Usage(session) => rows(core, session.as_ref()),
        Answer::Bridge => Response::Bridge { bridge: bridge::view(core) },
        Answer::Brought(decision) => bridge::decided(decision),
        Answer::RunRecorded { exit } => Response::RunRecorded { exit },
    })
}

fn invited(agent: AgentView, team: &str, session: &str, cwd: &str) -> Response {
    let start = start(team, &agent.name, session);
    let (name, value) = teammate::TEAMS_ON;
    Response::Invited {
        command: start.command(),
        env: BTreeMap::from([(name.to_owned(), value.to_owned())]),
        team: team.to_owned(),
        session: session.to_owned(),
        cwd: cwd.to_owned(),
        agent,
    }
}

/// How a member's terminal is started, by coordd or by the user.
pub(super) fn start<'a>(team: &'a str, member: &'a str, session: &'a str) -> teammate::Start<'a> {
    teammate::Start { team, member, lead_session: session }
}

fn sessions(core: &Core) -> Response {
    let mut sessions: Vec<_> =
        core.durable.sessions.values().map(|it| view::session(core, it)).collect();
    sessions.sort_by(|a, b| (b.created_ms, &b.id).cmp(&(a.created_ms, &a.id)));
    Response::Sessions { sessions }
}

pub(crate) fn send_result(row: SendRow) -> SendResult {
    match row {
        SendRow::Accepted { to, id, ahead, note, request_id } => {
            SendResult::Accepted { to, id: id.to_string(), ahead, note, request_id }
        }
        SendRow::Refused { to, reason } => SendResult::Refused { to, reason },
    }
}

fn receipt(core: &Core, id: coordd_core::id::MessageId) -> Option<Receipt> {
    if let Some(it) = core.durable.outbox.get(id) {
        return Some(Receipt {
            id: id.to_string(),
            from: view::sender(core, &it.from),
            to: it.to.to_string(),
            state: it.state,
            accepted_ms: it.accepted_ms,
            delivered_ms: it.delivered_ms,
            ended_ms: it.ended_ms,
            ahead: 0,
            reason: it.reason.clone(),
        });
    }
    let it = core.durable.messages.get(&id)?;
    let to = core.durable.agents.get(&it.to)?;
    let ahead = to.mailbox.iter().position(|waiting| *waiting == id).unwrap_or_default();
    Some(Receipt {
        id: id.to_string(),
        from: view::sender(core, &it.from),
        to: to.name.to_string(),
        state: it.state,
        accepted_ms: it.accepted_ms,
        delivered_ms: it.delivered_ms,
        ended_ms: it.ended_ms,
        ahead: u32::try_from(ahead).unwrap_or(u32::MAX),
        reason: it.reason.clone(),
    })
}

fn rows(core: &Core, session: Option<&SessionId>) -> Response {
    let mut total = Usage::default();
    let mut rows = Vec::new();
    for of in
        core.durable.sessions.values().filter(|it| session.is_none_or(|wanted| it.id == *wanted))
    {
        for agent in core.durable.agents_of(&of.id) {
            total.add(&agent.usage);
            rows.push(UsageRow {
                session: of.name.to_string(),
                agent: agent.name.to_string(),
                runs: agent.runs,
                usage: agent.usage,
                known: !agent.is_external(),
            });
        }
    }
    Response::Usage { rows, total }
}
