//! How runs and processes end, whoever ends them. The edges are those of the diagram in `agent.rs`.

use crate::rules::host::guest;
use crate::rules::mailbox::{self, Draft, Numbers};
use crate::rules::{Step, pty, task};
use crate::state::agent::{Agent, Class, LastRun, Life, Outcome, Runtime, Status};
use crate::state::denial::Denial;
use crate::state::effect::{Event, Order};
use crate::state::id::AgentId;
use crate::state::message::{Kind, Message, Sender, State, without_result};
use crate::state::planted::{Bug, is_planted};
use crate::state::role::Role;
use crate::state::{Durable, Effect, Live, Moment, Record, limits, permission, text};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;

/// Records the end of a run, once: the lead is notified, its questions are closed, its tasks are given back.
pub(crate) fn end_run(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    agent: &Agent,
    run: u32,
    mut outcome: Outcome,
) {
    // Several things of one step may each end it, as when all that waited for a machine expires.
    let is_ended = |it: &Record| matches!(it, Record::RunEnded { agent: of, run: n, .. } if *of == agent.id && *n >= run);
    if (run <= agent.runs || step.records.iter().any(is_ended)) && !is_planted(Bug::E3) {
        return;
    }
    text::cut(
        &mut outcome.result,
        limits::RESULT_LEN_MAX,
        "\n[The rest is in the worker's transcript.]",
    );
    text::cut(&mut outcome.reason, limits::REASON_LEN_MAX, "…");
    let thin = agent.phase == "research"
        && outcome.status == Status::Completed
        && outcome.usage.tool_uses < limits::THIN_TOOL_USES
        && outcome.usage.total_tokens() < limits::THIN_TOKENS;
    close_questions(durable, step, now, agent);
    let ended = Record::RunEnded {
        agent: agent.id.clone(),
        run,
        outcome: outcome.clone(),
        at_ms: now.wall_ms,
        thin,
    };
    step.record(ended);
    let event = Event::RunEnded { agent: agent.id.clone() };
    step.effect(Effect::Publish { session: agent.session.clone(), event });
    live.touch(&agent.id);
    if agent.role != Role::Worker {
        return;
    }
    if outcome.status != Status::Completed {
        give_back_tasks(durable, step, agent);
    }
    if let Some(far) = agent.far_lead() {
        guest::tell_end(durable, step, now, agent, far, outcome);
    } else if !is_waited_for(durable, agent, run) {
        notify_lead(durable, live, step, now, agent, run, outcome, thin);
    }
}

/// Whoever waits for the first run gets its outcome as the answer to the call. The lead does no more once its own run
/// has ended, or is being ended.
fn is_waited_for(durable: &Durable, agent: &Agent, run: u32) -> bool {
    let still_waits = |lead: &Agent| {
        let repeats = lead.runtime == Runtime::Native;
        lead.runs < agent.waited_run
            && !matches!(lead.life, Life::Stopping { .. })
            && (repeats || lead.incarnation == agent.waited_incarnation)
    };
    agent.waited_for && run == 1 && durable.lead_of(&agent.session).is_some_and(still_waits)
}

#[expect(clippy::too_many_arguments, reason = "one fact each about one run")]
fn notify_lead(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    agent: &Agent,
    run: u32,
    outcome: Outcome,
    thin: bool,
) {
    let Some(lead) = durable.lead_of(&agent.session) else { return };
    if is_planted(Bug::B1) && lead.run_is_open() {
        return;
    }
    // The numbers already taken by this step's records count too.
    let mut numbers = Numbers::after(durable, step);
    let kind = Kind::Notification {
        agent: agent.id.clone(),
        run,
        outcome: without_result(&outcome),
        thin,
    };
    let summary =
        summary(agent, &LastRun { outcome: outcome.clone(), ended_ms: now.wall_ms, thin });
    let draft = Draft { from: Sender::System, kind, text: outcome.result, summary };
    mailbox::accept(&mut numbers, live, step, now, lead, draft);
}

/// The notification's one line: which worker, how it ended, and for failures why and of which class (W-8).
pub fn summary(agent: &Agent, last: &LastRun) -> String {
    let name = &agent.name;
    let outcome = &last.outcome;
    let reason =
        if outcome.reason.is_empty() { String::new() } else { format!(": {}", outcome.reason) };
    match outcome.status {
        Status::Completed if last.thin => {
            format!(
                "Agent \"{name}\" completed (thin: it used almost no tools, doubt its findings)"
            )
        }
        Status::Completed => format!("Agent \"{name}\" completed"),
        Status::Killed => format!("Agent \"{name}\" was stopped{reason}"),
        Status::Failed => {
            let class = match outcome.class {
                Some(Class::Retryable) => "retryable",
                Some(Class::Adjust) => "adjust",
                Some(Class::Fatal) | None => "fatal",
            };
            format!("Agent \"{name}\" failed ({class}){reason}")
        }
    }
}

