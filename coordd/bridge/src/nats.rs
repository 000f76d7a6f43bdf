//! The server: one connection, one stream, one consumer. The only module that speaks NATS.
//!
//! It keeps connecting for as long as it takes and says what is wrong. It makes the stream and the consumer where they are
//! missing, which is also what it does after a server has lost its store. It decides nothing about what it carries.

mod arriving;

use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::{self, stream};
use async_nats::{Client, ConnectOptions, Event};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::envelope::Kind;
use crate::keys::Fingerprint;
use crate::settings::{self, Settings, SettingsError};
use crate::subjects;
use crate::wire::{Arrival, Ends, Sent, Standing, ToSend};

/// How long the server may take to say that it stored something, or to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Between attempts to connect, at first and at most; with chance, so that a server that comes back is not met by all at
/// once.
const RECONNECT_MS: u64 = 200;
const RECONNECT_MS_MAX: u64 = 10_000;
/// A connection that is silent for twice this is not one.
const PING_EVERY: Duration = Duration::from_secs(5);
/// After this the server delivers again what was not acknowledged. Far longer than coordd takes to commit.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Delivered and not acknowledged: two windows.
const ACKS_PENDING_MAX: i64 = 128;
/// How long the server keeps what nobody fetches: as long as coordd keeps receipts. The outbox has it anyway.
const STORED_FOR: Duration = Duration::from_hours(7 * 24);
/// How long the server knows the ids of copies. A repeated attempt comes within seconds.
const DUPLICATES_FOR: Duration = Duration::from_mins(2);
/// The longest stream in bytes, which servers set aside at once; when it is full they refuse, and outboxes wait.
const STREAM_LEN_MAX: i64 = 1 << 28;
/// Rows sent and not confirmed by the server.
const UNCONFIRMED_MAX: usize = 256;

/// Why there is no connection to begin with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NatsError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("cannot use the credentials file; it must be as `nsc` wrote it")]
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
    let client = first(settings, &standing).await?;
    let mut jetstream = match &settings.domain {
        Some(domain) => jetstream::with_domain(client.clone(), domain),
        None => jetstream::new(client.clone()),
    };
    jetstream.set_timeout(ANSWER_MAX);
    tokio::select! {
        () = publish(&client, &jetstream, send, &outcomes) => {}
        () = fetch(&client, &jetstream, own, &arrivals, &standing) => {}
        () = arriving::listen(&client, own, &arrivals) => {}
    }
    // What is written is flushed, for a bounded time.
    if timeout(Duration::from_secs(1), client.flush()).await.is_err() {
        tracing::debug!("the server did not take the last words in time");
    }
    Ok(())
}

/// The first connection, for as long as it takes. Later ones are the client's own business, but it tells little of why one
/// fails: this is when a wrong address, authority or key is found out.
async fn first(
    settings: &Settings,
    standing: &Arc<watch::Sender<Standing>>,
) -> Result<Client, NatsError> {
    let mut attempt = 0;
    loop {
        // Read each time: whoever mends a file need do no more.
        let options = options(settings, Arc::clone(standing)).await?;
        match options.connect(settings.servers.clone()).await {
            Ok(client) => return Ok(client),
            Err(error) => {
                let said = chain(&error);
                tracing::info!(said, "no connection to the server");
                standing.send_modify(|it| it.trouble = in_plain_words(&said));
            }
        }
        sleep(reconnect_delay(attempt)).await;
        attempt += 1;
    }
}

/// An error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

