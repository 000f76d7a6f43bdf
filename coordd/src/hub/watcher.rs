//! One subscriber, and the events that are kept for subscribers that reconnect.

use std::sync::Arc;

use proto::FromDaemon;
use proto::event::Event;

use super::looking::Look;
use super::unnumbered;
use super::viewing::{Past, View};
use crate::peer::Handle;

/// Someone who watches.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) handle: Handle,
    /// Only of this session.
    pub(super) session: Option<String>,
    /// Whose transcript is shown, and how far.
    pub(super) view: Option<View>,
    /// At whose screen it looks.
    pub(super) look: Option<Look>,
    /// Set while the past is being sent.
    pub(super) past: Option<Past>,
    /// Events that did not fit and are still to be reported as a gap.
    pub(super) missed: u64,
}

impl Watcher {
    pub(super) fn tell(&mut self, message: &Arc<FromDaemon>) {
        if self.missed > 0 {
            let gap = Event::Gap { missed: Some(self.missed) };
            if !self.handle.tell(unnumbered(String::new(), gap)) {
                self.missed += 1;
                return;
            }
            self.missed = 0;
        }
        if !self.handle.share(message) {
            self.missed += 1;
        }
    }
}

/// An estimate of an event's bytes: long fields are counted, the rest is a constant.
pub(super) fn weight(message: &FromDaemon) -> usize {
    let FromDaemon::Event(numbered) = message else { return 0 };
    let long = if let Event::RunEnded { notification, .. } = &numbered.event {
        notification.result.len()
    } else if let Event::PermissionAsked { permission } = &numbered.event {
        permission.question.input.0.to_string().len()
    } else if let Event::Output { output } = &numbered.event {
        output.0.to_string().len()
    } else if let Event::SessionCreated { session } = &numbered.event {
        session.output.as_ref().map_or(0, |output| output.0.to_string().len())
    } else {
        0
    };
    1_024 + long
}
