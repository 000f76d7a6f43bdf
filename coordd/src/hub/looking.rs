//! Showing a screen: whole pictures to those who want one, changes to all who look.
//!
//! A slow viewer misses pictures, notices that by their numbers, and asks for a whole one. No
//! picture is kept, and nothing is said as a gap.

use std::sync::Arc;

use coordd_core::id::PeerId;
use proto::FromDaemon;
use proto::event::{Event, Numbered};
use proto::screen::Frame;

use super::Task;
use super::watcher::Watcher;
use crate::limits;
use crate::peer::Handle;

/// At whose screen a watcher looks.
#[derive(Debug)]
pub(super) struct Look {
    agent: String,
    whole: Whole,
}

/// The progress of a whole picture for one viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    /// It has one.
    Had,
    /// The next one that begins is for it.
    Wanted,
    /// Its parts are on their way.
    Coming,
}

impl Look {
    /// Whether this part is for the watcher.
    fn takes(&mut self, frame: &Frame) -> bool {
        if !frame.whole {
            return self.whole != Whole::Wanted;
        }
        let is_for_it = match self.whole {
            Whole::Had => false,
            Whole::Wanted => frame.part == 0,
            Whole::Coming => true,
        };
        if is_for_it {
            let is_last = frame.part + 1 >= frame.parts;
            self.whole = if is_last { Whole::Had } else { Whole::Coming };
        }
        is_for_it
    }
}

impl Task {
    /// A connection begins to view a screen, or asks for a whole picture again.
    pub(super) fn looked(
        &mut self,
        peer: PeerId,
        handle: Handle,
        session: String,
        agent: String,
        call: u64,
    ) {
        self.answer_subscribed(&handle, call);
        let look = Some(Look { agent, whole: Whole::Wanted });
        if let Some(watcher) = self.watchers.get_mut(&peer)
            && watcher.session.as_ref() == Some(&session)
        {
            watcher.look = look;
            return;
        }
        let session = Some(session);
        let watcher = Watcher { handle, session, view: None, look, past: None, missed: 0 };
        self.watchers.insert(peer, watcher);
    }

    /// An agent shows a part of a picture.
    pub(super) fn screen(&mut self, agent: &str, known: (String, u64), frame: Frame) {
        let (session, at_ms) = known;
        let looks = |it: &mut Watcher| {
            it.look.as_mut().is_some_and(|it| it.agent == agent && it.takes(&frame))
        };
        let takers: Vec<_> = self
            .watchers
            .values_mut()
            .filter_map(|watcher| looks(watcher).then(|| watcher.handle.clone()))
            .collect();
        if takers.is_empty() {
            return;
        }
        let event = Event::Screen { agent: agent.to_owned(), frame };
        let numbered = Numbered { seq: 0, at_ms, session, event };
        let message = Arc::new(FromDaemon::Event(Box::new(numbered)));
        for handle in takers {
            // What does not fit is missed, and noticed there.
            handle.share_below(&message, limits::SCREENS_WAITING_MAX);
        }
    }
}