async fn options(
    settings: &Settings,
    standing: Arc<watch::Sender<Standing>>,
) -> Result<ConnectOptions, NatsError> {
    let mut options = ConnectOptions::new()
        .name(concat!("coordd-bridge ", env!("CARGO_PKG_VERSION")))
        .max_reconnects(None)
        .connection_timeout(ANSWER_MAX)
        .request_timeout(Some(ANSWER_MAX))
        .ping_interval(PING_EVERY)
        .require_tls(settings.wants_tls())
        .reconnect_delay_callback(reconnect_delay)
        .event_callback(move |event| {
            note(&standing, &event);
            std::future::ready(())
        });
    if let Some(path) = &settings.credentials {
        // Read by our rules first: closed to others.
        crate::files::read(path)
            .map_err(SettingsError::from)?
            .ok_or_else(|| SettingsError::Missing { path: path.clone() })?;
        let with = options.credentials_file(path).await;
        options = with.map_err(|source| NatsError::Credentials { source })?;
    }
    if let Some(path) = &settings.nkey_file {
        options = options.nkey(settings::secret(path)?);
    }
    if let Some(path) = &settings.token_file {
        options = options.token(settings::secret(path)?);
    }
    if let Some(ca) = &settings.ca {
        options = options.add_root_certificates(ca.clone());
    }
    if let (Some(certificate), Some(key)) = (&settings.certificate, &settings.key) {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

fn reconnect_delay(attempt: usize) -> Duration {
    let doublings = u32::try_from(attempt).unwrap_or(u32::MAX).min(16);
    let wait = RECONNECT_MS.saturating_mul(1 << doublings).min(RECONNECT_MS_MAX);
    Duration::from_millis(wait / 2 + crate::chance() % (wait / 2 + 1))
}

/// What an event says about the connection, in words that say what to do.
fn note(standing: &watch::Sender<Standing>, event: &Event) {
    let said = event.to_string();
    let trouble = match event {
        Event::Connected => Some(String::new()),
        Event::Disconnected => Some("the server is not reachable; it is tried again".to_owned()),
        Event::ServerError(_) | Event::ClientError(_) => Some(in_plain_words(&said)),
        Event::LameDuckMode | Event::Draining | Event::Closed | Event::SlowConsumer(_) => None,
    };
    standing.send_if_modified(|it| {
        let before = it.clone();
        match event {
            Event::Connected => it.connected = true,
            Event::Disconnected | Event::Closed => it.connected = false,
            Event::LameDuckMode
            | Event::Draining
            | Event::SlowConsumer(_)
            | Event::ServerError(_)
            | Event::ClientError(_) => {}
        }
        // That it is away says less than why.
        if let Some(trouble) = trouble
            && (*event != Event::Disconnected || it.trouble.is_empty())
        {
            it.trouble = trouble;
        }
        *it != before
    });
    if !matches!(event, Event::Connected) {
        tracing::info!(%said, "the server");
    }
}

fn in_plain_words(said: &str) -> String {
    let lower = said.to_lowercase();
    if lower.contains("authorization") || lower.contains("authentication") {
        return "the server refuses the credentials; check them with `coordctl bridge add`"
            .to_owned();
    }
    if lower.contains("permissions violation") {
        return format!("the server allows too little: {}", crate::body::cut(said));
    }
    if lower.contains("certificate") || lower.contains("tls") {
        return format!("TLS with the server fails; check --ca: {}", crate::body::cut(said));
    }
    format!("the server is not reachable: {}", crate::body::cut(said))
}

/// Sends in order, and tells what was stored.
async fn publish(
    client: &Client,
    jetstream: &jetstream::Context,
    mut send: tokio::sync::mpsc::Receiver<ToSend>,
    outcomes: &tokio::sync::mpsc::Sender<Sent>,
) {
    let mut unconfirmed = FuturesUnordered::new();
    loop {
        let room = unconfirmed.len() < UNCONFIRMED_MAX;
        tokio::select! {
            Some(it) = unconfirmed.next(), if !unconfirmed.is_empty() => {
                if outcomes.send(it).await.is_err() {
                    return;
                }
            }
            next = send.recv(), if room => {
                let Some(next) = next else { return };
                if let Some(row) = begin(client, jetstream, next, outcomes).await {
                    unconfirmed.push(confirmed(row));
                }
            }
        }
    }
}

async fn confirmed((mut it, answer): (Sent, PublishAckFuture)) -> Sent {
    match answer.await {
        // A copy that it knew is one that it stored.
        Ok(_) => it.is_stored = true,
        Err(error) => tracing::debug!(%error, id = it.id, "a row was not stored"),
    }
    it
}

/// Sends one. While there is no connection nothing is: the client would keep all of it in memory.
async fn begin(
    client: &Client,
    jetstream: &jetstream::Context,
    next: ToSend,
    outcomes: &tokio::sync::mpsc::Sender<Sent>,
) -> Option<(Sent, PublishAckFuture)> {
    let is_there = client.connection_state() == State::Connected;
    match next {
        ToSend::Row { subject, copy_id, bytes, to, id, copy } => {
            let it = Sent { to, id, copy, is_stored: false };
            let mut headers = async_nats::HeaderMap::new();
            headers.insert("Nats-Msg-Id", copy_id.as_str());
            if is_there
                && let Ok(answer) =
                    jetstream.publish_with_headers(subject, headers, bytes.into()).await
            {
                return Some((it, answer));
            }
            // It fails only when the engine is gone.
            drop(outcomes.send(it).await);
        }
        ToSend::Stored { subject, bytes } => {
            if is_there && let Err(error) = jetstream.publish(subject, bytes.into()).await {
                tracing::debug!(%error, "receipts were not sent");
            }
        }
        ToSend::Now { subject, bytes } => {
            if is_there && let Err(error) = client.publish(subject, bytes.into()).await {
                tracing::debug!(%error, "presence was not sent");
            }
        }
    }
    None
}

/// Fetches what the server keeps for this daemon, from where it was left, for ever.
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

/// The stream and the consumer, made where they are missing.
async fn ensure(
    jetstream: &jetstream::Context,
    own: &Fingerprint,
) -> Result<(PullConsumer, u32), String> {
    let wanted = stream::Config {
        name: subjects::STREAM.to_owned(),
        subjects: subjects::STORED.map(str::to_owned).to_vec(),
        description: Some("messages between coordd daemons".to_owned()),
        // What was acknowledged by the one daemon that it is for is of no use to anybody.
        retention: stream::RetentionPolicy::WorkQueue,
        discard: stream::DiscardPolicy::New,
        storage: stream::StorageType::File,
        max_age: STORED_FOR,
        max_bytes: STREAM_LEN_MAX,
        duplicate_window: DUPLICATES_FOR,
        ..stream::Config::default()
    };
    let advice =
        "the server gives no stream; JetStream must be on, and this user may need $JS.API.>";
    let found = jetstream.get_or_create_stream(wanted).await;
    let found = found.map_err(|error| format!("{advice} ({error})"))?;
    let replicas = u32::try_from(found.cached_info().config.num_replicas).unwrap_or(u32::MAX);
    let name = subjects::consumer(own);
    let wanted = pull::Config {
        durable_name: Some(name.clone()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: ACKS_PENDING_MAX,
        filter_subjects: vec![subjects::all(Kind::Row, own), subjects::all(Kind::Receipts, own)],
        ..pull::Config::default()
    };
    let consumer = found.get_or_create_consumer(&name, wanted).await;
    let consumer = consumer.map_err(|error| format!("the server gives no consumer ({error})"))?;
    Ok((consumer, replicas))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rel74_attempts_to_connect_are_spread() {
        for attempt in [0, 1, 5, 40, usize::MAX] {
            let wait = reconnect_delay(attempt).as_millis();
            assert!((100..=10_000).contains(&wait), "{attempt}: {wait}");
        }
        let many: std::collections::BTreeSet<_> = (0..20).map(|_| reconnect_delay(40)).collect();
        assert!(many.len() > 10, "all at the same time");
    }

    #[test]
    fn l2_what_is_wrong_is_said_with_what_to_do() {
        let (standing, seen) = watch::channel(Standing::default());
        note(&standing, &Event::ServerError(async_nats::ServerError::AuthorizationViolation));
        note(&standing, &Event::Disconnected);
        assert!(seen.borrow().trouble.contains("credentials"), "{:?}", seen.borrow());
        note(&standing, &Event::Connected);
        assert_eq!(*seen.borrow(), Standing { connected: true, ..Standing::default() });
        note(&standing, &Event::Disconnected);
        assert!(seen.borrow().trouble.contains("not reachable"));
        assert!(!seen.borrow().connected);
    }
}
