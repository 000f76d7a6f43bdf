//! `coordctl wait`: until a session is idle, or a message has arrived.

use std::time::{Duration, Instant};

use proto::error::ErrorCode;
use proto::message::{MessageState, Receipt};
use proto::request::Request;

use super::ended::{self, How};
use crate::client::{ClientError, Pushed};
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::terminal::line;
use crate::{expect, live, output, words};

/// Events may be lost; the daemon is asked again at least so often.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Between the end of a connection and the next one.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);

/// Wait until a session is idle or needs input, or until a message has been read.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --until it exits when the session is idle, and also when a question is open, since nobody may be\n\
                        there to answer it.\n\n\
                        Exit codes: 0 idle (with --until needs-input: a question is open), or read; 1 the message came back,\n\
                        or with --until needs-input the session is idle; 3 unknown; 4 no coordd; 5 a question is open;\n\
                        6 not in time.\n\n\
                        Example: coordctl wait dates --timeout 600\n\
                        Example: coordctl wait dates --until needs-input && coordctl permit ls dates"
)]
pub(crate) struct Args {
    /// A session, or a message's id such as m12.
    what: String,
    /// Wait for this alone: with `idle`, open questions do not end the wait.
    #[arg(long, value_name = "WHAT")]
    until: Option<Until>,
    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

/// What a session is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Until {
    /// Nobody works, and nothing is asked.
    Idle,
    /// An agent asks something.
    NeedsInput,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> anyhow::Result<Exit> {
    let timeout = args.timeout.map(Duration::from_secs);
    if is_message(&args.what) {
        let request = Request::Receipt { message: args.what.clone() };
        match context.call_or_denied(request)? {
            Ok(_) => return message(context, &args.what, timeout),
            Err(body) if body.code == ErrorCode::NotFound => {
                // A session may have such a name.
                let session = Request::SessionShow { session: args.what.clone() };
                if context.call_or_denied(session)?.is_err() {
                    return Err(Failure::from(body).into());
                }
            }
            Err(body) => return Err(Failure::from(body).into()),
        }
    }
    session(context, &args.what, args.until, timeout)
}

fn is_message(text: &str) -> bool {
    text.strip_prefix('m')
        .is_some_and(|it| !it.is_empty() && it.bytes().all(|c| c.is_ascii_digit()))
}

fn session(
    context: &mut Context,
    name: &str,
    wanted: Option<Until>,
    timeout: Option<Duration>,
) -> anyhow::Result<Exit> {
    let (view, _) = live::show(context, name)?;
    let mut asked = 0;
    let found = until(context, &view.id, timeout, |context| {
        let (session, agents) = live::show(context, &view.id)?;
        let is_quiet = live::is_quiet(&session, &agents);
        if session.questions > asked && wanted == Some(Until::Idle) {
            output::note(&format!(
                "{} has an open question: `coordctl permit ls {0}` shows it",
                line(&session.name)
            ));
        }
        asked = session.questions;
        Ok(how(wanted, is_quiet, session.questions).map(|how| (how, session, agents)))
    })?;
    let Some((how, session, agents)) = found else {
        let (session, agents) = live::show(context, &view.id)?;
        if context.json {
            let questions = live::open_questions(context, &session.id)?;
            ended::json(How::TimedOut, (&session, &agents), &questions)?;
        }
        return Ok(timed_out(name, "still at work"));
    };
    let questions = match how {
        How::NeedsInput => live::open_questions(context, &session.id)?,
        How::Idle | How::TimedOut => Vec::new(),
    };
    if context.json {
        ended::json(how, (&session, &agents), &questions)?;
    } else if how == How::NeedsInput {
        ended::say_needs_input(&session, &questions);
    } else {
        let lead = agents.iter().find(|agent| agent.id == session.lead);
        let last = lead.and_then(|lead| lead.last.as_ref()).map(words::last_run);
        let last = last.map(|last| format!("; its lead's last run {last}")).unwrap_or_default();
        output::say(&format!("{} is idle{last}", line(&session.name)))?;
    }
    Ok(match (how, wanted) {
        (How::Idle, Some(Until::NeedsInput)) => Exit::Failed,
        (How::NeedsInput, None) => Exit::NeedsInput,
        (How::Idle | How::NeedsInput | How::TimedOut, _) => Exit::Done,
    })
}

/// Whether the waiting is over.
fn how(wanted: Option<Until>, is_quiet: bool, questions: u32) -> Option<How> {
    match (wanted, is_quiet) {
        (_, true) => Some(How::Idle),
        (None | Some(Until::NeedsInput), false) if questions > 0 => Some(How::NeedsInput),
        (_, false) => None,
    }
}

/// Waits for a message's end and says how it ended.
pub(crate) fn message(
    context: &mut Context,
    id: &str,
    timeout: Option<Duration>,
) -> anyhow::Result<Exit> {
    let found = until(context, "", timeout, |context| {
        let response = context.call(Request::Receipt { message: id.to_owned() })?;
        expect!(&response, Receipt { receipt });
        Ok((receipt.state >= MessageState::Consumed).then_some(response))
    })?;
    let Some(response) = found else {
        if context.json {
            output::json(&context.call(Request::Receipt { message: id.to_owned() })?)?;
        }
        return Ok(timed_out(id, "not read yet"));
    };
    expect!(&response, Receipt { receipt });
    output::respond(context, &response, || Ok(output::say(&text(receipt))?))?;
    Ok(if receipt.state == MessageState::Consumed { Exit::Done } else { Exit::Failed })
}

fn text(it: &Receipt) -> String {
    let reason =
        if it.reason.is_empty() { String::new() } else { format!(": {}", line(&it.reason)) };
    format!("{} to {} {}{reason}", line(&it.id), line(&it.to), words::message_state(it.state))
}

fn timed_out(what: &str, state: &str) -> Exit {
    output::note(&format!("time is up: {} is {state}", line(what)));
    Exit::TimedOut
}

/// Asks `check` now and after each event, until it has something or the time is over.
fn until<T>(
    context: &mut Context,
    session: &str,
    timeout: Option<Duration>,
    mut check: impl FnMut(&mut Context) -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        // The subscription comes first, so that no change between it and the first check is missed.
        let request = Request::Subscribe { session: session.to_owned(), after: None };
        let (mut client, _) = context.open(request)?;
        loop {
            if let Some(found) = check(context)? {
                return Ok(Some(found));
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let wait = left.map_or(ASK_EVERY, |left| left.min(ASK_EVERY));
            match client.next_pushed(Some(wait)) {
                Ok(Pushed::Event(_) | Pushed::Quiet) => {}
                Ok(Pushed::Closing(_)) | Err(ClientError::Lost) => break,
                Err(error) => return Err(error.into()),
            }
        }
        match before_reconnect(end, Instant::now()) {
            Some(pause) => std::thread::sleep(pause),
            None => return Ok(None),
        }
    }
}

/// How long to wait before a new connection; nothing when the time is over. A daemon that closes
/// every connection at once is not asked without end.
fn before_reconnect(end: Option<Instant>, now: Instant) -> Option<Duration> {
    let left = end.map_or(RECONNECT_AFTER, |end| end.saturating_duration_since(now));
    (!left.is_zero()).then(|| left.min(RECONNECT_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_from_sessions() {
        assert!(is_message("m12"));
        assert!(!is_message("m") && !is_message("m12x") && !is_message("main"));
    }

    #[test]
    fn fa7_a_question_ends_the_waiting_unless_only_idle_counts() {
        let (idle, asked) = (Some(How::Idle), Some(How::NeedsInput));
        let table = [
            (None, true, 0, idle),
            (None, false, 0, None),
            (None, false, 1, asked),
            (Some(Until::Idle), false, 1, None),
            (Some(Until::Idle), true, 0, idle),
            (Some(Until::NeedsInput), false, 1, asked),
            (Some(Until::NeedsInput), false, 0, None),
            (Some(Until::NeedsInput), true, 0, idle),
            // Stopped with a question open: nobody goes on whatever is answered.
            (None, true, 1, idle),
        ];
        for (wanted, is_quiet, questions, want) in table {
            assert_eq!(how(wanted, is_quiet, questions), want, "{wanted:?} {is_quiet} {questions}");
        }
    }

    #[test]
    fn reconnecting_pauses_and_ends_with_the_time() {
        let now = Instant::now();
        let after = |ms| before_reconnect(Some(now + Duration::from_millis(ms)), now);
        assert_eq!(before_reconnect(None, now), Some(RECONNECT_AFTER));
        assert_eq!(after(60_000), Some(RECONNECT_AFTER));
        assert_eq!(after(30), Some(Duration::from_millis(30)));
        assert_eq!(after(0), None);
    }

    #[test]
    fn m11_a_receipt_in_words() {
        let it = Receipt {
            id: "m7".into(),
            from: "user".into(),
            to: "w".into(),
            state: MessageState::Bounced,
            accepted_ms: 0,
            delivered_ms: None,
            ended_ms: Some(1),
            ahead: 0,
            reason: "w was stopped\u{1b}[2J".into(),
        };
        assert_eq!(text(&it), "m7 to w bounced: w was stopped");
    }
}
