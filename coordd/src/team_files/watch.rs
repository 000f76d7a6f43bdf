//! Notices what others do to team files, and undoes what is no team file.
//!
//! ```text
//! event --quiet for a moment--> judge: same --> nothing
//!                                |     a team file --> Edited
//!                                |     gone --> written again, Deleted
//!                                \     neither --again, up to a bound--> set aside, written again, Damaged
//! ```
//!
//! One thread waits for events and judges. It never blocks on whoever is told: what cannot be handed over now waits, the last
//! word of each team only. Where the kernel has no room for another watch, the files are looked at every few seconds.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind, Flag};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use proto::team::TeamFile;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::{CONFIG, FILE_BYTES_MAX, TeamFiles, TeamFilesError, parse, set_aside};
use crate::dir::FileError;

/// How long a file must be left alone before it is judged.
const QUIET_MS: u64 = 60;

/// How long a writer may take to make a file whole.
const SETTLE_MS_MAX: u64 = 1_500;

/// How often files are looked at where they cannot be watched.
const POLL_MS: u64 = 2_000;

/// How often it is tried to hand over what nobody took.
const RETRY_MS: u64 = 100;

/// How long the thread sleeps when there is nothing to wait for.
const IDLE_MS: u64 = 60_000;

/// Signals that wait for the thread. When they are more, all teams are looked at.
const SIGNALS_MAX: usize = 256;

/// What somebody else did to a team file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outside {
    /// It is another team file now.
    Edited(TeamFile),
    /// It was no team file. It was set aside, and the last right state written again.
    Damaged { team: String, aside: PathBuf },
    /// It was removed, and the last right state was written again.
    Deleted { team: String },
}

/// Watches team files for as long as it lives.
#[derive(Debug)]
pub(crate) struct TeamWatch {
    signals: Option<SyncSender<Signal>>,
    thread: Option<JoinHandle<()>>,
}

enum Signal {
    Add(String),
    Remove(String),
    Changed(String),
}

impl TeamWatch {
    /// Starts the thread. What others do is sent to `told`, which is never waited for.
    pub(crate) fn start(files: Arc<TeamFiles>, told: Sender<Outside>) -> std::io::Result<Self> {
        let (signals, arrived) = sync_channel(SIGNALS_MAX);
        let missed = Arc::new(AtomicBool::new(false));
        let watcher = watcher(&files, signals.clone(), Arc::clone(&missed));
        let mut judge = Judge {
            files,
            told,
            watcher: None,
            is_polling: false,
            missed,
            teams: BTreeMap::new(),
            next_poll: Instant::now(),
        };
        match watcher {
            Ok(watcher) => judge.watcher = Some(watcher),
            Err(error) => judge.degrade(&error),
        }
        let thread = std::thread::Builder::new()
            .name("team-files".to_owned())
            .spawn(move || judge.run(&arrived))?;
        Ok(Self { signals: Some(signals), thread: Some(thread) })
    }

    /// Begins to watch a team that was written. What happened to its file since then is noticed too.
    pub(crate) fn add(&self, team: &str) {
        self.signal(Signal::Add(team.to_owned()));
    }

    pub(crate) fn remove(&self, team: &str) {
        self.signal(Signal::Remove(team.to_owned()));
    }

    fn signal(&self, signal: Signal) {
        // Waits only for the thread, which waits for nobody.
        if let Some(signals) = &self.signals
            && signals.send(signal).is_err()
        {
            tracing::warn!("team files are no longer watched");
        }
    }
}

impl Drop for TeamWatch {
    fn drop(&mut self) {
        if let Some(signals) = self.signals.take() {
            // An empty name ends the thread: the watcher holds a sender too.
            drop(signals.send(Signal::Remove(String::new())));
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread for team files had panicked");
        }
    }
}

