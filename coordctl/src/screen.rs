//! The terminal of a member, in the user's terminal: what `attach` shows of a terminal that coordd
//! runs.
//!
//! ```text
//!   keys, sizes ──▶ [queue] ──▶ this loop ──screen_input──▶ coordd
//!   coordd ─frames─▶   │             │
//!                                    └──▶ canvas: what is to be seen ──▶ the user's terminal, in raw mode
//! ```
//!
//! Attaching changes nothing (case K7), and the user's terminal is restored, however this ends. The
//! program's output does not get here: pictures of its screen do, and those are drawn anew.

mod canvas;
mod inputs;
mod keys;
mod raw;

use std::time::{Duration, Instant};

use canvas::Canvas;
use inputs::{Input, Inputs};
pub(crate) use keys::DetachKeys;
use keys::Pressed;
use nix::sys::signal::Signal;
use proto::error::{ErrorBody, ErrorCode};
use proto::event::Event;
use proto::request::Request;
use proto::screen::{Assembly, Bytes, Came, Frame, PART_LEN_MAX, Size};
use proto::view::{AgentState, AgentView};
use raw::Raw;

use crate::error::{Exit, Failure};
use crate::{client::Caller, context::Context, expect, output};

/// How long coordd may be gone before that is taken for its end.
const AWAY_MAX: Duration = Duration::from_secs(15);
/// Between two looks for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long to wait for a whole picture before asking again.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long the line about the keys is shown.
const HINT_FOR: Duration = Duration::from_secs(4);

/// How a terminal is attached to.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) keys: DetachKeys,
    /// Nothing is typed, and the size stays.
    pub(crate) read_only: bool,
}

/// Shows the terminal until the user leaves it or its program ends.
pub(crate) fn attach(
    context: &mut Context,
    agent: &AgentView,
    path: &str,
    options: Options,
) -> Result<Exit, Failure> {
    let own = raw::size().ok_or_else(|| {
        Failure::new(Exit::CannotAttach, "the size of this terminal is unknown")
            .hint("`coordctl attach --screen` shows the screen once")
    })?;
    let inputs = Inputs::new()?;
    let size = (!options.read_only).then_some(own);
    let (client, response) = open(context, &agent.id, size)?;
    expect!(response, Subscribed { .. });
    let caller = client.caller()?;
    let hint = format!(
        "{path}{}: {} detaches, and it runs on",
        if options.read_only { " (read only)" } else { "" },
        options.keys
    );
    let mut it = Attached {
        agent: agent.id.clone(),
        caller,
        inputs,
        options,
        assembly: Assembly::default(),
        incarnation: None,
        canvas: Canvas::new(own, hint),
        asked: Instant::now(),
        is_whole: false,
    };
    it.inputs.follow(client);
    let raw = Raw::enter().map_err(|error| {
        Failure::new(Exit::CannotAttach, format!("the terminal cannot be used: {error}"))
    })?;
    let left = it.run(context);
    drop(raw);
    said(context, path, left)
}

/// What is asked first; a terminal that is not there has an exit code of its own.
fn open(
    context: &mut Context,
    agent: &str,
    size: Option<Size>,
) -> Result<(crate::client::Client, proto::response::Response), Failure> {
    let request = Request::Screen { agent: agent.to_owned(), size };
    context.open(request).map_err(|error| {
        let exit = if error.exit == Exit::Denied { Exit::CannotAttach } else { error.exit };
        Failure { exit, ..error }
    })
}

/// Why the terminal is shown no more.
#[derive(Debug)]
enum Left {
    Detached,
    /// Its program has ended, or was ended.
    Ended(Box<AgentView>),
    /// Its session was removed.
    Removed,
    /// coordd is gone.
    Lost,
    /// We were told to end.
    Signal(Signal),
    /// The output was closed.
    Closed,
}

/// Prints the end, once the terminal is restored.
fn said(context: &Context, path: &str, left: Result<Left, Failure>) -> Result<Exit, Failure> {
    let say = |text: String| {
        if !context.json {
            output::note(&text);
        }
    };
    Ok(match left? {
        Left::Detached => {
            say(format!(
                "detached; {path} runs on. `coordctl attach {path}` reattaches, `coordctl stop {path}` stops it"
            ));
            Exit::Done
        }
        Left::Ended(agent) => ended(&agent, path, &say),
        Left::Removed => {
            say("the session was removed".to_owned());
            Exit::Program(STOPPED)
        }
        Left::Lost => {
            return Err(Failure::new(
                Exit::Lost,
                format!("coordd is gone, and did not return within {} s", AWAY_MAX.as_secs()),
            )
            .hint(format!(
                "{path} runs on without it; `coordctl attach {path}` starts coordd and reattaches"
            )));
        }
        Left::Signal(signal) => Exit::Program(u8::try_from(128 + signal as i32).unwrap_or(1)),
        Left::Closed => Exit::Done,
    })
}

