//! The thread that serves the inboxes of members in terminals: it puts in what is for them, notices
//! what they read and what they left, and tells the core.
//!
//! ```text
//! reactor --Serve, Taken--> [queue] --> serve, look --InboxWritten, InboxRead, InboxLeft--> reactor
//! inotify --Changed-------->    |                                                              |
//!                               \<-------------------- Taken, once it is durable --------------/
//! ```
//!
//! It is apart from the thread for other files, since it may wait for the lock of another program.
//! An entry that was reported is reported again after a while, for as long as it is in the file;
//! the core knows it by its dedup key. This thread must not decide what an entry leads to.

mod attend;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use coordd_common::chain;
use coordd_core::agent::Process;
use coordd_core::id::AgentId;
use notify::RecommendedWatcher;
use proto::event::Event;

use super::{InboxJob, TeamInboxes, World};
use crate::dir::FileId;
use crate::reactor::Arrival;
use crate::team_files::TeamFiles;
use crate::team_files::assigned::Remembered;
use crate::team_files::inbox::InboxError;
use crate::translate;

/// Signals that wait for the thread: one for each team, one for each entry that was taken over, and
/// what changes meanwhile.
const SIGNALS_MAX: usize = 8_192;

/// How long an inbox must be unchanged before it is read. Programs that write in several steps take
/// less.
const QUIET_MS: u64 = 10;

/// How long a writer may take to make a file whole.
const SETTLE_MS_MAX: u64 = 1_500;

/// The time until a failed attempt is repeated: a lock, a folder that is being created, a full
/// disk.
const RETRY_MS: u64 = 100;

/// The time until an entry that is still in its file is reported again.
const TOLD_MS: u64 = 10_000;

/// How often processes of members are looked for, while there are members.
const SCAN_MS: u64 = 2_000;

/// How often inboxes are polled where inotify does not work.
const POLL_MS: u64 = 1_000;

/// How long the thread sleeps when there is nothing to wait for.
const IDLE_MS: u64 = 60_000;

enum Signal {
    Job(InboxJob),
    /// Something happened in the inboxes of this team.
    Changed(String),
    End,
}

/// The way to the thread. It never blocks.
pub(super) struct Inboxes {
    signals: SyncSender<Signal>,
}

impl Inboxes {
    /// Starts the thread.
    pub(super) fn start(world: World, files: Arc<TeamFiles>) -> Self {
        let (signals, arrived) = sync_channel(SIGNALS_MAX);
        let missed = Arc::new(AtomicBool::new(false));
        let watcher = watcher(signals.clone(), Arc::clone(&missed));
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(%error, "inboxes cannot be watched and are looked at every second"))
            .ok();
        let mut thread = Thread { world, files, watcher, missed, teams: BTreeMap::new() };
        let started = std::thread::Builder::new()
            .name("inboxes".to_owned())
            .spawn(move || thread.run(&arrived));
        if let Err(error) = started {
            tracing::error!(%error, "no thread for inboxes; members in terminals get no mail");
        }
        Self { signals }
    }

    pub(super) fn push(&self, job: InboxJob) {
        if self.signals.try_send(Signal::Job(job)).is_err() {
            // What is to be taken out is found and told again; of each team one waits.
            tracing::warn!("a job about inboxes was not taken; it is tried again");
        }
    }
}

impl Drop for Inboxes {
    fn drop(&mut self) {
        // The watcher holds a sender too. A full queue is read first, and then the reactor is found
        // to be gone.
        let _ended = self.signals.try_send(Signal::End);
    }
}

/// Turns events into the names of teams. It runs on the watcher's own thread and never waits.
fn watcher(
    signals: SyncSender<Signal>,
    missed: Arc<AtomicBool>,
) -> notify::Result<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else {
            missed.store(true, Ordering::Relaxed);
            return;
        };
        if event.flag() == Some(notify::event::Flag::Rescan) {
            missed.store(true, Ordering::Relaxed);
        }
        if !crate::team_files::events::is_change(event.kind) {
            return;
        }
        let teams: BTreeSet<_> = event.paths.iter().filter_map(|path| team_of(path)).collect();
        for team in teams {
            if signals.try_send(Signal::Changed(team)).is_err() {
                missed.store(true, Ordering::Relaxed);
            }
        }
    })
}

/// The team of an inbox file or of a folder of inboxes. Locks and prepared files are ignored.
fn team_of(path: &Path) -> Option<String> {
    let folder = if path.extension().is_some_and(|extension| extension == "json") {
        path.parent()?
    } else {
        path
    };
    let is_folder = folder.file_name().is_some_and(|name| name == "inboxes");
    is_folder.then(|| folder.parent()?.file_name()?.to_str().map(str::to_owned))?
}