fn close_questions(durable: &Durable, step: &mut Step, now: &Moment, agent: &Agent) {
    for open in durable.open_questions(&agent.id) {
        let reason = "the run ended before the question was answered".to_owned();
        let answer = permission::Answer {
            allow: false,
            reason,
            rule: String::new(),
            at_ms: now.wall_ms,
            unheard_by: 0,
        };
        step.record(Record::PermissionAnswered { id: open.id, answer });
        let event = Event::PermissionAnswered { id: open.id, allowed: false };
        step.effect(Effect::Publish { session: agent.session.clone(), event });
    }
}

fn give_back_tasks(durable: &Durable, step: &mut Step, agent: &Agent) {
    let Some(team) = durable.team_of(&agent.session) else { return };
    let given_back = task::given_back(team, agent.name.as_str());
    if !given_back.is_empty() && !team.deleting {
        step.effect(Effect::WriteTeam { team: team.name.clone() });
    }
    for given in given_back {
        let event = Event::TaskChanged { team: team.name.clone(), task: given.id };
        step.record(Record::TaskPut { team: team.name.clone(), task: given });
        step.effect(Effect::Publish { session: agent.session.clone(), event });
    }
}

/// Begins to end an agent. Returns whether it has a process that must be waited for, and how many messages went back.
pub(crate) fn stop(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    agent: &Agent,
    by: &str,
    keep_mail: bool,
) -> (bool, u32) {
    let mut bounced = 0;
    if !keep_mail {
        if !agent.parked {
            step.record(Record::AgentParked { agent: agent.id.clone() });
        }
        // What its process has may be in its conversation already; that is known when it has ended.
        let is_free = |it: &Message| !agent.has_process() || it.state == State::Accepted;
        bounced = mailbox::bounce(durable, live, step, now, agent, &was_stopped(agent), is_free);
        if !agent.has_process() && agent.owes_outcome() {
            end_run(durable, live, step, now, agent, agent.runs + 1, killed(by));
        }
    }
    match &agent.life {
        Life::Down => return (false, bounced),
        Life::Waiting => {
            step.record(Record::AgentDown { agent: agent.id.clone() });
            publish_life(step, agent, Life::Down, by);
            return (false, bounced);
        }
        Life::Up => {
            let by = by.to_owned();
            step.record(Record::AgentStopping {
                agent: agent.id.clone(),
                by: by.clone(),
                keep_mail,
            });
            publish_life(step, agent, Life::Stopping { by, keep_mail }, "");
        }
        // A second request takes back what the first one granted: time, and that mail is kept.
        Life::Stopping { by, keep_mail: true } if !keep_mail => {
            let (agent, by) = (agent.id.clone(), by.clone());
            step.record(Record::AgentStopping { agent, by, keep_mail });
        }
        Life::Stopping { .. } => {}
    }
    if let Some(link) = live.links.get_mut(&agent.id) {
        // A process that nobody can tell anything is killed at once.
        let grace = if link.peer.is_some() { limits::STOP_GRACE_MS } else { 0 };
        let deadline = now.mono_ms.saturating_add(grace);
        link.deadline_mono_ms = Some(link.deadline_mono_ms.map_or(deadline, |at| at.min(deadline)));
        order_stop(step, link, by, waits_for_user(durable, agent, keep_mail));
    }
    live.touch(&agent.id);
    (true, bounced)
}

fn was_stopped(agent: &Agent) -> String {
    format!("{} was stopped", agent.name)
}

/// Tells a connected process to end, once for each connection.
pub(crate) fn order_stop(
    step: &mut Step,
    link: &mut crate::state::live::Link,
    by: &str,
    keeps_run: bool,
) {
    if let Some(peer) = link.peer
        && !link.told_to_stop
    {
        link.told_to_stop = true;
        step.effect(Effect::Order { peer, order: Order::Stop { by: by.to_owned(), keeps_run } });
    }
}

/// Whether a run is left open when its process is to end with its session: its question stays, and so does what it is about.
pub(crate) fn waits_for_user(durable: &Durable, agent: &Agent, keep_mail: bool) -> bool {
    keep_mail && agent.run_is_open() && durable.open_questions(&agent.id).next().is_some()
}

/// The outcome of a run that somebody ended from outside.
pub(crate) fn killed(by: &str) -> Outcome {
    Outcome::silent(Status::Killed, None, format!("by {by}"))
}

/// The end of a process, as the shell saw it.
pub(crate) struct Exit {
    pub(crate) agent: AgentId,
    pub(crate) incarnation: u32,
    pub(crate) how: String,
    /// What it left on disk about its last run.
    pub(crate) outcome: Option<(u32, Outcome)>,
}

