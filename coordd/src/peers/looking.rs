//! Whether the sockets of sessions, and our entries in the list, are still what this daemon made: what is gone is made anew, and
//! what somebody else has put in its place stays.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use coordd_core::id::SessionId;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::inbox;
use super::place::Place;
use super::registry::{Own, RegistryError};
use super::{OwnSession, Seen, World, blocking, stopped};
use crate::clock;
use crate::dir::FileId;

/// How often an entry is put into the list in one go while somebody removes it; then the next look does it.
const LISTED_TRIES_MAX: usize = 3;

/// A socket that is served, and which file it is.
pub(super) struct Inbox {
    pub(super) task: JoinHandle<()>,
    pub(super) id: FileId,
}

impl World {
    /// Makes anew what is gone.
    pub(super) async fn look(&mut self) {
        self.look_at_place().await;
        let sessions: Vec<_> =
            self.own.iter().map(|(id, own)| (id.clone(), own.seen.clone())).collect();
        for (session, seen) in sessions {
            self.show(session, seen).await;
        }
        self.serve_user().await;
    }

    /// The folder of the sockets: where it is gone the first that can be used is taken.
    async fn look_at_place(&mut self) {
        if self.place.as_ref().is_some_and(Place::is_there) {
            return;
        }
        let (paths, mark) = (Arc::clone(&self.paths), self.mark.clone());
        let place = match blocking(move || Place::open(&paths, &mark)).await {
            Some(Ok(place)) => place,
            Some(Err(error)) => {
                tracing::debug!(error, "there is no folder for the sockets of sessions");
                return;
            }
            None => return,
        };
        // They may be in a folder that was only moved away.
        for session in self.own.keys().cloned().collect::<Vec<_>>() {
            let inbox = self.own.get_mut(&session).and_then(|own| own.inbox.take());
            self.end(Some(&session), inbox).await;
        }
        let inbox = self.for_user.take();
        self.end(None, inbox).await;
        self.place = Some(place);
    }

    /// Serves the inbox for answers to the user.
    pub(super) async fn serve_user(&mut self) {
        if self.is_served(None, self.for_user.as_ref()) {
            return;
        }
        let before = self.for_user.take();
        self.end(None, before).await;
        match self.made(None) {
            Ok((listener, id)) => {
                let serve = inbox::serve(listener, None, String::new(), self.routes.clone());
                self.for_user = Some(Inbox { task: tokio::task::spawn(serve), id });
            }
            Err(error) => tracing::debug!(%error, "nobody can answer the user"),
        }
    }

    /// Serves a session's inbox. False when it cannot be.
    pub(super) async fn serve_own(&mut self, session: &SessionId) -> bool {
        let Some(own) = self.own.get_mut(session) else { return false };
        let (token, before) = (own.token.clone(), own.inbox.take());
        if self.is_served(Some(session), before.as_ref()) {
            if let Some(own) = self.own.get_mut(session) {
                own.inbox = before;
            }
            return true;
        }
        self.end(Some(session), before).await;
        let (listener, id) = match self.made(Some(session)) {
            Ok(made) => made,
            Err(error) => {
                self.warn_once(session, format!("other programs cannot write to it: {error}"));
                return false;
            }
        };
        let serve = inbox::serve(listener, Some(session.clone()), token, self.routes.clone());
        if let Some(own) = self.own.get_mut(session) {
            own.inbox = Some(Inbox { task: tokio::task::spawn(serve), id });
        }
        true
    }

    /// Whether what stands at the place of a socket is the one that is served.
    fn is_served(&self, session: Option<&SessionId>, inbox: Option<&Inbox>) -> bool {
        let found =
            self.place.as_ref().and_then(|it| it.dir().id_of(OsStr::new(&it.name(session))));
        inbox.is_some_and(|inbox| !inbox.task.is_finished() && Some(inbox.id) == found)
    }

    /// Makes the socket of a session, or the one for answers to the user.
    fn made(&self, session: Option<&SessionId>) -> std::io::Result<(UnixListener, FileId)> {
        let place =
            self.place.as_ref().ok_or_else(|| std::io::Error::other("there is no folder"))?;
        let name = place.name(session);
        // Before and after: to make it may be to remove one that was left there, and what is watched is told once.
        self.watch.name(place.dir(), OsStr::new(&name));
        self.watch.folder(place.dir().path());
        let made = inbox::made(place.dir(), &name)?;
        self.watch.name(place.dir(), OsStr::new(&name));
        Ok(made)
    }

    /// Ends an inbox, and takes its socket away if that is still the one that was made for it (fR6).
    pub(super) async fn end(&self, session: Option<&SessionId>, inbox: Option<Inbox>) {
        let Some(inbox) = inbox else { return };
        stopped(inbox.task).await;
        let Some(place) = &self.place else { return };
        if let Err(error) = place.dir().unlink_own(OsStr::new(&place.name(session)), inbox.id) {
            tracing::warn!(%error, "a session's socket could not be removed");
        }
    }

    /// Puts a session into the list, if it does not stand there as it is to.
    pub(super) async fn list_own(&mut self, session: &SessionId) {
        let (Some(place), Some(own)) = (&self.place, self.own.get(session)) else { return };
        let listed = own.listed(session, place.path(Some(session)));
        let (registry, watch) = (self.registry.clone(), Arc::clone(&self.watch));
        let put = blocking(move || {
            // What goes between being made and being watched is not heard of: so it is looked at once more.
            for _ in 0..LISTED_TRIES_MAX {
                if registry.has(&listed) {
                    break;
                }
                registry.put(&listed, clock::wall_ms())?;
                registry.watch(&watch, &listed);
            }
            Ok::<_, RegistryError>(())
        });
        if let Some(Err(error)) = put.await {
            let error = coordd_common::chain(&error);
            self.warn_once(session, format!("other programs do not see it: {error}"));
        } else if let Some(own) = self.own.get_mut(session) {
            own.trouble.clear();
        }
    }

    /// Says what is wrong with a session, unless it was said already.
    fn warn_once(&mut self, session: &SessionId, text: String) {
        let Some(own) = self.own.get_mut(session).filter(|own| own.trouble != text) else { return };
        tracing::warn!(%session, text, "a session is not to be had for other programs");
        own.trouble = text;
    }
}

impl OwnSession {
    pub(super) fn new(seen: Seen, token: String) -> Self {
        Self { seen, token, inbox: None, trouble: String::new() }
    }

    fn listed(&self, session: &SessionId, socket: PathBuf) -> Own {
        Own {
            session: session.0.clone(),
            name: self.seen.name.clone(),
            cwd: self.seen.cwd.clone(),
            status: self.seen.status,
            created_ms: self.seen.created_ms,
            socket,
            token: self.token.clone(),
        }
    }
}