/// When the inboxes are due, and since when.
#[derive(Clone, Copy)]
struct Due {
    first: Instant,
    at: Instant,
}

impl Due {
    fn after(before: Option<Self>, now: Instant, wait_ms: u64) -> Self {
        let first = before.map_or(now, |it| it.first);
        let latest = first + Duration::from_millis(SETTLE_MS_MAX);
        let at = (now + Duration::from_millis(wait_ms)).min(latest.max(now));
        Self { first, at }
    }

    /// Whether a writer has had its time.
    fn is_final(self, now: Instant) -> bool {
        now >= self.first + Duration::from_millis(SETTLE_MS_MAX)
    }
}

/// What became of a letter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Written,
    Read,
}

struct Team {
    wanted: TeamInboxes,
    due: Option<Due>,
    /// Whether the reactor waits to hear that the inboxes were served.
    is_asked: bool,
    /// Which folder is watched.
    watched: Option<FileId>,
    /// What was told and stands in its file, and when.
    told: BTreeMap<String, Instant>,
    strangers: BTreeSet<String>,
    /// The fate of letters that the core still names.
    known: BTreeMap<String, Fate>,
    /// Tasks that others told members of.
    assigned: Remembered,
    /// What was last told of processes.
    processes: BTreeMap<AgentId, Option<Process>>,
    /// Whether the last attempt failed, so that the failure is reported once.
    is_failing: bool,
}

struct Thread {
    world: World,
    files: Arc<TeamFiles>,
    watcher: Option<RecommendedWatcher>,
    /// Set by the watcher when it could not say what happened.
    missed: Arc<AtomicBool>,
    teams: BTreeMap<String, Team>,
}

