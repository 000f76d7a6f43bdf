//! `coordctl attach`: the conversation so far and live, with input.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use proto::agent::Role;
use proto::entry::What;
use proto::event::Event;
use proto::request::Request;
use proto::view::{AgentView, SessionState};

use crate::config::Config;
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::live::{self, Live, Next, Options, Sink};
use crate::question::answer::{self, Given};
use crate::question::desk::Typed;
use crate::screen::{self, DetachKeys};
use crate::terminal::line;
use crate::{format, output};

/// Two Ctrl-C within so long detach.
const TWICE: Duration = Duration::from_secs(2);
/// How often to check whether everything is idle, where that ends the command; events cause a check
/// at once.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Show a session live and talk to its lead, or show a member's terminal.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What you type goes to the lead. /detach or Ctrl-D detaches and stops nothing; Ctrl-C interrupts\n\
                        the lead; /help lists the rest. An open question is shown above the input: y, n or a answers it, with\n\
                        a note if you like. Pasted text is never an answer. If the input is no terminal, it exits once\n\
                        everything is idle.\n\n\
                        Exit codes: 0 detached or all idle, 1 the session ended or was removed,\n\
                        3 unknown, or a line that was not typed in a terminal was refused; 4 no coordd.\n\n\
                        A member made by `coordctl team invite --start` is a terminal: every key goes to its program,\n\
                        except Ctrl-b d, which detaches (Ctrl-b Ctrl-b sends one Ctrl-b). It has the size of the viewer\n\
                        that typed last. If input or output is no terminal, its screen is printed once.\n\n\
                        Exit codes: 0 detached, 125 coordd was lost, 126 it is not running; otherwise the program's own\n\
                        (143 when it was stopped).\n\n\
                        Example: coordctl attach dates\n\
                        Example: coordctl attach dates/m1 --detach-keys ctrl-a,d"
)]
pub(crate) struct Args {
    /// SESSION (its lead and workers) or SESSION/AGENT.
    session: String,
    /// Show only the last N entries of the conversation so far.
    #[arg(long, value_name = "N")]
    history: Option<u32>,
    /// For a terminal: print its screen once.
    #[arg(long)]
    screen: bool,
    /// For a terminal: only look. Nothing is typed, and its size stays.
    #[arg(long)]
    read_only: bool,
    /// For a terminal: the keys that detach from it.
    #[arg(long, value_name = "KEYS")]
    detach_keys: Option<DetachKeys>,
}

const HELP: &str =
    "  text          goes to the lead; write //text for text that begins with a slash
  y, n, a       answer the question shown: yes, no, always; a note may follow: n use make check
  /show [ID]    show a whole question, and answer that one next
  /permit ID allow|always|deny [NOTE]   answer another one
  /say TEXT     send text to the lead that would read as an answer
  /status       what each agent does
  /stop NAME    stop an agent's run; /stop alone stops the session
  /detach       detach; everything runs on
";

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    let target = live::find_agent(context, &args.session)?;
    if target.screen || args.screen {
        return terminal(context, args, &target);
    }
    let is_one = args.session.contains('/') || matches!(target.role, Role::Worker | Role::Peer);
    let options = Options {
        session: target.session.clone(),
        agent: if is_one { target.id.clone() } else { String::new() },
        history: args.history,
        input: true,
        sink: if context.json { Sink::Nothing } else { Sink::Stdout },
    };
    let live = Live::attach(context, options)?;
    let is_terminal = std::io::stdin().is_terminal();
    let agent = is_one.then(|| target.id.clone());
    Attached {
        live,
        agent,
        watched: target.id,
        run_shown: 0,
        is_terminal,
        input_ended: false,
        caught_up: false,
        outcome: Exit::Done,
        interrupted: None,
    }
    .run(context)
}

/// The terminal of a member.
fn terminal(context: &mut Context, args: &Args, target: &AgentView) -> anyhow::Result<Exit> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if args.screen || context.json || !is_terminal {
        return Ok(screen::once(context, target)?);
    }
    let keys = match (&args.detach_keys, Config::load(&context.paths.config_file)?.detach_keys) {
        (Some(keys), _) => keys.clone(),
        (None, Some(text)) => text.parse().map_err(|error| {
            Failure::usage(format!(
                "`detach_keys` in {}: {error}",
                context.paths.config_file.display()
            ))
        })?,
        (None, None) => DetachKeys::default(),
    };
    let session = live::show(context, &target.session)?.0;
    let path = format!("{}/{}", line(&session.name), line(&target.name));
    let options = screen::Options { keys, read_only: args.read_only };
    Ok(screen::attach(context, target, &path, options)?)
}

