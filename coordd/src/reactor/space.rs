//! What happens when the disk is full (rel-44): the reserve goes, what has been decided is
//! committed with it, and until there is space again nothing that grows is accepted. Reading,
//! stopping, acknowledging and ending runs go on.
//!
//! It also publishes warnings: to subscribers, and to later callers of `daemon_status`.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use proto::event::Event;

use super::Reactor;
use crate::store::reserve::{Reserve, Taken};
use crate::store::{Store, StoreError};

/// How often to check whether there is space again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The most warnings that are kept: more than a person reads.
const DEGRADED_MAX: usize = 32;

const FULL: &str = "the disk that holds coordd's state is full: nothing new is accepted until there is space again";

/// The reserve, and when to try to take it again.
#[derive(Debug)]
pub(crate) struct Space {
    reserve: Reserve,
    look_at: Option<Instant>,
}

impl Space {
    pub(crate) fn new(reserve: Reserve) -> Self {
        Self { reserve, look_at: None }
    }

    /// When [`Reactor::look_for_room`] is to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.look_at
    }
}

impl<S: Store> Reactor<S> {
    /// Takes the reserve at the start.
    pub(super) fn reserve_space(&mut self) {
        match self.space.reserve.take() {
            Taken::Held => {}
            Taken::Full => self.disk_is_full(),
            Taken::Refused(error) => {
                let error = std::io::Error::from(error);
                tracing::warn!(%error, "no space can be reserved for a full disk");
            }
        }
    }

    /// Commits, using the reserve when the disk is full.
    pub(super) fn commit(&mut self, lines: &[String]) -> anyhow::Result<()> {
        match self.store.commit(lines) {
            Err(StoreError::DiskFull { .. }) if self.make_room() => self
                .store
                .commit(lines)
                .context("committing to the store, with the space that was kept for it"),
            other => other.context("committing to the store"),
        }
    }

    /// Gives up the reserve. False when it is gone already.
    pub(super) fn make_room(&mut self) -> bool {
        let made = self.space.reserve.release();
        if made {
            self.disk_is_full();
        }
        made
    }

    /// Tries to take the reserve again, and accepts everything again when that works.
    pub(super) fn look_for_room(&mut self) {
        if self.space.look_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        if self.space.reserve.take() == Taken::Full {
            self.space.look_at = Some(Instant::now() + LOOK_EVERY);
            return;
        }
        self.space.look_at = None;
        self.core.live.disk_full = false;
        self.facts.degraded.retain(|it| it != FULL);
        tracing::info!("there is space on the disk again");
        let text = "there is space on the disk again: everything is accepted as before".to_owned();
        self.hub.publish("", Event::Warning { text });
    }

    fn disk_is_full(&mut self) {
        self.core.live.disk_full = true;
        self.space.look_at = Some(Instant::now() + LOOK_EVERY);
        self.degrade(FULL.to_owned());
    }

    /// Takes back what was said.
    pub(super) fn mended(&mut self, text: &str) {
        tracing::info!(text, "no longer so");
        self.facts.degraded.retain(|it| it != text);
    }

    /// Publishes a warning.
    pub(super) fn degrade(&mut self, text: String) {
        tracing::error!("{text}");
        if !self.facts.degraded.contains(&text) {
            if self.facts.degraded.len() >= DEGRADED_MAX {
                self.facts.degraded.remove(0);
            }
            self.facts.degraded.push(text.clone());
        }
        self.hub.publish("", Event::Warning { text });
    }
}