/// Turns events into the names of teams. It runs on the watcher's own thread and never waits.
fn watcher(
    files: &TeamFiles,
    signals: SyncSender<Signal>,
    missed: Arc<AtomicBool>,
) -> notify::Result<RecommendedWatcher> {
    let teams = files.teams_path();
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else {
            missed.store(true, Ordering::Relaxed);
            return;
        };
        if event.flag() == Some(Flag::Rescan) {
            missed.store(true, Ordering::Relaxed);
        }
        if !is_change(event.kind) {
            return;
        }
        for team in event.paths.iter().filter_map(|it| team_of(it, &teams)) {
            if signals.try_send(Signal::Changed(team)).is_err() {
                missed.store(true, Ordering::Relaxed);
            }
        }
    })
}

/// Looking at a file is an event too, and ours would never end.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
        EventKind::Access(_) => false,
    }
}

/// The team whose file, or whose whole folder, a path is.
fn team_of(path: &Path, teams: &Path) -> Option<String> {
    let mut names = path.strip_prefix(teams).ok()?.iter();
    let team = names.next()?.to_str()?;
    let concerns = names.next().is_none_or(|it| it == OsStr::new(CONFIG));
    (concerns && names.next().is_none()).then(|| team.to_owned())
}

#[derive(Default)]
struct Watched {
    changed: Option<Change>,
    /// What could not be handed over yet.
    unsent: Option<Outside>,
}

#[derive(Clone, Copy)]
struct Change {
    first: Instant,
    last: Instant,
}

impl Change {
    fn due(self) -> Instant {
        (self.last + Duration::from_millis(QUIET_MS)).min(self.latest())
    }

    fn latest(self) -> Instant {
        self.first + Duration::from_millis(SETTLE_MS_MAX)
    }
}

struct Judge {
    files: Arc<TeamFiles>,
    told: Sender<Outside>,
    watcher: Option<RecommendedWatcher>,
    is_polling: bool,
    /// Set by the watcher when it could not say what happened.
    missed: Arc<AtomicBool>,
    teams: BTreeMap<String, Watched>,
    next_poll: Instant,
}

