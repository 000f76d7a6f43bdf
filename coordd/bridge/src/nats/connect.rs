//! Connecting: credentials, back-off, and the texts of its failures.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use tokio::sync::watch;
use tokio::time::sleep;

use super::{ANSWER_MAX, NatsError};
use crate::keys::Fingerprint;
use crate::settings::{self, Settings, SettingsError};
use crate::subjects;
use crate::wire::Standing;

/// The back-off between attempts to connect, first and longest, with jitter, so that not all
/// daemons meet a returning server at once.
const RECONNECT_MS: u64 = 200;
const RECONNECT_MS_MAX: u64 = 10_000;
/// The ping interval. A connection that is silent for twice this is dead.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Messages of one subscription that wait to be read: each may be as long as an envelope, so few.
/// What is stored comes in batches of a quarter of this; of presence more is dropped, and is said
/// again.
const UNREAD_MAX: usize = 256;

/// The first connection, for as long as it takes. Later ones are the client's own business, but it
/// tells little of why one fails: this is when a wrong address, authority or key is found out.
pub(super) async fn first(
    settings: &Settings,
    own: &Fingerprint,
    standing: &Arc<watch::Sender<Standing>>,
) -> Result<Client, NatsError> {
    let mut attempt = 0;
    loop {
        // Read at each attempt, so that a repaired file is enough.
        let options = options(settings, own, Arc::clone(standing))?;
        match options.connect(settings.servers.clone()).await {
            Ok(client) => return Ok(client),
            Err(error) => {
                let said = coordd_common::chain(&error);
                tracing::info!(said, "no connection to the server");
                standing.send_modify(|it| it.trouble = in_plain_words(&said));
            }
        }
        sleep(reconnect_delay(attempt)).await;
        attempt += 1;
    }
}

fn options(
    settings: &Settings,
    own: &Fingerprint,
    standing: Arc<watch::Sender<Standing>>,
) -> Result<ConnectOptions, NatsError> {
    let mut options = ConnectOptions::new()
        .name(concat!("coordd-bridge ", env!("CARGO_PKG_VERSION")))
        .custom_inbox_prefix(subjects::answers(own))
        .max_reconnects(None)
        .connection_timeout(ANSWER_MAX)
        .request_timeout(Some(ANSWER_MAX))
        .ping_interval(PING_EVERY)
        .subscription_capacity(UNREAD_MAX)
        .require_tls(settings.wants_tls())
        .reconnect_delay_callback(reconnect_delay)
        .event_callback(move |event| {
            note(&standing, &event);
            std::future::ready(())
        });
    if let Some(path) = &settings.credentials {
        options = with_credentials(options, path)?;
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
        settings::closed(key)?;
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

/// With a credentials file, which is read by our rules: closed to others.
fn with_credentials(options: ConnectOptions, path: &Path) -> Result<ConnectOptions, NatsError> {
    let found = crate::files::read(path).map_err(SettingsError::from)?;
    let bytes = found.ok_or_else(|| SettingsError::Missing { path: path.to_owned() })?;
    let with = options.credentials(&String::from_utf8_lossy(&bytes));
    with.map_err(|source| NatsError::Credentials { source })
}

/// Whether a credentials file can be used, for who sets it.
pub(crate) fn check_credentials(path: &Path) -> Result<(), NatsError> {
    with_credentials(ConnectOptions::new(), path).map(drop)
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
        Event::Disconnected => Some("the server is not reachable; trying again".to_owned()),
        Event::ServerError(_) | Event::ClientError(_) => Some(in_plain_words(&said)),
        Event::LameDuckMode | Event::Draining | Event::Closed | Event::SlowConsumer(_) => None,
    };
    standing.send_if_modified(|it| {
        let before = it.clone();
        match event {
            Event::Connected => {
                it.connected = true;
                it.unstored.clear();
            }
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
        return format!("the server does not allow this user enough: {}", crate::body::cut(said));
    }
    if ["certificate", "tls", "fatal alert"].iter().any(|it| lower.contains(it)) {
        return format!(
            "TLS with the server fails; check --ca and --certificate: {}",
            crate::body::cut(said)
        );
    }
    format!("the server is not reachable: {}", crate::body::cut(said))
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
