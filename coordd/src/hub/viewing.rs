//! Showing a transcript: first what is on disk, then what is live, each entry once.
//!
//! ```text
//!  attach ──▶ CatchingUp { held } ──(past is sent, up to entry n)──▶ Live { after: n }
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use coordd_core::id::PeerId;
use proto::FromDaemon;
use proto::event::Event;
use tokio::task::JoinHandle;

use super::watcher::Watcher;
use super::{Said, Task, Viewer, unnumbered};
use crate::limits;
use crate::peer::Handle;
use crate::transcript;

/// The task that sends a connection the past; dropping this ends it.
#[derive(Debug)]
pub(super) struct Past(JoinHandle<()>);

impl Drop for Past {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whose transcript a watcher sees, and how far.
#[derive(Debug)]
pub(super) struct View {
    agent: String,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The past is being read; new entries wait.
    CatchingUp { held: VecDeque<(u64, Arc<FromDaemon>)>, lost: u64 },
    /// All entries up to this one were sent.
    Live { after: u64 },
}

impl Watcher {
    /// Whether this agent's answer is shown as it is being written.
    pub(super) fn shows_live(&self, agent: &str) -> bool {
        self.view
            .as_ref()
            .is_some_and(|view| view.agent == agent && matches!(view.state, State::Live { .. }))
    }

    pub(super) fn entry(&mut self, agent: &str, seq: u64, message: &Arc<FromDaemon>) {
        let Some(view) = self.view.as_mut().filter(|view| view.agent == agent) else { return };
        match &mut view.state {
            State::CatchingUp { held, lost } if held.len() >= limits::CATCH_UP_LEN_MAX => {
                *lost += 1;
            }
            State::CatchingUp { held, .. } => held.push_back((seq, Arc::clone(message))),
            State::Live { after } => {
                if seq > *after {
                    *after = seq;
                    self.tell(message);
                }
            }
        }
    }
}

impl Task {
    pub(super) fn attached(&mut self, peer: PeerId, handle: Handle, viewer: Viewer, call: u64) {
        self.answer_subscribed(&handle, call);
        let view = View {
            agent: viewer.agent.clone(),
            state: State::CatchingUp { held: VecDeque::new(), lost: 0 },
        };
        let watcher = Watcher {
            handle: handle.clone(),
            session: Some(viewer.session.clone()),
            view: Some(view),
            look: None,
            missed: 0,
            past: None,
        };
        // One past at a time for each connection: an earlier one is cut off.
        self.watchers.insert(peer, watcher);
        let (back, reads) = (self.back.clone(), Arc::clone(&self.reads));
        let past = tokio::task::spawn(async move {
            let session = viewer.session.clone();
            let last = {
                let _place = reads.acquire().await;
                send_past(&handle, viewer).await
            };
            handle.send(unnumbered(session, Event::CaughtUp {})).await;
            if let Some(said) = back.upgrade() {
                let _told = said.send(Said::CaughtUp { peer, last }).await;
            }
        });
        if let Some(watcher) = self.watchers.get_mut(&peer) {
            watcher.past = Some(Past(past));
        }
    }

    pub(super) fn caught_up(&mut self, peer: PeerId, last: u64) {
        let Some(watcher) = self.watchers.get_mut(&peer) else { return };
        let Some(view) = watcher.view.as_mut() else { return };
        let before = std::mem::replace(&mut view.state, State::Live { after: last });
        let agent = view.agent.clone();
        if let State::CatchingUp { held, lost } = before {
            for (seq, message) in held {
                watcher.entry(&agent, seq, &message);
            }
            watcher.missed += lost;
        }
    }
}

/// Sends the past at the peer's own pace. Returns the number of the last entry that there was.
async fn send_past(handle: &Handle, viewer: Viewer) -> u64 {
    let limit = viewer.history.unwrap_or(limits::HISTORY_LEN_MAX).min(limits::HISTORY_LEN_MAX);
    let path = viewer.transcript.clone();
    let read = tokio::task::spawn_blocking(move || transcript::last(&path, limit)).await;
    let page = match read {
        Ok(Ok(page)) => page,
        Ok(Err(error)) => {
            let text = format!("the transcript of {} cannot be read: {error}", viewer.name);
            handle.send(unnumbered(viewer.session, Event::Warning { text })).await;
            return 0;
        }
        Err(_) => return 0,
    };
    for entry in page.entries {
        let event = Event::Entry { agent: viewer.agent.clone(), name: viewer.name.clone(), entry };
        if !handle.send(unnumbered(viewer.session.clone(), event)).await {
            break;
        }
    }
    page.last
}
