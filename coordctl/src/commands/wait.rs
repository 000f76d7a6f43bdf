//! `coordctl wait`: until a session is idle, or a message has arrived.

use crate::client::{ClientError, Pushed};
use crate::context::Context;
use crate::error::{Exit, Failure};
use crate::terminal::line;
use crate::{expect, live, output, words};
use proto::error::ErrorCode;
use proto::message::{MessageState, Receipt};
use proto::request::Request;
use proto::response::Response;
use std::time::{Duration, Instant};

/// Events may be lost; the daemon is asked again at least so often.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Between the end of a connection and the next one.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);

/// Wait until a session is idle, or until a message has been read.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl wait dates --timeout 600\n\n\
                        Exit codes: 0 idle or read, 1 not in time, or the message came back.")]
pub(crate) struct Args {
    /// A session, or a message's id such as m12.
    what: String,
    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
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
    session(context, &args.what, timeout)
}

fn is_message(text: &str) -> bool {
    text.strip_prefix('m')
        .is_some_and(|it| !it.is_empty() && it.bytes().all(|c| c.is_ascii_digit()))
}

fn session(context: &mut Context, name: &str, timeout: Option<Duration>) -> anyhow::Result<Exit> {
    let (view, _) = live::show(context, name)?;
    let mut asked = 0;
    let found = until(context, &view.id, timeout, |context| {
        let response = context.call(Request::SessionShow { session: view.id.clone() })?;
        let (session, agents) = live::detail(response.clone())?;
        if session.questions > asked {
            output::note(&format!(
                "{} has an open question: `coordctl permit ls {0}` shows it",
                line(&session.name)
            ));
        }
        asked = session.questions;
        Ok(live::is_quiet(&session, &agents).then_some(response))
    })?;
    let Some(response) = found else { return Ok(timed_out(name, "still at work")) };
    output::respond(context, &response, || {
        let (session, agents) = live::detail(response.clone())?;
        let lead = agents.iter().find(|agent| agent.id == session.lead);
        let last = lead.and_then(|lead| lead.last.as_ref()).map(words::last_run);
        let last = last.map(|it| format!("; its lead's last run {it}")).unwrap_or_default();
        Ok(output::say(&format!("{} is idle{last}", line(&session.name)))?)
    })?;
    Ok(Exit::Done)
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
    let Some(response) = found else { return Ok(timed_out(id, "not read yet")) };
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
    Exit::Failed
}

/// Asks `check` now and after each event, until it has something or the time is over.
fn until(
    context: &mut Context,
    session: &str,
    timeout: Option<Duration>,
    mut check: impl FnMut(&mut Context) -> Result<Option<Response>, Failure>,
) -> Result<Option<Response>, Failure> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        // The subscription comes first, so that no change between it and the first check is missed.
        let request = Request::Subscribe { session: session.to_owned(), after: None };
        let (mut client, _) = context.open(request)?;
        loop {
            if let Some(response) = check(context)? {
                return Ok(Some(response));
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