/// A process ended. Late reports about earlier incarnations change nothing (invariant 4).
pub(crate) fn exited(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    exit: Exit,
) {
    let Some(agent) = durable.agents.get(&exit.agent) else { return };
    let is_earlier = agent.incarnation != exit.incarnation && !is_planted(Bug::A33);
    if is_earlier || !agent.has_process() {
        return;
    }
    let on_disk = exit.outcome.filter(|(run, _)| *run > agent.runs);
    let mut run_ended = on_disk.is_some();
    if let Some((run, outcome)) = on_disk {
        end_run(durable, live, step, now, agent, run, outcome);
    }
    // Not finished is a run in the middle, or mail that it was started for and has not read.
    let was_let_go = live.links.get(&agent.id).is_some_and(|link| link.told_to_stop);
    let unfinished = pty::comes_back(agent).unwrap_or(
        !agent.is_external()
            && !run_ended
            && (agent.run_is_open() || !(agent.mailbox.is_empty() || was_let_go)),
    );
    let (mut again, mut waits) = (false, false);
    match &agent.life {
        Life::Stopping { by, keep_mail } => {
            // Whoever waits for the user goes on when its session does.
            waits = !run_ended && waits_for_user(durable, agent, *keep_mail);
            let mut may_have_begun = false;
            if !keep_mail {
                // What came after the order to stop was never handed over, and wakes the agent again.
                let was_got = |it: &Message| it.state == State::Delivered;
                let reason = was_stopped(agent);
                let count = mailbox::bounce(durable, live, step, now, agent, &reason, was_got);
                live.count_bounced(&agent.id, count);
                may_have_begun = count > 0;
            }
            // Whoever keeps its mail and has not begun begins when the session goes on. Whoever may have begun a run without our
            // knowing must not go on with it later, when it is spoken to again.
            let owes = agent.owes_outcome() && !keep_mail;
            may_have_begun &= !agent.is_external();
            if !run_ended && !waits && (agent.run_is_open() || owes || may_have_begun) {
                end_run(durable, live, step, now, agent, agent.runs + 1, killed(by));
                run_ended = true;
            }
        }
        Life::Up if unfinished && agent.crashes + 1 >= limits::CRASHES_MAX => {
            let times = limits::CRASHES_MAX;
            let reason = format!(
                "its process ended {times} times in the middle of its work, last with {}",
                exit.how
            );
            give_up(durable, live, step, now, agent, Class::Retryable, reason);
            run_ended = true;
        }
        Life::Up => {
            again = unfinished;
            pty::lost(durable, live, step, now, agent, &exit.how);
        }
        Life::Down | Life::Waiting => {}
    }
    if !again && !run_ended && !waits {
        close_questions(durable, step, now, agent);
    }
    let reason = if again {
        format!("its process ended with {}; it is started again", exit.how)
    } else {
        pty::last_words(agent)
    };
    gone(live, step, agent, again, &reason);
}

/// A process could not be started, and trying again would not help (rel-53).
pub(crate) fn spawn_failed(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    exit: Exit,
) {
    let Some(agent) = durable.agents.get(&exit.agent) else { return };
    if agent.incarnation != exit.incarnation {
        return;
    }
    match agent.life {
        Life::Up => {
            give_up(durable, live, step, now, agent, Class::Fatal, exit.how.clone());
            gone(live, step, agent, false, &exit.how);
        }
        // It was to end anyway, and has.
        Life::Stopping { .. } => exited(durable, live, step, now, exit),
        Life::Down | Life::Waiting => {}
    }
}

/// An agent has no process any more. Whoever still speaks in its name is not it (invariant 4).
pub(crate) fn gone(live: &mut Live, step: &mut Step, agent: &Agent, again: bool, reason: &str) {
    if let Some(peer) = live.links.remove(&agent.id).and_then(|link| link.peer) {
        live.forget_peer(peer);
        step.effect(Effect::Close { peer, denial: Denial::BadCredentials });
    }
    live.place_freed = true;
    live.touch(&agent.id);
    step.record(Record::AgentExited {
        agent: agent.id.clone(),
        incarnation: agent.incarnation,
        again,
    });
    publish_life(step, agent, Life::Down, reason);
}

/// Ends what an agent was to do, since its process cannot do it: one failed run, and its mail goes back.
fn give_up(
    durable: &Durable,
    live: &mut Live,
    step: &mut Step,
    now: &Moment,
    agent: &Agent,
    class: Class,
    reason: String,
) {
    step.record(Record::AgentParked { agent: agent.id.clone() });
    mailbox::bounce(durable, live, step, now, agent, &reason, |_| true);
    // Nobody is notified of a lead's run: the user is told.
    if agent.role != Role::Worker {
        let text = format!(
            "{} gave up: {reason}. Its mail went back to who sent it; a new prompt starts it again.",
            agent.name
        );
        let event = Event::Warning(text);
        step.effect(Effect::Publish { session: agent.session.clone(), event });
    }
    let outcome = Outcome::silent(Status::Failed, Some(class), reason);
    end_run(durable, live, step, now, agent, agent.runs + 1, outcome);
}

/// Tells subscribers where an agent is now.
pub(crate) fn publish_life(step: &mut Step, agent: &Agent, life: Life, reason: &str) {
    let event = Event::AgentChanged { agent: agent.id.clone(), life, reason: reason.to_owned() };
    step.effect(Effect::Publish { session: agent.session.clone(), event });
}
