//! `coordctl run`: gives a goal to a coordinator session, shows its progress, and tells the outcome
//! by the exit code.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use proto::agent::Role;
use proto::error::ErrorCode;
use proto::event::Event;
use proto::notification::{FailureClass, RunStatus};
use proto::request::Request;
use proto::view::{AgentView, PermissionView, SessionView};

use super::ended::{self, How};
use super::new::SessionArgs;
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::live::{Live, Next, Options, Sink};
use crate::question::desk::Typed;
use crate::terminal::{Paint, line};
use crate::{expect, format, live, output, words};

/// A second Ctrl-C within so long stops the session.
const TWICE: Duration = Duration::from_secs(2);
/// How often to check whether everything is idle; events cause a check at once.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What an agent is told whose question nobody can answer.
const UNATTENDED: &str = "this run is unattended and nobody can be asked; do without it, and say in your report what you would have needed";

/// Run a coordinator session here: give it a goal, show its progress, exit when it is done.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It exits when the lead is idle, no worker runs or waits, and no question is open. Ctrl-C detaches,\n\
                        and the session continues; a second Ctrl-C within 2 seconds stops it.\n\n\
                        Exit codes: 0 the job completed, or detached; 1 it failed; 2 wrong usage, such as no model;\n\
                        3 denied; 4 no coordd; 5 a question is open and nobody is here to answer it.\n\n\
                        Example: coordctl run \"make the flaky date test pass\" --allow \"Bash(make test*)\""
)]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArgs,
    /// The goal; `-` reads it from stdin.
    goal: String,
    /// What to do about a question: wait for the answer, deny it and tell the agent to do without, or exit with code 5 and
    /// leave it open. By default: wait at a terminal, exit elsewhere.
    #[arg(long, value_name = "WHAT")]
    on_question: Option<OnQuestion>,
    /// Remove the session at the end.
    #[arg(long)]
    rm: bool,
}

/// What becomes of a question while a job is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnQuestion {
    /// It waits for an answer, from here or elsewhere.
    Wait,
    /// It is answered with no.
    Deny,
    /// The showing ends; the question stays open.
    Exit,
}

impl OnQuestion {
    /// Where nobody can answer, nothing waits for ever.
    pub(crate) fn usual(takes_input: bool) -> Self {
        if takes_input { Self::Wait } else { Self::Exit }
    }
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    let goal = super::new::text_or_stdin(&args.goal)?;
    if goal.trim().is_empty() {
        return Err(Failure::usage("the goal is empty")
            .hint("give the goal as an argument, or `-` and write it to stdin")
            .into());
    }
    let begun = Instant::now();
    let mut session = super::new::prepare(context, &with_default_mode(&args.session), None)?;
    session.prompt = goal;
    let response = context.call(Request::SessionNew { session: Box::new(session) })?;
    expect!(response, Session { session });
    let takes_input = std::io::stdin().is_terminal() && !context.json;
    let sink = if context.json { Sink::Stderr } else { Sink::Stdout };
    let mut live = start(context, &session, takes_input, sink)?;
    let on_question = args.on_question.unwrap_or(OnQuestion::usual(takes_input));
    let manner = Manner { on_interrupt: OnInterrupt::Detach, on_question };
    let ending = follow(context, &mut live, manner)?;
    let exit = match ending {
        Ending::Quiet { session, agents } => {
            finish(context, &mut live, (&session, agents), args.rm, begun)?
        }
        Ending::Asked { session, agents, questions } => {
            ended::say_needs_input(&session, &questions);
            if context.json {
                ended::json(How::NeedsInput, (&session, &agents), &questions)?;
            }
            // What was asked for is still to be done, so --rm removes nothing.
            return Ok(Exit::NeedsInput);
        }
        Ending::Detached => return Ok(detach(&session)),
        Ending::Stopped => Exit::Failed,
        Ending::Gone => {
            output::note("the session was removed");
            return Ok(Exit::Failed);
        }
    };
    if args.rm {
        context.call(Request::SessionRemove { session: session.id, force: true })?;
    }
    Ok(exit)
}

/// A goal is for a coordinator, where this build has one.
fn with_default_mode(args: &SessionArgs) -> SessionArgs {
    let mut args = args.clone();
    if args.mode.is_none() && cfg!(feature = "coordinator") {
        args.mode = Some("coordinator".to_owned());
    }
    args
}

/// Attaches to a session that was just made.
pub(crate) fn start(
    context: &mut Context,
    session: &SessionView,
    input: bool,
    sink: Sink,
) -> Result<Live, Failure> {
    let options =
        Options { session: session.id.clone(), agent: String::new(), history: None, input, sink };
    let mut live = Live::attach(context, options)?;
    let heading = live.view.heading(session);
    live.print(&heading)?;
    Ok(live)
}

