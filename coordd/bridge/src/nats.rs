//! The server: one connection, one stream, one consumer. The only module that speaks NATS.
//!
//! It reconnects for as long as it takes and reports the problem. It creates a missing stream and
//! consumer, also after a server has lost its store. It decides nothing about messages.

mod arriving;
mod connect;

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::{self, stream};
pub(crate) use connect::check_credentials;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::keys::Fingerprint;
use crate::settings::{Settings, SettingsError};
use crate::subjects;
use crate::wire::{Arrival, Ends, Sent, Standing, ToSend};

/// How long the server may take to confirm or to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The redelivery time of unacknowledged messages: far longer than coordd takes to commit, but
/// messages that a killed bridge had taken wait this long.
const ACK_WAIT: Duration = Duration::from_secs(10);
/// Delivered and not acknowledged: two windows.
const ACKS_PENDING_MAX: i64 = 128;
/// How long the server keeps messages that nobody fetches: as long as coordd keeps receipts. The
/// outbox has them, too.
const STORED_FOR: Duration = Duration::from_hours(7 * 24);
/// How long the server knows the ids of copies. A repeated attempt comes within seconds.
const DUPLICATES_FOR: Duration = Duration::from_mins(2);
/// The longest stream in bytes, which servers set aside at once; when it is full they refuse, and
/// outboxes wait.
const STREAM_LEN_MAX: i64 = 1 << 28;
/// Rows sent and not confirmed by the server.
const UNCONFIRMED_MAX: usize = 256;

/// Why there is no connection to begin with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NatsError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("cannot use the credentials file; it must have the format that `nsc` writes")]
    Credentials {
        #[source]
        source: std::io::Error,
    },
}

/// Carries until the engine goes away.
pub(crate) async fn carry(
    settings: &Settings,
    own: &Fingerprint,
    ends: Ends,
) -> Result<(), NatsError> {
    let Ends { send, sent: outcomes, arrivals, standing } = ends;
    let standing = Arc::new(standing);
    let client = connect::first(settings, own, &standing).await?;
    let mut jetstream = match &settings.domain {
        Some(domain) => jetstream::with_domain(client.clone(), domain),
        None => jetstream::new(client.clone()),
    };
    jetstream.set_timeout(ANSWER_MAX);
    tokio::select! {
        () = publish(&client, &jetstream, send, &outcomes, &standing) => {}
        () = fetch(&client, &jetstream, own, &arrivals, &standing) => {}
        () = arriving::listen(&client, own, &arrivals) => {}
    }
    // What is written is flushed, for a bounded time.
    if timeout(Duration::from_secs(1), client.flush()).await.is_err() {
        tracing::debug!("the server did not take the last words in time");
    }
    Ok(())
}

/// A message that the server has to confirm. Nobody is told about receipts.
struct Begun {
    row: Option<Sent>,
    answer: PublishAckFuture,
}

