//! Jobs about files, one after the other, on a thread of their own: disks may be slow, and order
//! matters.

mod teams;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coordd_common::chain;
use coordd_core::Input;
use coordd_core::id::SessionId;
use coordd_core::name::Name;
use proto::event::Event;
use proto::response::{FileRow, Response};
use tokio::sync::{mpsc, oneshot};

use super::{ReplyTo, SessionJob, TeamJob, World, answer_call, failed};
use crate::limits;
use crate::reactor::Arrival;
use crate::scratchpad::{Checked, Scratchpad, ScratchpadError};
use crate::team_files::TeamFiles;
use crate::team_files::watch::{Outside, TeamWatch};
use crate::translate;

/// Outside edits that wait to be reported; the watch keeps the last one of each team.
const EDITS_WAITING_MAX: usize = 64;

/// Things in a scratchpad that are counted, to see whether all went at once.
const THINGS_COUNTED_MAX: usize = 2;

/// A job about files.
#[derive(Debug)]
pub(super) enum FileJob {
    Session(SessionJob),
    Team(TeamJob),
    Edited(Outside),
}

/// The way to the thread.
#[derive(Clone)]
pub(super) struct Files {
    queue: mpsc::Sender<(FileJob, oneshot::Sender<()>)>,
}

impl Files {
    /// Starts the thread, and the watch on team files.
    pub(super) fn start(world: World, files: Arc<TeamFiles>) -> Self {
        let (queue, mut jobs) =
            mpsc::channel::<(FileJob, oneshot::Sender<()>)>(limits::JOBS_WAITING_MAX);
        let (told, mut edits) = mpsc::channel(EDITS_WAITING_MAX);
        let watch = match TeamWatch::start(Arc::clone(&files), told) {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::warn!(%error, "team files are not watched");
                None
            }
        };
        let edited = queue.downgrade();
        tokio::task::spawn(async move {
            while let Some(outside) = edits.recv().await {
                let Some(queue) = edited.upgrade() else { return };
                let (done, _) = oneshot::channel();
                let _sent = queue.send((FileJob::Edited(outside), done)).await;
            }
        });
        let runtime = tokio::runtime::Handle::current();
        let mut thread = Thread { world, files, watch, runtime, scratchpads: HashMap::new() };
        let started = std::thread::Builder::new().name("files".to_owned()).spawn(move || {
            while let Some((job, done)) = jobs.blocking_recv() {
                thread.take(job);
                // The caller may be gone.
                let _told = done.send(());
            }
        });
        if let Err(error) = started {
            tracing::error!(%error, "no thread for files; scratchpads and team files are not kept");
        }
        Self { queue }
    }

    /// Has a job done, some time.
    pub(super) fn push(&self, job: FileJob) {
        let (done, _) = oneshot::channel();
        if self.queue.try_send((job, done)).is_err() {
            // Each team waits once, each session a few times, each reader for its answer: this is a
            // stuck disk.
            tracing::error!("a job about files was not taken; check the disk and restart coordd");
        }
    }

    /// Runs a job and waits until it is done: what follows may depend on it.
    pub(super) async fn done(&self, job: FileJob) {
        let (done, finished) = oneshot::channel();
        if self.queue.send((job, done)).await.is_ok() {
            let _finished = finished.await;
        }
    }
}

struct Thread {
    world: World,
    files: Arc<TeamFiles>,
    watch: Option<TeamWatch>,
    /// For jobs that come later: this thread waits for nobody.
    runtime: tokio::runtime::Handle,
    scratchpads: HashMap<SessionId, Held>,
}

/// A scratchpad, and what was last seen of it.
struct Held {
    scratchpad: Scratchpad,
    /// Things in it, as far as they are counted.
    things: usize,
    /// What is wrong with it, as it was said.
    wrong: Option<String>,
}

impl Held {
    fn new(scratchpad: Scratchpad) -> Self {
        Self { scratchpad, things: 0, wrong: None }
    }

    /// Whether more than one thing was in it at the last look and nothing is now: an agent may take back a file of its own.
    fn is_emptied(&mut self) -> bool {
        let things = self.scratchpad.things(THINGS_COUNTED_MAX);
        let before = std::mem::replace(&mut self.things, things);
        before > 1 && things == 0
    }
}