struct Attached {
    live: Live,
    /// The one agent that is attached to; none means the lead.
    agent: Option<String>,
    /// The agent whose words are shown whole.
    watched: String,
    /// Its last run whose end was shown.
    run_shown: u32,
    is_terminal: bool,
    input_ended: bool,
    caught_up: bool,
    /// What a script is told at the end: denied, when a line was not taken.
    outcome: Exit,
    interrupted: Option<Instant>,
}

impl Attached {
    fn run(mut self, context: &mut Context) -> anyhow::Result<Exit> {
        let heading = self.live.view.heading(&self.live.session);
        self.live.print(&heading)?;
        if self.live.session.state == SessionState::Stopped {
            self.live.note(&stopped(&line(&self.live.session.name)))?;
        }
        loop {
            match self.live.next(context, LOOK_EVERY)? {
                Next::Event(event) => {
                    if context.json {
                        output::json(&event)?;
                    }
                    self.note_end(&event.event);
                    if matches!(event.event, Event::CaughtUp {}) {
                        self.caught_up = true;
                        if self.is_terminal {
                            let text = self.live.view.status(coordd_common::wall_ms());
                            self.live.print(&text)?;
                        }
                    }
                    if self.is_over(context, false)? {
                        return Ok(self.exit());
                    }
                }
                Next::Quiet => {
                    if self.is_over(context, true)? {
                        return Ok(self.exit());
                    }
                }
                Next::Line(typed) => {
                    if self.line(context, &typed)? {
                        return Ok(self.detach());
                    }
                }
                Next::InputEnded if self.is_terminal => return Ok(self.detach()),
                Next::InputEnded => self.input_ended = true,
                Next::Interrupt => {
                    if self.interrupt(context)? {
                        return Ok(self.detach());
                    }
                }
                Next::Gone => {
                    self.live.note("the session was removed")?;
                    return Ok(Exit::Failed);
                }
            }
        }
    }

    fn note_end(&mut self, event: &Event) {
        if let Event::Entry { agent, entry, .. } = event
            && *agent == self.watched
            && matches!(entry.what, What::RunEnded { .. })
        {
            self.run_shown = self.run_shown.max(entry.run);
        }
    }

    /// Without a terminal, the command ends after the end of input and of all work, once that has
    /// been shown. The text of a run and its end come by different ways, so the end is only final
    /// when nothing has come for a while.
    fn is_over(&mut self, context: &mut Context, sure: bool) -> Result<bool, Failure> {
        if !(self.input_ended && self.caught_up) {
            return Ok(false);
        }
        let Some((_, agents)) = self.live.is_quiet(context, sure)? else { return Ok(false) };
        let runs =
            agents.iter().find(|agent| agent.id == self.watched).map_or(0, |agent| agent.runs);
        Ok(sure || self.run_shown >= runs)
    }

    fn detach(&mut self) -> Exit {
        self.live.give_back();
        let name = line(&self.live.session.name);
        if self.live.session.state == SessionState::Stopped {
            output::note(&format!("detached; {}", stopped(&name)));
            return self.exit();
        }
        let workers = self.live.view.roster.busy_workers();
        let going = if workers.is_empty() {
            String::new()
        } else {
            format!(" ({} at work)", workers.join(", "))
        };
        output::note(&format!(
            "detached; {name} runs on{going}. `coordctl attach {name}` reattaches, `coordctl stop {name}` stops it"
        ));
        self.exit()
    }

    fn exit(&self) -> Exit {
        exit(self.outcome, self.is_terminal)
    }