impl Judge {
    fn run(mut self, arrived: &Receiver<Signal>) {
        loop {
            match arrived.recv_timeout(self.wait()) {
                Ok(Signal::Remove(team)) if team.is_empty() => return,
                Ok(Signal::Remove(team)) => self.remove(&team),
                Ok(Signal::Add(team)) => self.add(&team),
                Ok(Signal::Changed(team)) => self.changed(&team),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.told.is_closed() {
                return;
            }
            let poll = self.is_polling && Instant::now() >= self.next_poll;
            if poll {
                self.next_poll = Instant::now() + Duration::from_millis(POLL_MS);
            }
            if self.missed.swap(false, Ordering::Relaxed) || poll {
                let teams: Vec<_> = self.teams.keys().cloned().collect();
                for team in &teams {
                    self.changed(team);
                }
            }
            self.judge_due();
            self.hand_over();
        }
    }

    fn wait(&self) -> Duration {
        let now = Instant::now();
        let mut until = now + Duration::from_millis(IDLE_MS);
        if self.is_polling {
            until = until.min(self.next_poll);
        }
        for watched in self.teams.values() {
            if let Some(change) = watched.changed {
                until = until.min(change.due());
            }
            if watched.unsent.is_some() {
                until = until.min(now + Duration::from_millis(RETRY_MS));
            }
        }
        until.saturating_duration_since(now)
    }

    fn add(&mut self, team: &str) {
        self.watch(team);
        self.teams.entry(team.to_owned()).or_default();
        self.changed(team);
    }

    fn remove(&mut self, team: &str) {
        self.teams.remove(team);
        self.unwatch(team);
    }

    fn changed(&mut self, team: &str) {
        let now = Instant::now();
        if let Some(watched) = self.teams.get_mut(team) {
            let first = watched.changed.map_or(now, |it| it.first);
            watched.changed = Some(Change { first, last: now });
        }
    }

    fn judge_due(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self
            .teams
            .iter()
            .filter_map(|(team, it)| Some((team.clone(), it.changed?)))
            .filter(|(_, change)| now >= change.due())
            .collect();
        for (team, change) in due {
            let verdict = self.files.judge(&team, now >= change.latest());
            let outside = match verdict {
                Ok(Verdict::Same) => None,
                Ok(Verdict::Unsettled) => {
                    let change = Change { last: now, ..change };
                    self.teams.entry(team).or_default().changed = Some(change);
                    continue;
                }
                Ok(Verdict::Outside(outside)) => Some(outside),
                Err(error) => {
                    tracing::warn!(team, %error, "a team file could not be looked at");
                    None
                }
            };
            if matches!(outside, Some(Outside::Deleted { .. })) {
                // The folder may be another one now.
                self.unwatch(&team);
                self.watch(&team);
            }
            let watched = self.teams.entry(team).or_default();
            watched.changed = None;
            watched.unsent = outside.or(watched.unsent.take());
        }
    }

    fn hand_over(&mut self) {
        for watched in self.teams.values_mut() {
            if let Some(outside) = watched.unsent.take()
                && let Err(TrySendError::Full(outside)) = self.told.try_send(outside)
            {
                watched.unsent = Some(outside);
            }
        }
    }

    fn watch(&mut self, team: &str) {
        let path = self.files.teams_path().join(team);
        let Some(watcher) = &mut self.watcher else { return };
        if let Err(error) = watcher.watch(&path, RecursiveMode::NonRecursive) {
            self.degrade(&error);
        }
    }

    fn unwatch(&mut self, team: &str) {
        let path = self.files.teams_path().join(team);
        if let Some(watcher) = &mut self.watcher
            && let Err(error) = watcher.unwatch(&path)
        {
            // It went with its folder, as a rule.
            tracing::debug!(team, %error, "a folder was not watched");
        }
    }

    /// From now on all files are looked at (rel-95). Those that are watched stay watched.
    fn degrade(&mut self, error: &notify::Error) {
        if !std::mem::replace(&mut self.is_polling, true) {
            tracing::warn!(%error, "team files cannot be watched and are looked at every few seconds");
        }
    }
}

enum Verdict {
    Same,
    /// No team file, but it may become one.
    Unsettled,
    Outside(Outside),
}

impl TeamFiles {
    /// Compares a team's file with its last right state.
    fn judge(&self, team: &str, is_final: bool) -> Result<Verdict, TeamFilesError> {
        let mut all_known = self.lock();
        let Some(known) = all_known.get_mut(team) else { return Ok(Verdict::Same) };
        let folder = self.folder("teams", team)?;
        let restore = |known: &[u8]| {
            folder
                .write_atomic(CONFIG, known)
                .map_err(|source| TeamFilesError::File { team: team.to_owned(), source })
        };
        let content = match folder.read(Path::new(CONFIG), FILE_BYTES_MAX) {
            Ok(content) if content.bytes == known.bytes && !content.cut => {
                return Ok(Verdict::Same);
            }
            Ok(content) => Some(content),
            // A writer that replaces it may be between two steps.
            Err(FileError::Missing { .. }) if !is_final => return Ok(Verdict::Unsettled),
            Err(FileError::Missing { .. }) => {
                restore(&known.bytes)?;
                return Ok(Verdict::Outside(Outside::Deleted { team: team.to_owned() }));
            }
            Err(_) => None,
        };
        if let Some(found) = content.as_ref().and_then(|it| parse(it, team)) {
            known.bytes = content.map(|it| it.bytes).unwrap_or_default();
            if found == known.team {
                return Ok(Verdict::Same);
            }
            known.team = found.clone();
            return Ok(Verdict::Outside(Outside::Edited(found)));
        }
        if !is_final {
            return Ok(Verdict::Unsettled);
        }
        let aside = set_aside(&folder, team)?;
        restore(&known.bytes)?;
        Ok(Verdict::Outside(Outside::Damaged { team: team.to_owned(), aside }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::sync::mpsc::{Receiver, channel};
    use tokio::time::timeout;

    use super::super::tests::team;
    use super::*;

    struct Fixture {
        _home: tempfile::TempDir,
        files: Arc<TeamFiles>,
        watch: TeamWatch,
        told: Receiver<Outside>,
    }

    impl Fixture {
        fn new(capacity: usize) -> Self {
            let home = tempfile::tempdir().unwrap();
            let files = Arc::new(TeamFiles::new(home.path()));
            let (tell, told) = channel(capacity);
            let watch = TeamWatch::start(Arc::clone(&files), tell).unwrap();
            for name in ["alpha", "beta"] {
                files.write_team(&team(name, "one")).unwrap();
                watch.add(name);
            }
            Self { _home: home, files, watch, told }
        }

        async fn next(&mut self) -> Outside {
            timeout(Duration::from_secs(10), self.told.recv()).await.unwrap().unwrap()
        }

        fn edit(&self, name: &str, text: &str) {
            fs::write(self.files.config_path(name), text).unwrap();
        }
    }

    fn text(team: &TeamFile) -> String {
        serde_json::to_string(team).unwrap()
    }

    #[tokio::test]
    async fn t2_an_edit_is_told_and_a_write_of_our_own_is_not() {
        let mut fixture = Fixture::new(10);
        for number in 0..20 {
            fixture.files.write_team(&team("alpha", &number.to_string())).unwrap();
        }
        let edited = team("beta", "by hand");
        fixture.edit("beta", &text(&edited));
        assert_eq!(fixture.next().await, Outside::Edited(edited));
        let edited = team("alpha", "by hand");
        fixture.edit("alpha", &text(&edited));
        assert_eq!(fixture.next().await, Outside::Edited(edited.clone()));
        // What it says already is no edit, however it is written.
        fixture.edit("alpha", &serde_json::to_string_pretty(&edited).unwrap());
        let edited = team("beta", "again");
        fixture.edit("beta", &text(&edited));
        assert_eq!(fixture.next().await, Outside::Edited(edited));
    }

    #[tokio::test]
    async fn t2_an_edit_by_rename_is_told() {
        let mut fixture = Fixture::new(10);
        let edited = team("alpha", "by rename");
        let path = fixture.files.config_path("alpha");
        let temporary = path.with_file_name("config.json.tmp.0123abcd");
        fs::write(&temporary, text(&edited)).unwrap();
        fs::rename(temporary, path).unwrap();
        assert_eq!(fixture.next().await, Outside::Edited(edited));
    }

    #[tokio::test]
    async fn t2_what_is_no_team_file_is_set_aside_and_the_last_right_state_restored() {
        let mut fixture = Fixture::new(10);
        for bad in ["{\"name\":\"alpha\"", "", "[]", r#"{"name":"beta"}"#] {
            let path = fixture.files.config_path("alpha");
            let good = fs::read(&path).unwrap();
            fixture.edit("alpha", bad);
            let Outside::Damaged { team, aside } = fixture.next().await else { panic!("{bad}") };
            assert_eq!(team, "alpha");
            assert_eq!(fs::read_to_string(&aside).unwrap(), bad);
            assert!(aside.to_str().unwrap().contains("config.json.corrupt-"));
            assert_eq!(fs::read(&path).unwrap(), good);
        }
    }

    /// Some versions of Claude Code write in place, so that half a file can be seen.
    #[test]
    fn t2_half_a_file_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let files = TeamFiles::new(home.path());
        files.write_team(&team("alpha", "one")).unwrap();
        let edited = team("alpha", "in two halves");
        let whole = text(&edited);
        let path = files.config_path("alpha");
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(matches!(files.judge("alpha", false).unwrap(), Verdict::Unsettled));
        fs::remove_file(&path).unwrap();
        assert!(matches!(files.judge("alpha", false).unwrap(), Verdict::Unsettled));
        fs::write(&path, whole).unwrap();
        let Verdict::Outside(outside) = files.judge("alpha", false).unwrap() else { panic!() };
        assert_eq!(outside, Outside::Edited(edited));
        assert!(matches!(files.judge("alpha", true).unwrap(), Verdict::Same));
    }

    #[test]
    fn t2_a_file_is_judged_when_it_is_left_alone_or_never_is() {
        let first = Instant::now();
        let after = |ms| first + Duration::from_millis(ms);
        assert_eq!(Change { first, last: first }.due(), after(QUIET_MS));
        assert_eq!(Change { first, last: after(1_000) }.due(), after(1_000 + QUIET_MS));
        assert_eq!(Change { first, last: after(9_000) }.due(), after(SETTLE_MS_MAX));
    }

    #[tokio::test]
    async fn t2_what_is_removed_is_written_again_and_still_watched() {
        let mut fixture = Fixture::new(10);
        let path = fixture.files.config_path("alpha");
        fs::remove_file(&path).unwrap();
        assert_eq!(fixture.next().await, Outside::Deleted { team: "alpha".to_owned() });
        assert!(path.exists());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert_eq!(fixture.next().await, Outside::Deleted { team: "alpha".to_owned() });
        let edited = team("alpha", "after that");
        fixture.edit("alpha", &text(&edited));
        assert_eq!(fixture.next().await, Outside::Edited(edited));
    }

    #[tokio::test]
    async fn t3_a_team_that_we_remove_stays_removed() {
        let mut fixture = Fixture::new(10);
        fixture.watch.remove("alpha");
        fixture.files.remove("alpha").unwrap();
        let edited = team("beta", "after that");
        fixture.edit("beta", &text(&edited));
        assert_eq!(fixture.next().await, Outside::Edited(edited));
        assert!(!fixture.files.config_path("alpha").exists());
    }

    #[tokio::test]
    async fn a_reader_who_is_busy_gets_the_last_word_of_each_team() {
        let mut fixture = Fixture::new(1);
        let first = team("beta", "fills the queue");
        fixture.edit("beta", &text(&first));
        let filled = async {
            while fixture.told.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(10), filled).await.unwrap();
        let last = team("alpha", "waits");
        fixture.edit("alpha", &text(&last));
        assert_eq!(fixture.next().await, Outside::Edited(first));
        assert_eq!(fixture.next().await, Outside::Edited(last));
    }

    /// rel-95: no room for a watch.
    #[tokio::test]
    async fn rel95_without_a_watch_the_files_are_looked_at() {
        let home = tempfile::tempdir().unwrap();
        let files = Arc::new(TeamFiles::new(home.path()));
        let (tell, mut told) = channel(10);
        let (signals, arrived) = sync_channel(SIGNALS_MAX);
        let mut judge = Judge {
            files: Arc::clone(&files),
            told: tell,
            watcher: None,
            is_polling: false,
            missed: Arc::new(AtomicBool::new(false)),
            teams: BTreeMap::new(),
            next_poll: Instant::now(),
        };
        judge.degrade(&notify::Error::new(notify::ErrorKind::MaxFilesWatch));
        let thread = std::thread::spawn(move || judge.run(&arrived));
        let watch = TeamWatch { signals: Some(signals), thread: Some(thread) };
        files.write_team(&team("alpha", "one")).unwrap();
        watch.add("alpha");
        let edited = team("alpha", "by hand");
        fs::write(files.config_path("alpha"), text(&edited)).unwrap();
        let outside = timeout(Duration::from_secs(10), told.recv()).await.unwrap().unwrap();
        assert_eq!(outside, Outside::Edited(edited));
        let edited = team("alpha", "again");
        fs::write(files.config_path("alpha"), text(&edited)).unwrap();
        let outside = timeout(Duration::from_secs(10), told.recv()).await.unwrap().unwrap();
        assert_eq!(outside, Outside::Edited(edited));
    }

    #[test]
    fn only_the_file_and_the_folder_concern_a_team() {
        let of = |path: &str| team_of(Path::new(path), Path::new("/h/.claude/teams"));
        assert_eq!(of("/h/.claude/teams/alpha").as_deref(), Some("alpha"));
        assert_eq!(of("/h/.claude/teams/alpha/config.json").as_deref(), Some("alpha"));
        for path in [
            "/h/.claude/teams",
            "/h/.claude/teams/alpha/inboxes",
            "/h/.claude/teams/alpha/config.json/x",
            "/x",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