impl Thread {
    fn take(&mut self, job: FileJob) {
        match job {
            FileJob::Session(SessionJob::Open { session, cwd, tmp, create }) => {
                self.open(&session, &cwd, tmp, create);
            }
            FileJob::Session(SessionJob::Look) => self.look(),
            FileJob::Session(SessionJob::Sweep { unknown }) => self.sweep(&unknown),
            FileJob::Session(SessionJob::Read { session, path, reply }) => {
                self.read(&session, path, &reply);
            }
            FileJob::Session(SessionJob::Remove { session, team, reply }) => {
                self.remove_session(&session, team.as_ref(), reply.as_ref());
            }
            FileJob::Team(TeamJob::Write(write)) => self.write_team(*write),
            FileJob::Team(TeamJob::Remove { team, session, cwd, tmp, reply }) => {
                self.remove_team(&team, &session, (&cwd, tmp), reply.as_ref());
            }
            FileJob::Edited(outside) => self.edited(outside),
        }
    }

    fn tell(&self, input: Input) {
        self.arrive(Arrival::Input(input));
    }

    fn arrive(&self, arrival: Arrival) {
        // Fails only when the reactor has ended.
        let _told = self.world.reactor.blocking_send(arrival);
    }

    fn warn(&self, session: &str, text: String) {
        tracing::warn!(session, text, "something was not as it should be");
        self.world.hub.publish(session, Event::Warning { text });
    }

    /// A warning that a person has to see: `daemon_status` keeps it.
    fn degraded(&self, text: String) {
        self.arrive(Arrival::Degraded(text));
    }

    /// Makes sure that a session's scratchpad exists (S-1, S-4), and reports what happened to it.
    fn open(&mut self, session: &SessionId, cwd: &str, tmp: Option<String>, create: bool) {
        let checked = if let Some(held) = self.scratchpads.get_mut(session) {
            held.scratchpad.check().map(|found| found == Checked::Lost)
        } else {
            let tmp = tmp.map_or_else(|| self.world.paths.tmp.clone(), PathBuf::from);
            let expected = crate::scratchpad::path(&session.0, cwd, &tmp.to_string_lossy());
            if !create && !Path::new(&expected).exists() {
                // Before the folder is made again, so that a reader sees either no folder or this
                // note.
                self.note_loss(session, &format!("the scratchpad {expected} was gone"));
            }
            Scratchpad::create(&session.0, Path::new(cwd), &tmp).map(|created| {
                for repair in &created.repaired {
                    self.warn(&session.0, repair.to_string());
                }
                self.world.watch.folder(created.scratchpad.path());
                self.scratchpads.insert(session.clone(), Held::new(created.scratchpad));
                created.is_new && !create
            })
        };
        match checked {
            Err(error) => self.warn(&session.0, chain(&error)),
            Ok(lost) => {
                let Some(held) = self.scratchpads.get(session) else { return };
                let path = held.scratchpad.path().display().to_string();
                if lost {
                    self.lost(session, "was gone with all its files; an empty one was created");
                }
                self.tell(Input::ScratchpadReady { session: session.clone(), path });
            }
        }
    }

    /// Looks whether each scratchpad is still the one that is held, and what is in it (fR10).
    fn look(&mut self) {
        for session in self.scratchpads.keys().cloned().collect::<Vec<_>>() {
            let Some(held) = self.scratchpads.get_mut(&session) else { continue };
            match held.scratchpad.check() {
                Ok(found) => {
                    let was_emptied = held.is_emptied();
                    if let Some(text) = held.wrong.take() {
                        self.arrive(Arrival::Mended(text));
                    }
                    if found == Checked::Lost {
                        self.lost(
                            &session,
                            "was gone with all its files; an empty one was created",
                        );
                    } else if was_emptied {
                        self.lost(&session, "was emptied: all its files are gone");
                    }
                }
                Err(error) => {
                    let text = format!("agents cannot rely on their scratchpad: {}", chain(&error));
                    if held.wrong.as_ref() != Some(&text) {
                        let before = held.wrong.replace(text.clone());
                        if let Some(before) = before {
                            self.arrive(Arrival::Mended(before));
                        }
                        self.degraded(text);
                    }
                }
            }
        }
    }