    /// Ctrl-C: interrupts the lead's run; twice detaches.
    fn interrupt(&mut self, context: &mut Context) -> Result<bool, Failure> {
        if self.interrupted.is_some_and(|at| at.elapsed() < TWICE) {
            return Ok(true);
        }
        self.interrupted = Some(Instant::now());
        if !self.live.view.roster.lead_is_busy() {
            self.live.note("the lead is idle; Ctrl-C again detaches and stops nothing")?;
            return Ok(false);
        }
        let session = self.live.session.id.clone();
        match context.call_or_denied(Request::Interrupt { session })? {
            Ok(_) => self
                .live
                .note("the lead's run is interrupted, its workers run on; Ctrl-C again detaches")?,
            Err(body) => self.live.note(&body.message)?,
        }
        Ok(false)
    }

    /// One line of input. True when it asks to detach.
    fn line(&mut self, context: &mut Context, typed: &Typed) -> Result<bool, Failure> {
        let text = typed.text.trim();
        // What was pasted is text, and does nothing but arrive.
        let command =
            text.strip_prefix('/').filter(|rest| !rest.starts_with('/') && !typed.is_paste);
        let Some(command) = command else {
            if let Some(words) = self.live.read(context, typed)? {
                let words = words.trim();
                let is_escaped = words.starts_with("//") && !typed.is_paste;
                let words = if is_escaped { words.get(1..).unwrap_or_default() } else { words };
                if !words.is_empty() {
                    self.prompt(context, words)?;
                }
            }
            return Ok(false);
        };
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["detach" | "quit" | "exit"] => return Ok(true),
            ["status"] => {
                let text = self.live.view.status(coordd_common::wall_ms());
                self.live.print(&text)?;
            }
            ["stop"] => self.stop(context, None)?,
            ["stop", name] => self.stop(context, Some(name))?,
            ["permit", id, word, note @ ..] => match answer::verdict(word) {
                Some(verdict) => {
                    let given = Given { verdict, note: note.join(" ") };
                    self.live.answer(context, id, &given)?;
                }
                None => self.live.note(HELP.trim_end())?,
            },
            ["show"] => self.show(None)?,
            ["show", id] => self.show(Some(id))?,
            ["say", ..] => {
                let words = command.trim_start().trim_start_matches("say").trim();
                self.prompt(context, words)?;
            }
            _ => self.live.note(HELP.trim_end())?,
        }
        Ok(false)
    }

    fn show(&mut self, id: Option<&str>) -> Result<(), Failure> {
        match self.live.view.show(id, format::now_ms()) {
            Some(text) => self.live.print(&text),
            None => self
                .live
                .note("there is no such open question here; `coordctl permit ls` lists all"),
        }
    }

    fn prompt(&mut self, context: &mut Context, text: &str) -> Result<(), Failure> {
        let session = self.live.session.id.clone();
        let request = Request::Prompt { session, agent: self.agent.clone(), text: text.to_owned() };
        match context.call_or_denied(request)? {
            Ok(response) => {
                if let Err(refused) = super::send::check(&response) {
                    self.outcome = Exit::Denied;
                    self.live.note(&refused.message)?;
                }
            }
            Err(body) => {
                self.outcome = Exit::Denied;
                self.live.note(&denied(&body))?;
            }
        }
        Ok(())
    }

    fn stop(&mut self, context: &mut Context, name: Option<&str>) -> Result<(), Failure> {
        let session = self.live.session.id.clone();
        let request = match name {
            None => Request::SessionStop { session },
            Some(name) => Request::AgentStop { agent: format!("{session}/{name}") },
        };
        match context.call_or_denied(request)? {
            Ok(_) => self.live.note(&format!("stopped {}", line(name.unwrap_or("the session")))),
            Err(body) => self.live.note(&denied(&body)),
        }
    }
}

fn stopped(name: &str) -> String {
    format!("{name} is stopped; `coordctl resume {name}` resumes it")
}

/// At a terminal a refusal has been read. A script has only the exit code.
fn exit(outcome: Exit, is_terminal: bool) -> Exit {
    if is_terminal { Exit::Done } else { outcome }
}

fn denied(body: &proto::error::ErrorBody) -> String {
    if body.hint.is_empty() {
        body.message.clone()
    } else {
        format!("{}: {}", body.message, body.hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L-2: words that did not arrive are not passed over with exit code 0.
    #[test]
    fn l2_a_script_learns_that_its_line_was_refused() {
        assert_eq!(exit(Exit::Denied, false), Exit::Denied);
        assert_eq!(exit(Exit::Denied, true), Exit::Done);
        assert_eq!(exit(Exit::Done, false), Exit::Done);
    }
}
