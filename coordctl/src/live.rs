//! A session as it happens, in lines: what `attach`, `run`, `demo` and `logs -f` show.
//!
//! [`Live`] keeps the connection and takes input from the daemon, the keyboard and Ctrl-C in one
//! place; [`view::View`] turns events into lines and does no I/O. Calls to coordd go over
//! connections of their own.

mod asking;
pub(crate) mod feed;
pub(crate) mod flow;
pub(crate) mod roster;
pub(crate) mod transcript;
mod typing;
pub(crate) mod view;

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use feed::{Feed, Input, Keyboard};
use proto::error::{ErrorBody, ErrorCode};
use proto::event::{Event, Numbered};
use proto::request::Request;
use proto::response::Response;
use proto::view::{AgentView, SessionState, SessionView};
use view::View;

use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::expect;
use crate::input::{Did, Input as TypedLine};
use crate::output;
use crate::question::desk::Typed;
use crate::terminal::{Style, line};

/// How long a daemon that was stopped in order may take to return before it counts as gone.
const RESTART_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Without news for so long, the agents at work are shown again.
const REMIND_EVERY: Duration = Duration::from_secs(30);

/// What a caller may want to act on; events have been shown already.
#[derive(Debug)]
pub(crate) enum Next {
    Event(Box<Numbered>),
    Line(Typed),
    InputEnded,
    Interrupt,
    /// Nothing within the time.
    Quiet,
    /// The session was removed.
    Gone,
}

/// Which session, and how it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) session: String,
    /// One agent only; empty means the lead.
    pub(crate) agent: String,
    pub(crate) history: Option<u32>,
    /// Whether keyboard input is taken.
    pub(crate) input: bool,
    /// Where lines go: stderr when stdout is for JSON.
    pub(crate) sink: Sink,
}

/// Where the lines of a live view go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    Stdout,
    Stderr,
    /// Nowhere: the caller prints events itself.
    Nothing,
}

/// A session that is attached to.
pub(crate) struct Live {
    pub(crate) session: SessionView,
    pub(crate) view: View,
    feed: Feed,
    options: Options,
    shown_at: Instant,
    /// The line that is typed, where the terminal is ours; and what came of keys and was not taken yet.
    input: Option<TypedLine>,
    typed: VecDeque<Did>,
}

impl Live {
    pub(crate) fn attach(context: &mut Context, mut options: Options) -> Result<Self, Failure> {
        let (session, agents) = show(context, &options.session)?;
        options.session.clone_from(&session.id);
        let streams = options.sink == Sink::Stdout && std::io::stdout().is_terminal();
        let style = if options.sink == Sink::Stdout { context.style } else { Style::default() };
        let mut view = View::new(style, streams, &session, &options.agent);
        view.roster.replace(&agents);
        let on_terminals = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        view.answers = options.input && on_terminals && options.sink == Sink::Stdout;
        // Signals are watched before the terminal is taken, so that it is given back whatever ends us.
        let feed = Feed::new();
        let input = if view.answers { TypedLine::take(style) } else { None };
        feed.read(match (options.input, &input) {
            (false, _) => Keyboard::Ignored,
            (true, None) => Keyboard::Lines,
            (true, Some(_)) => Keyboard::Keys,
        });
        let (shown_at, typed) = (Instant::now(), VecDeque::new());
        let mut live = Self { session, view, feed, options, shown_at, input, typed };
        live.connect(context)?;
        Ok(live)
    }