/// Sends in order, and reports what was stored.
async fn publish(
    client: &Client,
    jetstream: &jetstream::Context,
    mut send: tokio::sync::mpsc::Receiver<ToSend>,
    outcomes: &tokio::sync::mpsc::Sender<Sent>,
    standing: &watch::Sender<Standing>,
) {
    let mut unconfirmed = FuturesUnordered::new();
    loop {
        let room = unconfirmed.len() < UNCONFIRMED_MAX;
        tokio::select! {
            Some(it) = unconfirmed.next(), if !unconfirmed.is_empty() => {
                if let Some(it) = it && outcomes.send(it).await.is_err() {
                    return;
                }
            }
            next = send.recv(), if room => {
                let Some(next) = next else { return };
                match begin(client, jetstream, next, standing).await {
                    Ok(Some(begun)) => unconfirmed.push(confirmed(begun, client, standing)),
                    Ok(None) => {}
                    Err(row) => if outcomes.send(row).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

async fn confirmed(
    begun: Begun,
    client: &Client,
    standing: &watch::Sender<Standing>,
) -> Option<Sent> {
    let Begun { mut row, answer } = begun;
    match answer.await {
        // A duplicate that the server recognised is stored.
        Ok(_) => {
            note(standing, None);
            if let Some(row) = &mut row {
                row.is_stored = true;
            }
        }
        Err(error) => {
            // Without a connection there is no answer, and that is the reported problem. An
            // unanswered receipt is not repeated, so nothing would clear another problem.
            let is_silence =
                matches!(error.kind(), PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe);
            let is_there = client.connection_state() == State::Connected;
            if is_there && (row.is_some() || !is_silence) {
                note(standing, Some(&error));
            }
        }
    }
    row
}

/// Sends one message; an unsent row is returned. Without a connection nothing is sent, because the
/// client would keep all of it in memory.
async fn begin(
    client: &Client,
    jetstream: &jetstream::Context,
    next: ToSend,
    standing: &watch::Sender<Standing>,
) -> Result<Option<Begun>, Sent> {
    let is_there = client.connection_state() == State::Connected;
    let (row, begun) = match next {
        ToSend::Row { subject, copy_id, bytes, to, id, copy } => {
            let row = Sent { to, id, copy, is_stored: false };
            if !is_there {
                return Err(row);
            }
            let mut headers = async_nats::HeaderMap::new();
            headers.insert("Nats-Msg-Id", copy_id.as_str());
            (Some(row), jetstream.publish_with_headers(subject, headers, bytes.into()).await)
        }
        ToSend::Stored { subject, bytes } if is_there => {
            (None, jetstream.publish(subject, bytes.into()).await)
        }
        ToSend::Now { subject, bytes } if is_there => {
            if let Err(error) = client.publish(subject, bytes.into()).await {
                tracing::debug!(%error, "presence was not sent");
            }
            return Ok(None);
        }
        ToSend::Stored { .. } | ToSend::Now { .. } => return Ok(None),
    };
    match begun {
        Ok(answer) => Ok(Some(Begun { row, answer })),
        Err(error) => {
            note(standing, Some(&error));
            row.map_or(Ok(None), Err)
        }
    }
}

/// Records whether the server stores messages, so that the sender of an unstored one is told why it
/// waits.
fn note(standing: &watch::Sender<Standing>, error: Option<&dyn std::error::Error>) {
    let why = error.map_or(String::new(), |error| {
        let said = crate::body::cut(&coordd_common::chain(error));
        format!(
            "the server does not store what is sent ({said}); compare its limits and this user's rights with BRIDGE.md"
        )
    });
    let is_news = standing.send_if_modified(|it| {
        let is_news = it.unstored != why;
        it.unstored.clone_from(&why);
        is_news
    });
    if is_news && !why.is_empty() {
        tracing::warn!("{why}");
    }
}

/// Fetches stored messages for this daemon, from the last position, for ever.
async fn fetch(
    client: &Client,
    jetstream: &jetstream::Context,
    own: &Fingerprint,
    arrivals: &tokio::sync::mpsc::Sender<Arrival>,
    standing: &watch::Sender<Standing>,
) {
    let mut wait = Duration::from_millis(100);
    while !arrivals.is_closed() {
        if client.connection_state() != State::Connected {
            sleep(Duration::from_millis(100)).await;
            continue;
        }
        match ensure(jetstream, own).await {
            Ok((consumer, replicas)) => {
                standing.send_modify(|it| {
                    it.trouble.clear();
                    it.replicas = replicas;
                });
                wait = Duration::from_millis(100);
                let why = arriving::forward(&consumer, arrivals).await;
                tracing::debug!(why, "fetching begins again");
            }
            Err(why) => {
                tracing::info!(why, "no stream or consumer");
                standing.send_modify(|it| it.trouble.clone_from(&why));
            }
        }
        sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

/// The stream and the consumer; missing ones are created.
async fn ensure(
    jetstream: &jetstream::Context,
    own: &Fingerprint,
) -> Result<(PullConsumer, u32), String> {
    let wanted = stream::Config {
        name: subjects::STREAM.to_owned(),
        subjects: subjects::STORED.map(str::to_owned).to_vec(),
        description: Some("messages between coordd daemons".to_owned()),
        // A message that its one receiver has acknowledged can be deleted.
        retention: stream::RetentionPolicy::WorkQueue,
        discard: stream::DiscardPolicy::New,
        storage: stream::StorageType::File,
        max_age: STORED_FOR,
        max_bytes: STREAM_LEN_MAX,
        duplicate_window: DUPLICATES_FOR,
        ..stream::Config::default()
    };
    let advice =
        "the server gives no stream; switch JetStream on, and allow this user what BRIDGE.md lists";
    let found = jetstream.get_or_create_stream(wanted).await;
    let found = found.map_err(|error| format!("{advice} ({error})"))?;
    let replicas = u32::try_from(found.cached_info().config.num_replicas).unwrap_or(u32::MAX);
    let name = subjects::consumer(own);
    let wanted = pull::Config {
        durable_name: Some(name.clone()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: ACKS_PENDING_MAX,
        filter_subject: subjects::stored_for(own),
        ..pull::Config::default()
    };
    let consumer = found.get_or_create_consumer(&name, wanted).await;
    let consumer = consumer.map_err(|error| format!("the server gives no consumer ({error})"))?;
    Ok((consumer, replicas))
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream::context::PublishError;

    use super::*;

    #[test]
    fn l2_that_the_server_stores_nothing_is_said_until_it_does() {
        let (standing, mut seen) = watch::channel(Standing::default());
        let full = std::io::Error::other("maximum bytes exceeded");
        let error = PublishError::with_source(PublishErrorKind::Other, full);
        note(&standing, Some(&error));
        let said = seen.borrow_and_update().unstored.clone();
        assert!(said.contains("maximum bytes exceeded") && said.contains("BRIDGE.md"), "{said}");
        note(&standing, Some(&error));
        assert!(!seen.has_changed().unwrap(), "the same is no news");
        note(&standing, None);
        assert_eq!(*seen.borrow(), Standing::default());
    }
}
