//! A terminal that coordd runs: a program in a pseudo-terminal, its screen, and who types.
//!
//! ```text
//!   start --> program runs --ended by itself--> what is left is killed, coordd is told, exit
//!                 |   ^                  \--stop--> killed, exit
//!      its output v   | what is typed
//!               screen --pictures, while somebody looks--> coordd --> who looks
//! ```
//!
//! Its program speaks to its team over files of its own; this process knows nothing of messages.
//! What the program writes is always read, whether anybody looks or not, and is in no log.

mod pty;
mod screen;

use std::rc::Rc;
use std::time::Duration;

use proto::agent::{Bootstrap, Report};
use proto::request::Request;
use proto::response::Response;
use proto::screen::SIZE_FIRST;
use proto::view::EndedView;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::pty::{Program, Pty};
use self::screen::Screen;
use super::{Ending, claude};
use crate::link::{CallError, Link, Orders, TerminalOrder};

/// Bytes that are read of the program at once, so that orders have their turn between.
const READ_LEN: usize = 16 * 1024;
/// Between two pictures: faster than anybody sees.
const PICTURE_EVERY: Duration = Duration::from_millis(20);
/// The shortest time between two whole pictures, however often they are asked for.
const WHOLE_EVERY: Duration = Duration::from_millis(50);
/// How long the last output of a program that has ended may take.
const REST_MAX: Duration = Duration::from_millis(200);
/// Typed bytes that the program has not read. More input is dropped, as at a real terminal.
const TYPED_LEN_MAX: usize = 1024 * 1024;
/// Between TERM and KILL; with the killing it stays below two seconds (W-6).
const GRACE_MS: u64 = 400;
/// How long a process that was told to stop waits for coordd to hear how its program ended.
const LAST_WORD_MAX: Duration = Duration::from_secs(5);
/// Between two tries to tell it.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// The interval of checks whether a program that closed its terminal has opened it again.
const OPEN_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The exit code with which shells report a program that cannot be started.
const CANNOT_START: u8 = 127;

/// Lives until the program has ended, or is to end.
pub(crate) async fn live(boot: Bootstrap, link: Link) -> Ending {
    let orders = link.orders();
    tokio::select! {
        biased;
        // Dropping the terminal ends its program and all that it started.
        reason = link.gone() => Ending::Gone(reason),
        ending = Box::pin(run(&boot, &link, &orders)) => ending,
    }
}

async fn run(boot: &Bootstrap, link: &Link, orders: &Rc<Orders>) -> Ending {
    // A process of an earlier incarnation must start nothing, and only coordd can tell.
    tokio::select! {
        biased;
        () = orders.process_ends() => return Ending::Done,
        welcomed = link.welcomed() => if let Err(reason) = welcomed {
            return Ending::Gone(reason);
        }
    }
    let (status, said) = match start(boot) {
        Ok(mut terminal) => {
            terminal.screen.incarnation = boot.incarnation;
            let ended = terminal.serve(link, orders).await;
            let screen = terminal.end().await;
            match ended {
                None => return Ending::Done,
                Some(0) => (0, String::new()),
                Some(status) => (status, screen.last_line()),
            }
        }
        Err(why) => (CANNOT_START, why),
    };
    tracing::info!(status, "the program in the terminal has ended");
    tell(link, orders, status, said).await
}

fn start(boot: &Bootstrap) -> Result<Terminal, String> {
    let invocation = claude::in_terminal(boot)?;
    let (pty, program) = Pty::start(&invocation, &boot.cwd, SIZE_FIRST).map_err(|error| {
        tracing::error!(error = ?error, "the program cannot be started");
        coordd_common::chain(&error)
    })?;
    Ok(Terminal {
        pty,
        program,
        screen: Screen::new(SIZE_FIRST),
        typed: Vec::new(),
        shown: false,
        whole: None,
        picture: None,
        last: Instant::now(),
    })
}

/// Reports the program's end until coordd has it; a stopped process does not wait long.
async fn tell(link: &Link, orders: &Rc<Orders>, status: u8, said: String) -> Ending {
    let patience = async {
        orders.process_ends().await;
        sleep(LAST_WORD_MAX).await;
    };
    tokio::pin!(patience);
    loop {
        let request = Request::TerminalEnded(EndedView { status, said: said.clone() });
        let answer = tokio::select! {
            biased;
            answer = link.call(request, None) => answer,
            () = &mut patience => return Ending::Done,
        };
        match answer {
            Ok(Response::Done {}) => return Ending::Done,
            Err(CallError::Gone) => return Ending::Gone("coordd no longer knows it".to_owned()),
            Ok(_) | Err(CallError::Denied(_)) => {
                tracing::warn!("coordd did not take the end of the program");
            }
        }
        tokio::select! {
            () = sleep(TOLD_AGAIN_AFTER) => {}
            () = &mut patience => return Ending::Done,
        }
    }
}