    /// Writes to where the lines go.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        self.shown_at = Instant::now();
        let written = match self.options.sink {
            Sink::Stdout => {
                let prompt = self.prompt();
                match &mut self.input {
                    Some(input) => output::print(&input.above(text, &prompt)),
                    None => output::print(text),
                }
            }
            Sink::Stderr => std::io::stderr().lock().write_all(text.as_bytes()),
            Sink::Nothing => Ok(()),
        };
        // The reader of our output is gone: the same as detaching.
        written.map_err(|_| Failure::new(Exit::Done, "the output was closed"))
    }

    /// Shows events until one of them needs an action.
    pub(crate) fn next(&mut self, context: &mut Context, wait: Duration) -> Result<Next, Failure> {
        let until = Instant::now() + wait;
        loop {
            match self.typed.pop_front() {
                Some(Did::Submitted(typed)) => {
                    let shown =
                        format!("{}{}\n", self.prompt(), crate::terminal::clean(&typed.text));
                    self.print(&shown)?;
                    return Ok(Next::Line(typed));
                }
                Some(Did::Ended) => return Ok(Next::InputEnded),
                None => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            let Some(input) = self.feed.receive(left) else {
                self.remind()?;
                return Ok(Next::Quiet);
            };
            match input {
                Input::Event { of, event } if self.feed.is_current(of) => {
                    if matches!(event.event, Event::SessionRemoved {}) {
                        return Ok(Next::Gone);
                    }
                    if let Event::SessionChanged { state } = event.event {
                        self.session.state = state;
                    }
                    self.fit();
                    let text = self.view.event(&event, coordd_common::wall_ms());
                    self.print(&text)?;
                    if matches!(event.event, Event::CaughtUp {}) {
                        self.refresh(context)?;
                    }
                    return Ok(Next::Event(event));
                }
                Input::Lost { of, why } if self.feed.is_current(of) => {
                    if !self.reattach(context, why)? {
                        return Ok(Next::Gone);
                    }
                }
                // Of a connection that is no longer ours.
                Input::Event { .. } | Input::Lost { .. } => {}
                Input::Line(mut typed) => {
                    // A terminal that collects lines does not tell when one was begun.
                    typed.about = self.view.desk.drawn().map(|it| it.id.clone());
                    return Ok(Next::Line(typed));
                }
                Input::Keys(bytes) => {
                    let about = self.view.desk.drawn().map(|it| it.id.clone());
                    if let Some(input) = &mut self.input {
                        self.typed.extend(input.feed(&bytes, about.as_deref()));
                    }
                    self.redraw()?;
                }
                Input::Redraw => {
                    self.fit();
                    self.redraw()?;
                }
                Input::Ended => return Ok(Next::InputEnded),
                Input::Interrupt => return Ok(Next::Interrupt),
            }
        }
    }

    /// Whether the lead is idle, no worker runs or waits, no mail is on its way, and nothing is
    /// asked. One answer of the daemon tells, so that nothing falls between two looks. Unless it is
    /// to be `sure`, it is not asked while events say that somebody is at work.
    pub(crate) fn is_quiet(
        &mut self,
        context: &mut Context,
        sure: bool,
    ) -> Result<Option<(SessionView, Vec<AgentView>)>, Failure> {
        if !sure && self.view.roster.is_busy() {
            return Ok(None);
        }
        let (session, agents) = show(context, &self.options.session)?;
        let quiet = is_quiet(&session, &agents);
        self.view.roster.replace(&agents);
        Ok(quiet.then_some((session, agents)))
    }

    fn refresh(&mut self, context: &mut Context) -> Result<(), Failure> {
        let (session, agents) = show(context, &self.options.session)?;
        let questions = open_questions(context, &session.id)?;
        self.session = session;
        self.view.roster.replace(&agents);
        let text = self.view.ask(questions, coordd_common::wall_ms());
        self.print(&text)
    }

    fn connect(&mut self, context: &mut Context) -> Result<(), Failure> {
        let request = Request::Attach {
            session: self.options.session.clone(),
            agent: self.options.agent.clone(),
            history: self.options.history,
        };
        let (client, response) = context.open(request)?;
        expect!(response, Subscribed { .. });
        self.feed.follow(client);
        Ok(())
    }

    /// After the connection was lost: attaches again, starting the daemon if need be. What was
    /// shown is not shown again. False if the session is gone.
    fn reattach(&mut self, context: &mut Context, why: Option<ErrorBody>) -> Result<bool, Failure> {
        let name = line(&self.session.name);
        if why.as_ref().is_some_and(|it| it.code == ErrorCode::ShuttingDown) {
            self.note("coordctl: coordd has ended; waiting for it to return…")?;
            if !wait_for_daemon(context) {
                return Err(Failure::new(Exit::NoDaemon, "coordd was stopped")
                    .hint(format!("`coordctl attach {name}` starts it again and continues")));
            }
        } else {
            let why =
                why.map_or_else(|| "the connection to coordd was lost".to_owned(), |it| it.message);
            self.note(&format!("coordctl: {why}; reattaching…"))?;
        }
        // The whole transcript comes again; entries already shown are left out by their numbers.
        self.options.history = None;
        match self.connect(context) {
            Ok(()) => {
                self.note("coordctl: reattached")?;
                Ok(true)
            }
            Err(error) if error.exit == Exit::Denied => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remind(&mut self) -> Result<(), Failure> {
        if self.shown_at.elapsed() < REMIND_EVERY {
            return Ok(());
        }
        self.shown_at = Instant::now();
        let text = self.view.reminder(coordd_common::wall_ms());
        self.print(&text)
    }
}

/// See [`Live::is_quiet`].
pub(crate) fn is_quiet(session: &SessionView, agents: &[AgentView]) -> bool {
    if session.state == SessionState::Stopped {
        return agents.iter().all(|agent| agent.pid.is_none());
    }
    session.questions == 0
        && agents.iter().all(|agent| {
            !crate::words::is_busy(agent.state) && agent.mail == 0 && agent.run_started_ms.is_none()
        })
}

/// The one agent that a session, `session/agent`, an id or a name stands for; a session stands for
/// its lead.
pub(crate) fn find_agent(context: &mut Context, what: &str) -> Result<AgentView, Failure> {
    if !what.contains('/') {
        match context.call_or_denied(Request::SessionShow { session: what.to_owned() })? {
            Ok(response) => {
                let (session, agents) = detail(response)?;
                let lead = agents.into_iter().find(|agent| agent.id == session.lead);
                return lead.ok_or_else(|| Failure::failed(format!("session {what} has no lead")));
            }
            Err(body) if body.code == ErrorCode::NotFound => {
                return match context
                    .call_or_denied(Request::AgentShow { agent: what.to_owned() })?
                {
                    Ok(response) => agent(response),
                    // Of the two refusals, the one about sessions is shown, since it lists them.
                    Err(second) if second.code == ErrorCode::NotFound => Err(body.into()),
                    Err(second) => Err(second.into()),
                };
            }
            Err(body) => return Err(body.into()),
        }
    }
    agent(context.call(Request::AgentShow { agent: what.to_owned() })?)
}

fn agent(response: Response) -> Result<AgentView, Failure> {
    expect!(response, Agent { agent });
    Ok(agent)
}

/// A response that is a session with its agents.
pub(crate) fn detail(response: Response) -> Result<(SessionView, Vec<AgentView>), Failure> {
    expect!(response, SessionDetail { session, agents });
    Ok((session, agents))
}

/// A session with its agents.
pub(crate) fn show(
    context: &mut Context,
    session: &str,
) -> Result<(SessionView, Vec<AgentView>), Failure> {
    detail(context.call(Request::SessionShow { session: session.to_owned() })?)
}

/// The open questions of a session, or of all where none is named; the oldest first.
pub(crate) fn open_questions(
    context: &mut Context,
    session: &str,
) -> Result<Vec<proto::view::PermissionView>, Failure> {
    let response = context.call(Request::PermissionList { session: session.to_owned() })?;
    expect!(response, Permissions { permissions });
    Ok(permissions.into_iter().filter(|permission| permission.allowed.is_none()).collect())
}

/// Whether a daemon that ended in order is back in time; it is not started here, since somebody
/// stopped it.
fn wait_for_daemon(context: &mut Context) -> bool {
    let until = Instant::now() + RESTART_LIMIT;
    while Instant::now() < until {
        match context.call_running(Request::Ping {}) {
            Ok(_) => return true,
            Err(crate::client::ClientError::Denied(body))
                if body.code != ErrorCode::ShuttingDown =>
            {
                return false;
            }
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
    false
}