fn ended(agent: &AgentView, path: &str, say: &dyn Fn(String)) -> Exit {
    let Some(ended) = &agent.ended else {
        say(format!("{path} was stopped"));
        return Exit::Program(STOPPED);
    };
    let said = if ended.said.is_empty() { String::new() } else { format!(": {}", ended.said) };
    let status = ended.status;
    say(format!(
        "the program in {path} ended with status {status}{said}. A message to it starts it again"
    ));
    Exit::Program(status)
}

/// What a program says that was ended by TERM.
const STOPPED: u8 = 128 + 15;

struct Attached {
    agent: String,
    caller: Caller,
    inputs: Inputs,
    options: Options,
    assembly: Assembly,
    incarnation: Option<u32>,
    canvas: Canvas,
    /// When a whole picture was asked for.
    asked: Instant,
    /// Whether it came.
    is_whole: bool,
}

impl Attached {
    fn run(&mut self, context: &mut Context) -> Result<Left, Failure> {
        let began = Instant::now();
        loop {
            let wait = if self.canvas.has_hint() { HINT_FOR } else { ASK_EVERY };
            let mut next = self.inputs.next(wait);
            // All that has come, then one picture.
            while let Some(input) = next {
                if let Some(left) = self.take(context, input)? {
                    return Ok(left);
                }
                next = self.inputs.next(Duration::ZERO);
            }
            if began.elapsed() >= HINT_FOR {
                self.canvas.drop_hint();
            }
            if !self.is_whole && self.asked.elapsed() >= ASK_EVERY {
                self.ask();
            }
            if self.canvas.draw().is_err() {
                return Ok(Left::Closed);
            }
        }
    }

    fn take(&mut self, context: &mut Context, input: Input) -> Result<Option<Left>, Failure> {
        match input {
            Input::Event { of, event } if self.inputs.is_current(of) => {
                return self.happened(context, *event);
            }
            Input::Lost { of, why } if self.inputs.is_current(of) => {
                return self.reattach(context, why);
            }
            // Of a connection that is no longer ours.
            Input::Event { .. } | Input::Lost { .. } => {}
            Input::Typed(bytes) => return Ok(self.typed(&bytes)),
            Input::Hangup | Input::Signal(_) => return Ok(self.noticed(&input)),
        }
        Ok(None)
    }

    /// What counts also while there is no coordd.
    fn noticed(&mut self, input: &Input) -> Option<Left> {
        match input {
            Input::Event { .. } | Input::Lost { .. } | Input::Typed(_) => {}
            // Without a keyboard there is nobody to leave.
            Input::Hangup => return Some(Left::Detached),
            Input::Signal(Signal::SIGWINCH) => self.resized(),
            Input::Signal(Signal::SIGCONT) => {
                Raw::again();
                self.canvas.forget();
            }
            Input::Signal(signal) => return Some(Left::Signal(*signal)),
        }
        None
    }

    fn happened(&mut self, context: &mut Context, event: Event) -> Result<Option<Left>, Failure> {
        if let Event::Screen { agent, frame } = event {
            if agent == self.agent {
                self.frame(frame);
            }
        } else if let Event::AgentChanged { agent, state: AgentState::Stopped, .. } = event {
            if agent == self.agent {
                return self.is_over(context);
            }
        } else if matches!(event, Event::SessionRemoved {}) {
            return Ok(Some(Left::Removed));
        }
        Ok(None)
    }

    fn frame(&mut self, frame: Frame) {
        let is_new = self.incarnation.replace(frame.incarnation) != Some(frame.incarnation);
        match self.assembly.take(frame) {
            Came::Picture { whole, size, bytes } => {
                self.is_whole |= whole;
                self.canvas.take(size, &bytes);
            }
            Came::Missed => self.ask(),
            Came::Nothing => {}
        }
        // A restarted terminal does not have this viewer's size.
        if is_new {
            self.say_size();
        }
    }

    fn ask(&mut self) {
        (self.is_whole, self.asked) = (false, Instant::now());
        // Where it fails the connection is lost, which comes by the other way.
        let _asked = self.caller.say(Request::Screen { agent: self.agent.clone(), size: None });
    }