struct Terminal {
    pty: Pty,
    program: Program,
    screen: Screen,
    /// What is typed and not read by the program.
    typed: Vec<u8>,
    /// Whether somebody looks.
    shown: bool,
    /// When a whole picture is due.
    whole: Option<Instant>,
    /// When the next change is.
    picture: Option<Instant>,
    /// When the last whole one was sent.
    last: Instant,
}

impl Terminal {
    /// Carries what is to be carried until the program has ended, with its status; none when it is
    /// to be ended.
    async fn serve(&mut self, link: &Link, orders: &Rc<Orders>) -> Option<u8> {
        let mut buffer = vec![0; READ_LEN];
        let mut is_open = true;
        loop {
            let due = self.whole.into_iter().chain(self.picture).min();
            tokio::select! {
                biased;
                () = orders.process_ends() => return None,
                order = orders.terminal() => self.take(order),
                status = self.program.wait() => {
                    self.rest(&mut buffer).await;
                    self.show(link, Instant::now());
                    return Some(status);
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.show(link, Instant::now());
                }
                written = self.pty.write(&self.typed), if !self.typed.is_empty() => {
                    self.typed.drain(..written.min(self.typed.len()));
                }
                read = self.pty.read(&mut buffer), if is_open => match read {
                    Some(len) => self.took(buffer.get(..len).unwrap_or_default()),
                    // Nobody has the terminal open: the program ends, or opens it again.
                    None => is_open = false,
                },
                () = sleep(OPEN_AGAIN_AFTER), if !is_open => is_open = true,
            }
        }
    }

    fn take(&mut self, order: TerminalOrder) {
        match order {
            TerminalOrder::Shown(false) => (self.shown, self.whole) = (false, None),
            TerminalOrder::Shown(true) => {
                if !std::mem::replace(&mut self.shown, true) {
                    self.screen.skip();
                }
                self.whole.get_or_insert((self.last + WHOLE_EVERY).max(Instant::now()));
            }
            TerminalOrder::Input { size, bytes } => {
                if let Some(size) = size
                    && self.screen.resize(size)
                {
                    self.pty.resize(self.screen.size());
                    self.plan();
                }
                self.type_in(&bytes);
            }
        }
    }

    fn type_in(&mut self, bytes: &[u8]) {
        if self.typed.len() + bytes.len() <= TYPED_LEN_MAX {
            self.typed.extend_from_slice(bytes);
        } else {
            tracing::warn!(len = bytes.len(), "the program does not read what is typed");
        }
    }

    /// The program has written.
    fn took(&mut self, bytes: &[u8]) {
        let answers = self.screen.take(bytes);
        self.type_in(&answers);
        self.plan();
    }

    fn plan(&mut self) {
        if self.shown && self.picture.is_none() {
            self.picture = Some((self.screen.drawn() + PICTURE_EVERY).max(Instant::now()));
        }
    }

    /// Sends the pictures that are due.
    fn show(&mut self, link: &Link, now: Instant) {
        if !self.shown {
            self.picture = None;
            return;
        }
        let is_whole_due = self.whole.is_some_and(|it| it <= now);
        let is_due = self.picture.is_some_and(|due| due <= now);
        let mut frames = Vec::new();
        if is_due || is_whole_due {
            self.picture = None;
            frames = self.screen.change();
        }
        if is_whole_due {
            (self.whole, self.last) = (None, now);
            frames.extend(self.screen.whole());
        }
        for frame in frames {
            link.report(Report::Screen { frame });
        }
    }

    /// What the program had written before it ended.
    async fn rest(&mut self, buffer: &mut [u8]) {
        let until = Instant::now() + REST_MAX;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match timeout(left, self.pty.read(buffer)).await {
                Ok(Some(len)) => {
                    let bytes = buffer.get(..len).unwrap_or_default().to_vec();
                    self.took(&bytes);
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Ends the program, if it runs, and all that it started. The screen as it was last.
    async fn end(self) -> Screen {
        // What it writes while it ends is taken from it, or it could not end.
        let Self { pty, mut program, mut screen, .. } = self;
        let mut buffer = vec![0; READ_LEN];
        let end = program.end(GRACE_MS);
        tokio::pin!(end);
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                left = &mut end => {
                    if left > 0 {
                        tracing::warn!(left, "processes of the terminal could not be ended");
                    }
                    break;
                }
                read = pty.read(&mut buffer), if open => match read {
                    Some(len) => drop(screen.take(buffer.get(..len).unwrap_or_default())),
                    None => open = false,
                },
            }
        }
        screen
    }
}

#[cfg(test)]
mod tests;