/// How the showing of a job ended.
pub(crate) enum Ending {
    Quiet {
        session: Box<SessionView>,
        agents: Vec<AgentView>,
    },
    /// Something is asked, and that was to end it.
    Asked {
        session: Box<SessionView>,
        agents: Vec<AgentView>,
        questions: Vec<PermissionView>,
    },
    Detached,
    Stopped,
    Gone,
}

/// What Ctrl-C does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// Detaches, unless a second Ctrl-C comes.
    Detach,
    /// The caller removes the session.
    End,
}

/// How a job is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) on_interrupt: OnInterrupt,
    pub(crate) on_question: OnQuestion,
}

/// Shows a job until all is quiet.
pub(crate) fn follow(
    context: &mut Context,
    live: &mut Live,
    manner: Manner,
) -> Result<Ending, Failure> {
    let ending = until_quiet(context, live, manner);
    live.give_back();
    ending
}

fn until_quiet(context: &mut Context, live: &mut Live, manner: Manner) -> Result<Ending, Failure> {
    loop {
        match live.next(context, LOOK_EVERY)? {
            Next::Event(event) => {
                if let Some(ending) = asked(context, live, manner.on_question)? {
                    return Ok(ending);
                }
                if may_end(&event.event)
                    && let Some((session, agents)) = live.is_quiet(context, false)?
                {
                    return Ok(Ending::Quiet { session: Box::new(session), agents });
                }
            }
            Next::Quiet => {
                if let Some((session, agents)) = live.is_quiet(context, true)? {
                    return Ok(Ending::Quiet { session: Box::new(session), agents });
                }
            }
            Next::Line(typed) => answer(context, live, &typed)?,
            Next::InputEnded => {}
            Next::Interrupt => match manner.on_interrupt {
                OnInterrupt::Detach => return interrupted(context, live),
                OnInterrupt::End => return Ok(Ending::Stopped),
            },
            Next::Gone => return Ok(Ending::Gone),
        }
    }
}

/// What becomes of the questions that are open now.
fn asked(
    context: &mut Context,
    live: &Live,
    on_question: OnQuestion,
) -> Result<Option<Ending>, Failure> {
    if live.view.desk.open().is_empty() {
        return Ok(None);
    }
    match on_question {
        OnQuestion::Wait => Ok(None),
        OnQuestion::Deny => {
            for question in live.view.desk.open() {
                deny_unattended(context, &question.id)?;
            }
            Ok(None)
        }
        OnQuestion::Exit => {
            let (session, agents) = live::show(context, &live.session.id)?;
            let questions = live::open_questions(context, &session.id)?;
            // Somebody else may have answered meanwhile.
            let is_asked = !questions.is_empty();
            let session = Box::new(session);
            Ok(is_asked.then_some(Ending::Asked { session, agents, questions }))
        }
    }
}

