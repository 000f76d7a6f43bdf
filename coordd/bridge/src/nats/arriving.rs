//! Arrivals from the server: stored rows and receipts, and presence.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::PullConsumer;
use futures_util::StreamExt as _;
use tokio::time::sleep;

use crate::envelope::Kind;
use crate::keys::Fingerprint;
use crate::subjects;
use crate::wire::{Ack, Arrival};

/// Hands over stored messages until an error occurs.
pub(super) async fn forward(
    consumer: &PullConsumer,
    arrivals: &tokio::sync::mpsc::Sender<Arrival>,
) -> String {
    let messages = consumer
        .stream()
        .max_messages_per_batch(crate::limits::UNDECIDED_MAX)
        .heartbeat(Duration::from_secs(2))
        .expires(Duration::from_secs(10))
        .messages()
        .await;
    let mut messages = match messages {
        Ok(messages) => messages,
        Err(error) => return error.to_string(),
    };
    while let Some(next) = messages.next().await {
        let message = match next {
            Ok(message) => message,
            Err(error) => return error.to_string(),
        };
        let deliveries = message.info().map_or(1, |it| it.delivered);
        let (message, acker) = message.split();
        let arrival = Arrival {
            subject: message.subject.to_string(),
            bytes: message.payload,
            deliveries,
            ack: Some(Ack::Server(Box::new(acker))),
        };
        if arrivals.send(arrival).await.is_err() {
            return "the engine is gone".to_owned();
        }
    }
    "the end of what the server sends".to_owned()
}

/// Hands over presence, which is not stored.
pub(super) async fn listen(
    client: &Client,
    own: &Fingerprint,
    arrivals: &tokio::sync::mpsc::Sender<Arrival>,
) {
    let subject = subjects::all(Kind::Presence, own);
    loop {
        match client.subscribe(subject.clone()).await {
            Ok(mut subscribed) => {
                while let Some(message) = subscribed.next().await {
                    let subject = message.subject.to_string();
                    let bytes = message.payload;
                    let arrival = Arrival { subject, bytes, deliveries: 1, ack: None };
                    if arrivals.send(arrival).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "cannot listen"),
        }
        if arrivals.is_closed() {
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
}