    fn typed(&mut self, bytes: &[u8]) -> Option<Left> {
        self.canvas.drop_hint();
        let Pressed { mut send, leaves } = self.options.keys.press(bytes);
        if self.options.read_only {
            send.clear();
        }
        for piece in send.chunks(PART_LEN_MAX) {
            self.say_input(piece.to_vec());
        }
        leaves.then_some(Left::Detached)
    }

    fn say_input(&mut self, bytes: Vec<u8>) {
        let (agent, size) = (self.agent.clone(), Some(self.canvas.own()));
        let input = Request::ScreenInput { agent, size, bytes: Bytes(bytes) };
        let _said = self.caller.say(input);
    }

    fn say_size(&mut self) {
        if !self.options.read_only {
            self.say_input(Vec::new());
        }
    }

    fn resized(&mut self) {
        if let Some(own) = raw::size() {
            self.canvas.resize(own);
            self.say_size();
        }
    }

    /// Whether the terminal is down for good. A lost one is restarted at once.
    fn is_over(&mut self, context: &mut Context) -> Result<Option<Left>, Failure> {
        match context.call_running(Request::AgentShow { agent: self.agent.clone() }) {
            Ok(proto::response::Response::Agent { agent }) => {
                let is_down = agent.state == AgentState::Stopped;
                Ok(is_down.then(|| Left::Ended(Box::new(agent))))
            }
            Ok(_) => Err(crate::context::unexpected("agent")),
            Err(crate::client::ClientError::Denied(body)) if body.code == ErrorCode::NotFound => {
                Ok(Some(Left::Removed))
            }
            // The connection is lost too, then.
            Err(_) => Ok(None),
        }
    }

    /// coordd is away. If it reported a stop, that was intended; otherwise it is started again.
    fn reattach(
        &mut self,
        context: &mut Context,
        why: Option<ErrorBody>,
    ) -> Result<Option<Left>, Failure> {
        let was_told = why.is_some_and(|it| it.code == ErrorCode::ShuttingDown);
        self.canvas.say("coordd is away; the program runs on, but what you type is lost");
        let _drawn = self.canvas.draw();
        let until = Instant::now() + AWAY_MAX;
        while Instant::now() < until {
            let is_there = !was_told || context.call_running(Request::Ping {}).is_ok();
            let size = (!self.options.read_only).then_some(self.canvas.own());
            match is_there.then(|| open(context, &self.agent.clone(), size)) {
                Some(Ok((client, _))) => {
                    self.caller = client.caller()?;
                    self.inputs.follow(client);
                    self.assembly.forget();
                    self.is_whole = false;
                    self.asked = Instant::now();
                    self.canvas.drop_hint();
                    self.canvas.forget();
                    return Ok(None);
                }
                Some(Err(error)) if error.exit == Exit::CannotAttach => {
                    return match self.is_over(context)? {
                        Some(left) => Ok(Some(left)),
                        None => Ok(Some(Left::Lost)),
                    };
                }
                Some(Err(_)) | None => {}
            }
            match self.inputs.next(LOOK_EVERY) {
                Some(Input::Typed(bytes)) if self.options.keys.press(&bytes).leaves => {
                    return Ok(Some(Left::Detached));
                }
                // What is typed meanwhile goes nowhere.
                Some(Input::Typed(_)) | None => {}
                Some(other) => {
                    if let Some(left) = self.noticed(&other) {
                        return Ok(Some(left));
                    }
                }
            }
        }
        Ok(Some(Left::Lost))
    }
}

/// The text of the screen, printed once: for scripts, and for a quick look.
pub(crate) fn once(context: &mut Context, agent: &AgentView) -> Result<Exit, Failure> {
    let (mut client, response) = open(context, &agent.id, None)?;
    expect!(response, Subscribed { .. });
    let mut assembly = Assembly::default();
    let until = Instant::now() + AWAY_MAX;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let crate::client::Pushed::Event(event) = client.next_pushed(Some(left))? else { continue };
        let Event::Screen { frame, .. } = event.event else { continue };
        let Came::Picture { whole: true, size, bytes } = assembly.take(frame) else { continue };
        let text = canvas::text(size, &bytes);
        let written = if context.json {
            let Size { rows, columns } = size;
            let json =
                serde_json::json!({ "screen": { "rows": rows, "columns": columns, "text": text } });
            output::json(&json).map_err(|_| ())
        } else {
            output::print(&text).map_err(|_| ())
        };
        return written
            .map(|()| Exit::Done)
            .map_err(|()| Failure::new(Exit::Done, "the output was closed"));
    }
    Err(Failure::new(Exit::CannotAttach, "the terminal shows nothing")
        .hint("it may be starting; try again in a moment"))
}