    /// Says that what was in a scratchpad is gone: to those who watch, to who resumes the session, and to its agents.
    fn lost(&self, session: &SessionId, how: &str) {
        let Some(held) = self.scratchpads.get(session) else { return };
        let path = held.scratchpad.path();
        self.world.watch.folder(path);
        let path = path.display().to_string();
        let text = format!("the scratchpad {path} {how}");
        self.note_loss(session, &text);
        self.warn(&session.0, text);
        self.tell(Input::ScratchpadLost { session: session.clone(), path });
    }

    /// For whoever resumes the session later: the warning is heard by those who listen now.
    fn note_loss(&self, session: &SessionId, text: &str) {
        let noted = self.world.state.session(&session.0).map(|folder| {
            folder
                .write_atomic(translate::SCRATCHPAD_LOST, text.as_bytes())
                .map_err(|error| chain(&error))
        });
        if !matches!(noted, Ok(Ok(()))) {
            tracing::warn!(%session, "that the scratchpad was lost could not be noted");
        }
    }

    fn read(&self, session: &SessionId, path: Option<String>, reply: &ReplyTo) {
        let Some(held) = self.scratchpads.get(session) else {
            return answer_call(
                reply,
                Err(failed("the scratchpad cannot be used; `coordctl events` and the log say why")),
            );
        };
        let answer = match path {
            None => listing(&held.scratchpad),
            Some(path) => held.scratchpad.read(Path::new(&path)).map(|content| Response::File {
                bytes: content.bytes.len() as u64,
                truncated: content.cut,
                text: String::from_utf8_lossy(&content.bytes).into_owned(),
            }),
        };
        answer_call(reply, answer.map_err(|error| failed(&chain(&error))));
    }

    /// A session's keys and transcripts go with it, also when the daemon died between the record
    /// and the files.
    fn sweep(&self, unknown: &[String]) {
        for name in unknown {
            match self.world.state.remove_session(name) {
                Ok(_) => {
                    tracing::info!(session = name, "the rest of a removed session was removed");
                }
                Err(error) => {
                    tracing::warn!(error = chain(&error), "an old session cannot be removed");
                }
            }
        }
    }

    fn remove_session(
        &mut self,
        session: &SessionId,
        team: Option<&Name>,
        reply: Option<&ReplyTo>,
    ) {
        let (mut removed, mut kept) = (Vec::new(), Vec::new());
        if let Some(team) = team {
            self.remove_team_files(team, &mut removed, &mut kept);
        }
        if let Some(held) = self.scratchpads.remove(session) {
            if let Some(text) = held.wrong {
                self.arrive(Arrival::Mended(text));
            }
            remove_scratchpad(held.scratchpad, &mut removed, &mut kept);
        }
        match self.world.state.remove_session(&session.0) {
            Ok(removal) => {
                removed.push("the transcripts".to_owned());
                kept.extend(
                    removal.kept.iter().map(|it| format!("{}: {}", it.path.display(), it.reason)),
                );
            }
            Err(error) => kept.push(chain(&error)),
        }
        if let Some(reply) = reply {
            answer_call(reply, Ok(Response::Removed { removed, kept }));
        }
    }
}

fn listing(held: &Scratchpad) -> Result<Response, ScratchpadError> {
    let listing = held.list()?;
    let files = listing
        .entries
        .into_iter()
        .map(|entry| FileRow {
            path: entry.path,
            bytes: entry.bytes,
            modified_ms: entry.modified_ms,
        })
        .collect();
    Ok(Response::Files { root: held.path().display().to_string(), files, truncated: listing.cut })
}

fn remove_scratchpad(held: Scratchpad, removed: &mut Vec<String>, kept: &mut Vec<String>) {
    let path = held.path().display().to_string();
    match held.remove() {
        Ok(removal) => {
            if removal.is_complete() {
                removed.push(path);
            }
            kept.extend(
                removal.kept.iter().map(|it| format!("{}: {}", it.path.display(), it.reason)),
            );
        }
        Err(error) => kept.push(format!("{path}: {}", chain(&error))),
    }
}