/// Nobody is there to be asked, and the agent is to know that it is no opinion about what it wants.
fn deny_unattended(context: &mut Context, id: &str) -> Result<(), Failure> {
    let request = Request::PermissionAnswer {
        id: id.to_owned(),
        allow: false,
        always: false,
        reason: UNATTENDED.to_owned(),
    };
    match context.call_or_denied(request)? {
        // Somebody else has answered meanwhile.
        Err(body) if body.code != ErrorCode::State => Err(body.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether after this event nothing may be left to do.
fn may_end(event: &Event) -> bool {
    matches!(
        event,
        Event::AgentChanged { .. }
            | Event::RunEnded { .. }
            | Event::PermissionAnswered { .. }
            | Event::SessionChanged { .. }
            | Event::MessageChanged { .. }
            | Event::CaughtUp {}
            | Event::Screen { .. }
            | Event::Activity { .. }
    )
}

fn answer(context: &mut Context, live: &mut Live, typed: &Typed) -> Result<(), Failure> {
    let text = typed.text.trim();
    let words: Vec<&str> = text.split_whitespace().collect();
    if let (["/show", id @ ..], false) = (words.as_slice(), typed.is_paste) {
        return match live.view.show(id.first().copied(), format::now_ms()) {
            Some(text) => live.print(&text),
            None => live.note("there is no such open question here"),
        };
    }
    let Some(words) = live.read(context, typed)? else { return Ok(()) };
    if words.trim().is_empty() {
        return Ok(());
    }
    let name = line(&live.session.name);
    live.note(&match live.view.desk.drawn() {
        Some(it) => format!(
            "{} is open: y, n or a answers it, with a note if you like: n use make check. `coordctl attach {name}` talks to the lead",
            line(&it.id)
        ),
        None => format!("this only shows the job; `coordctl attach {name}` talks to the lead"),
    })
}

/// The first Ctrl-C detaches, unless a second one follows soon.
fn interrupted(context: &mut Context, live: &mut Live) -> Result<Ending, Failure> {
    live.note("\ndetaching; Ctrl-C again within 2 seconds stops the session")?;
    let until = Instant::now() + TWICE;
    while Instant::now() < until {
        match live.next(context, until.saturating_duration_since(Instant::now()))? {
            Next::Interrupt => {
                context.call(Request::SessionStop { session: live.session.id.clone() })?;
                let name = line(&live.session.name);
                live.note(&format!(
                    "stopped; `coordctl resume {name} TEXT` resumes it with your prompt, \
                     `coordctl rm {name}` removes it"
                ))?;
                return Ok(Ending::Stopped);
            }
            Next::Gone => return Ok(Ending::Gone),
            Next::Event(_) | Next::Line(_) | Next::InputEnded | Next::Quiet => {}
        }
    }
    Ok(Ending::Detached)
}

fn detach(session: &SessionView) -> Exit {
    let name = line(&session.name);
    output::note(&format!(
        "detached; {name} runs on. `coordctl attach {name}` shows it, `coordctl stop {name}` stops it"
    ));
    Exit::Done
}

fn finish(
    context: &Context,
    live: &mut Live,
    (session, agents): (&SessionView, Vec<AgentView>),
    removes: bool,
    begun: Instant,
) -> anyhow::Result<Exit> {
    let problem = problem(session, &agents).or_else(|| ended::nothing_done(session, &agents));
    let text = match &problem {
        None => context.style.paint(Paint::Good, "✓ done"),
        Some(problem) => context.style.paint(Paint::Bad, &format!("✗ {problem}")),
    };
    live.print(&format!("\n{text} ({})\n", summary(session, &agents, begun.elapsed())))?;
    if problem.is_some() && !removes {
        output::note(&what_next(&line(&session.name), fatal(session, &agents)));
    }
    if context.json {
        ended::json(How::Idle, (session, &agents), &[])?;
    }
    Ok(if problem.is_none() { Exit::Done } else { Exit::Failed })
}

/// Whether the lead's last run failed in a way that trying again does not mend.
fn fatal(session: &SessionView, agents: &[AgentView]) -> bool {
    let lead = agents.iter().find(|agent| agent.id == session.lead);
    let last = lead.and_then(|lead| lead.last.as_ref());
    last.is_some_and(|last| last.class == Some(FailureClass::Fatal))
}

/// The hint for a job that did not complete.
fn what_next(name: &str, is_fatal: bool) -> String {
    let logs = format!("`coordctl logs {name}` shows all of it");
    // The agents keep the environment that they were started with.
    if is_fatal {
        return format!(
            "{logs}. If it is a key or an address, set the right one here: `coordctl stop {name}`, then \
             `coordctl resume {name}`, then `coordctl send {name} TEXT` continues with it"
        );
    }
    format!("{logs}; `coordctl send {name} TEXT` continues")
}

/// Why the job as a whole did not complete (L-3), if it did not.
pub(crate) fn problem(session: &SessionView, agents: &[AgentView]) -> Option<String> {
    let lead = agents.iter().find(|agent| agent.id == session.lead);
    let Some(last) = lead.and_then(|lead| lead.last.as_ref()) else {
        return Some("the lead has not run".to_owned());
    };
    if last.status != RunStatus::Completed {
        return Some(format!("the lead's last run {}", words::last_run(last)));
    }
    let output = session.output.as_ref()?;
    let status = output.get("status").and_then(|output| output.as_str()).unwrap_or_default();
    let summary = output.get("summary").and_then(|output| output.as_str()).unwrap_or_default();
    (status == "failed").then(|| format!("the job failed: {}", line(summary)))
}

fn summary(session: &SessionView, agents: &[AgentView], elapsed: Duration) -> String {
    let workers = agents.iter().filter(|agent| agent.role == Role::Worker).count();
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    format!(
        "{}, {}, {} tokens, {}",
        format::count(workers as u64, "worker"),
        format::count(session.usage.tool_uses, "tool"),
        format::tokens(session.usage.total_tokens()),
        format::duration(ms)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_wrong_key_the_hint_says_how_the_agents_get_another() {
        let hint = what_next("p", true);
        let at = |text: &str| hint.find(text).unwrap();
        assert!(at("coordctl stop p") < at("coordctl resume p"), "{hint}");
        assert!(at("coordctl resume p") < at("coordctl send p TEXT"), "{hint}");
        assert!(!what_next("p", false).contains("resume"));
    }
}