impl Thread {
    fn run(&mut self, arrived: &Receiver<Signal>) {
        let mut scan = Instant::now();
        let mut poll = Instant::now();
        loop {
            match arrived.recv_timeout(self.wait(scan, poll)) {
                Ok(Signal::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Signal::Job(InboxJob::Serve(wanted))) => self.want(*wanted),
                Ok(Signal::Job(InboxJob::Taken { team, inbox, key })) => {
                    self.taken(team.as_str(), &inbox, &key);
                }
                Ok(Signal::Changed(team)) => self.changed(&team, QUIET_MS),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.world.reactor.is_closed() {
                return;
            }
            let now = Instant::now();
            let is_polling = self.watcher.is_none() && now >= poll;
            if self.missed.swap(false, Ordering::Relaxed) || is_polling {
                poll = now + Duration::from_millis(POLL_MS);
                let teams: Vec<_> = self.teams.keys().cloned().collect();
                for team in &teams {
                    self.changed(team, 0);
                }
            }
            if now >= scan && !self.teams.is_empty() {
                scan = now + Duration::from_millis(SCAN_MS);
                self.scan();
            }
            self.attend_due();
        }
    }

    fn wait(&self, scan: Instant, poll: Instant) -> Duration {
        let now = Instant::now();
        let mut until = now + Duration::from_millis(IDLE_MS);
        if !self.teams.is_empty() {
            until = until.min(scan);
            if self.watcher.is_none() {
                until = until.min(poll);
            }
        }
        for team in self.teams.values() {
            let told = team.told.values().min().map(|it| *it + Duration::from_millis(TOLD_MS));
            until = told.into_iter().chain(team.due.map(|it| it.at)).fold(until, Instant::min);
        }
        until.saturating_duration_since(now)
    }

    fn want(&mut self, mut wanted: TeamInboxes) {
        let now = Instant::now();
        let letters = wanted.terminals.iter().flat_map(|terminal| &terminal.letters);
        let said: BTreeSet<_> = letters.map(|letter| letter.1.message.clone()).collect();
        let before = self.teams.remove(wanted.team.as_str());
        let mut team = before.unwrap_or_else(|| Team {
            wanted: wanted.clone(),
            due: None,
            is_asked: false,
            watched: None,
            told: BTreeMap::new(),
            strangers: BTreeSet::new(),
            known: BTreeMap::new(),
            assigned: Remembered::default(),
            processes: BTreeMap::new(),
            is_failing: false,
        });
        // Reports that the core had not yet processed when it sent this.
        let known = std::mem::take(&mut team.known);
        for terminal in &mut wanted.terminals {
            terminal.letters.retain(|letter| known.get(&letter.1.message) != Some(&Fate::Read));
            for (_, letter) in &mut terminal.letters {
                letter.is_written |= known.contains_key(&letter.message);
            }
        }
        team.known = known.into_iter().filter(|it| said.contains(&it.0)).collect();
        for it in &wanted.terminals {
            team.processes.entry(it.agent.clone()).or_insert_with(|| it.process.clone());
        }
        team.due = Some(Due::after(team.due, now, 0));
        team.is_asked = true;
        self.teams.insert(wanted.team.to_string(), Team { wanted, ..team });
    }

    fn changed(&mut self, team: &str, wait_ms: u64) {
        if let Some(team) = self.teams.get_mut(team) {
            team.due = Some(Due::after(team.due, Instant::now(), wait_ms));
        }
    }

    fn taken(&mut self, name: &str, inbox: &str, key: &str) {
        let Some(team) = self.teams.get_mut(name) else { return };
        let done = self.files.inboxes(name).and_then(|folder| match folder {
            Some(folder) => folder.take(inbox, |it| translate::entry_key(it) == key),
            None => Ok(()),
        });
        match done {
            Ok(()) => {
                team.told.remove(key);
            }
            // It is told, and taken over, again.
            Err(error) => tracing::debug!(team = name, error = chain(&error), "an entry stays"),
        }
    }

    fn attend_due(&mut self) {
        let now = Instant::now();
        let is_due = |it: &Team| {
            let told = it.told.values().any(|it| now >= *it + Duration::from_millis(TOLD_MS));
            told || it.due.is_some_and(|it| now >= it.at)
        };
        let due: Vec<_> =
            self.teams.iter().filter(|team| is_due(team.1)).map(|team| team.0.clone()).collect();
        for name in due {
            let Some(mut team) = self.teams.remove(&name) else { continue };
            let is_final = team.due.is_some_and(|it| it.is_final(now));
            let again_ms = match self.attend(&name, &mut team, is_final) {
                Ok(again_ms) => {
                    team.is_failing = false;
                    again_ms
                }
                Err(error) => Some(self.failed(&name, &mut team, &error)),
            };
            team.due = again_ms.map(|it| {
                // The inboxes that were due get a new time.
                let before = team.due.filter(|_| !is_final);
                Due::after(before, Instant::now(), it)
            });
            if std::mem::take(&mut team.is_asked) {
                let served = Arrival::InboxesServed(team.wanted.team.clone());
                // Fails only when the reactor has ended.
                let _told = self.world.reactor.blocking_send(served);
            }
            if !team.wanted.terminals.is_empty() {
                self.teams.insert(name, team);
            }
        }
    }

    /// Says it once, and returns when to try again.
    fn failed(&self, name: &str, team: &mut Team, error: &InboxError) -> u64 {
        if matches!(error, InboxError::Lock(_) | InboxError::LostLock { .. }) {
            return RETRY_MS;
        }
        if !std::mem::replace(&mut team.is_failing, true) {
            let text = format!("the inboxes of team {name} are not served: {}", chain(error));
            tracing::warn!(text, "something was not as it should be");
            self.world.hub.publish("", Event::Warning { text });
        }
        SETTLE_MS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t2_only_inboxes_and_their_folder_concern_a_team() {
        let of = |path: &str| team_of(Path::new(path));
        assert_eq!(of("/h/.claude/teams/alpha/inboxes/m1.json").as_deref(), Some("alpha"));
        assert_eq!(of("/h/.claude/teams/alpha/inboxes").as_deref(), Some("alpha"));
        for path in [
            "/h/.claude/teams/alpha/inboxes/m1.json.lock",
            "/h/.claude/teams/alpha/inboxes/m1.json.tmp.0123",
            "/h/.claude/teams/alpha/inboxes/.coordd-post-m1",
            "/h/.claude/teams/alpha/config.json",
            "/",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn t2_a_look_is_put_off_while_a_file_changes_and_not_for_ever() {
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        let first = Due::after(None, now, QUIET_MS);
        assert_eq!(first.at, after(QUIET_MS));
        let next = Due::after(Some(first), after(5), QUIET_MS);
        assert_eq!((next.first, next.at), (now, after(5 + QUIET_MS)));
        assert!(!next.is_final(next.at));
        let last = Due::after(Some(next), after(SETTLE_MS_MAX - 1), RETRY_MS);
        assert_eq!(last.at, after(SETTLE_MS_MAX));
        assert!(last.is_final(last.at));
    }
}
