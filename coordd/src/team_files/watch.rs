//! Notices what others do to the files of teams and tasks, and has undone what is no such file.
//!
//! ```text
//! event --quiet for a moment--> judge: same --> nothing
//!                                |     a team file --> Edited
//!                                |     gone --> written again, Deleted
//!                                \     neither --again, up to a bound--> set aside, written again, Damaged
//! ```
//!
//! One thread waits for events and judges them. It never blocks on a receiver: what cannot be
//! handed over now waits, the last word of each file only. Where the kernel has no room for another
//! watch, the files are looked at every few seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::TeamFiles;
use super::events::{Signal, watcher};
pub(crate) use super::judge::Outside;
use super::judge::Verdict;

/// How long a file must be left alone before it is judged.
const QUIET_MS: u64 = 60;

/// How long a writer may take to make a file whole: one that writes in place, on a machine with
/// more to do than it can.
const SETTLE_MS_MAX: u64 = 4_000;

/// How often files are looked at where they cannot be watched.
const POLL_MS: u64 = 2_000;

/// How often it is tried to hand over what nobody took.
const RETRY_MS: u64 = 100;

/// How long the thread sleeps when there is nothing to wait for.
const IDLE_MS: u64 = 60_000;

/// Signals that wait for the thread. When they are more, all teams are looked at.
const SIGNALS_MAX: usize = 256;

/// Watches team files for as long as it lives.
#[derive(Debug)]
pub(crate) struct TeamWatch {
    signals: Option<SyncSender<Signal>>,
    thread: Option<JoinHandle<()>>,
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

    /// Begins to watch a team that was written. What happened to its file since then is noticed
    /// too.
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

#[derive(Default)]
struct Watched {
    changed: Option<Change>,
    /// What could not be handed over yet.
    unsent: Option<Outside>,
    tasks_changed: BTreeMap<u32, Change>,
    tasks_unsent: BTreeMap<u32, Outside>,
    tasks_deleted: BTreeSet<u32>,
}

impl Watched {
    /// When to look at it again.
    fn due(&self, now: Instant) -> Option<Instant> {
        let is_unsent = self.unsent.is_some()
            || !self.tasks_unsent.is_empty()
            || !self.tasks_deleted.is_empty();
        let retry = is_unsent.then(|| now + Duration::from_millis(RETRY_MS));
        let changed = self.changed.iter().chain(self.tasks_changed.values());
        changed.map(|it| it.due()).chain(retry).min()
    }

    /// Remembers what is to be told of a task: its last word, and what it was before the first one
    /// that was not told.
    fn tell_task(&mut self, number: u32, outside: Outside) {
        match outside {
            Outside::TasksDeleted { numbers, .. } => self.tasks_deleted.extend(numbers),
            Outside::TaskEdited(mut edit) => {
                if let Some(Outside::TaskEdited(first)) = self.tasks_unsent.remove(&number) {
                    edit.before = first.before;
                }
                self.tasks_unsent.insert(number, Outside::TaskEdited(edit));
            }
            other @ (Outside::TaskDamaged { .. }
            | Outside::Edited(_)
            | Outside::Damaged { .. }
            | Outside::Deleted { .. }) => {
                // An edit that waits is worth more than the news of damage, which is in the folder
                // to see.
                self.tasks_unsent.entry(number).or_insert(other);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Change {
    first: Instant,
    last: Instant,
}

impl Change {
    /// One more, after the one before.
    fn after(before: Option<&Self>, now: Instant) -> Self {
        Self { first: before.map_or(now, |it| it.first), last: now }
    }

    /// One that is to be looked at once more. A writer that had its time, and still has the lock,
    /// gets it anew.
    fn again(self, now: Instant) -> Self {
        if now >= self.latest() { Self::after(None, now) } else { Self { last: now, ..self } }
    }

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
                Ok(Signal::TaskChanged(team, Some(number))) => self.task_changed(&team, number),
                Ok(Signal::TaskChanged(team, None)) => self.tasks_changed(&team),
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
                    self.tasks_changed(team);
                }
            }
            self.judge_due();
            self.judge_tasks_due();
            self.hand_over();
        }
    }

    fn wait(&self) -> Duration {
        let now = Instant::now();
        let mut until = now + Duration::from_millis(IDLE_MS);
        if self.is_polling {
            until = until.min(self.next_poll);
        }
        for due in self.teams.values().filter_map(|team| team.due(now)) {
            until = until.min(due);
        }
        until.saturating_duration_since(now)
    }

    fn add(&mut self, team: &str) {
        self.watch("teams", team);
        let is_new = !self.teams.contains_key(team);
        self.teams.entry(team.to_owned()).or_default();
        self.changed(team);
        if is_new {
            self.tasks_changed(team);
        }
    }

    fn remove(&mut self, team: &str) {
        self.teams.remove(team);
        self.unwatch("teams", team);
        self.unwatch("tasks", team);
    }

    fn changed(&mut self, team: &str) {
        let now = Instant::now();
        if let Some(watched) = self.teams.get_mut(team) {
            watched.changed = Some(Change::after(watched.changed.as_ref(), now));
        }
    }

    fn task_changed(&mut self, team: &str, number: u32) {
        let now = Instant::now();
        if let Some(watched) = self.teams.get_mut(team) {
            let change = Change::after(watched.tasks_changed.get(&number), now);
            watched.tasks_changed.insert(number, change);
        }
    }

    /// Has all files of a team's tasks looked at. Their folder may be another one now.
    fn tasks_changed(&mut self, team: &str) {
        if !self.teams.contains_key(team) {
            return;
        }
        self.unwatch("tasks", team);
        // Watched first, so that no change falls between; the folder is made by the first look.
        let found = self.files.task_numbers(team);
        self.watch("tasks", team);
        match found.and_then(|_| self.files.task_numbers(team)) {
            Ok(numbers) => numbers.into_iter().for_each(|number| self.task_changed(team, number)),
            Err(error) => tracing::warn!(team, %error, "the tasks of a team cannot be looked at"),
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
                    let change = change.again(now);
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
                self.unwatch("teams", &team);
                self.watch("teams", &team);
            }
            let watched = self.teams.entry(team).or_default();
            watched.changed = None;
            watched.unsent = outside.or(watched.unsent.take());
        }
    }

    fn judge_tasks_due(&mut self) {
        let now = Instant::now();
        for (team, watched) in &mut self.teams {
            let is_due = |it: &(&u32, &Change)| now >= it.1.due();
            let due: Vec<_> =
                watched.tasks_changed.iter().filter(is_due).map(|it| (*it.0, *it.1)).collect();
            for (number, change) in due {
                watched.tasks_changed.remove(&number);
                match self.files.judge_task(team, number, now >= change.latest()) {
                    Ok(Verdict::Same) => {}
                    Ok(Verdict::Unsettled) => {
                        let change = change.again(now);
                        watched.tasks_changed.insert(number, change);
                    }
                    Ok(Verdict::Outside(outside)) => watched.tell_task(number, outside),
                    Err(error) => {
                        tracing::warn!(team, number, %error, "a task file could not be looked at");
                    }
                }
            }
        }
    }

    fn hand_over(&mut self) {
        for (team, watched) in &mut self.teams {
            if let Some(outside) = watched.unsent.take()
                && let Err(TrySendError::Full(outside)) = self.told.try_send(outside)
            {
                watched.unsent = Some(outside);
            }
            // In the order of their numbers: a new task may wait for one before it.
            while let Some((number, outside)) = watched.tasks_unsent.pop_first() {
                if let Err(TrySendError::Full(outside)) = self.told.try_send(outside) {
                    watched.tasks_unsent.insert(number, outside);
                    break;
                }
            }
            if !watched.tasks_deleted.is_empty() {
                let numbers = watched.tasks_deleted.iter().copied().collect();
                let outside = Outside::TasksDeleted { team: team.clone(), numbers };
                if !matches!(self.told.try_send(outside), Err(TrySendError::Full(_))) {
                    watched.tasks_deleted.clear();
                }
            }
        }
    }

    fn watch(&mut self, kind: &str, team: &str) {
        let path = self.files.path(kind).join(team);
        let Some(watcher) = &mut self.watcher else { return };
        if let Err(error) = watcher.watch(&path, RecursiveMode::NonRecursive) {
            self.degrade(&error);
        }
    }

    fn unwatch(&mut self, kind: &str, team: &str) {
        let path = self.files.path(kind).join(team);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use proto::team::TeamFile;
    use tokio::sync::mpsc::{Receiver, channel};
    use tokio::time::timeout;

    use super::super::tests::{task, team};
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
                files.write_team(&team(name, "one"), "").unwrap();
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
            fixture.files.write_team(&team("alpha", &number.to_string()), "").unwrap();
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
        files.write_team(&team("alpha", "one"), "").unwrap();
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
        let again = Change { first, last: first }.again(after(50));
        assert_eq!((again.first, again.due()), (first, after(50 + QUIET_MS)));
        let anew = again.again(after(SETTLE_MS_MAX));
        assert_eq!(anew.due(), after(SETTLE_MS_MAX + QUIET_MS));
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
        files.write_team(&team("alpha", "one"), "").unwrap();
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

    /// An edit, a new one, damage and a removal, while we write too; and the whole folder at once.
    #[tokio::test]
    async fn t2_t4_what_others_do_to_tasks_is_told_and_what_we_do_is_not() {
        let mut fixture = Fixture::new(10);
        let folder = fixture.files.path("tasks").join("alpha");
        let at = |number: u32| folder.join(format!("{number}.json"));
        for status in ["pending", "in_progress", "pending"] {
            for id in ["1", "2"] {
                fixture.files.write_task("alpha", &task(id, status)).unwrap();
            }
        }
        fs::write(at(1), serde_json::to_string(&task("1", "completed")).unwrap()).unwrap();
        let Outside::TaskEdited(edit) = fixture.next().await else { panic!() };
        let before = edit.before.as_ref().map(|it| it.status.as_str());
        assert_eq!(
            (edit.number, before, edit.now.status.as_str()),
            (1, Some("pending"), "completed")
        );
        let temporary = folder.join("3.json.tmp.0123abcd");
        fs::write(&temporary, serde_json::to_string(&task("3", "pending")).unwrap()).unwrap();
        fs::rename(temporary, at(3)).unwrap();
        let Outside::TaskEdited(edit) = fixture.next().await else { panic!() };
        assert_eq!((edit.number, edit.before), (3, None));
        fs::write(at(2), "{").unwrap();
        let Outside::TaskDamaged { number, aside, restored, .. } = fixture.next().await else {
            panic!()
        };
        assert_eq!((number, fs::read_to_string(aside).unwrap().as_str(), restored), (2, "{", true));
        fs::remove_dir_all(&folder).unwrap();
        let mut gone = BTreeSet::new();
        while gone.len() < 2 {
            let Outside::TasksDeleted { numbers, .. } = fixture.next().await else { panic!() };
            gone.extend(numbers);
        }
        assert_eq!(gone, [1, 2].into());
        assert!(at(1).exists() && at(2).exists() && !at(3).exists());
        fs::write(at(2), serde_json::to_string(&task("2", "completed")).unwrap()).unwrap();
        let Outside::TaskEdited(edit) = fixture.next().await else { panic!() };
        assert_eq!((edit.number, edit.now.status.as_str()), (2, "completed"));
    }

    #[tokio::test]
    async fn t4_tasks_that_stand_when_a_team_is_first_watched_are_told() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".claude/tasks/alpha");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("7.json"), serde_json::to_string(&task("7", "pending")).unwrap())
            .unwrap();
        let files = Arc::new(TeamFiles::new(home.path()));
        let (tell, mut told) = channel(10);
        let watch = TeamWatch::start(Arc::clone(&files), tell).unwrap();
        files.write_team(&team("alpha", "one"), "").unwrap();
        watch.add("alpha");
        let outside = timeout(Duration::from_secs(10), told.recv()).await.unwrap().unwrap();
        let Outside::TaskEdited(edit) = outside else { panic!("{outside:?}") };
        assert_eq!((edit.number, edit.before), (7, None));
    }

    #[test]
    fn what_waits_to_be_told_of_a_task_is_its_last_word_and_where_it_came_from() {
        let edit = |before: Option<&str>, now: &str| {
            Outside::TaskEdited(Box::new(super::super::tasks::TaskEdit {
                team: "alpha".to_owned(),
                number: 1,
                before: before.map(|it| task("1", it)),
                now: task("1", now),
            }))
        };
        let mut watched = Watched::default();
        watched.tell_task(1, edit(Some("pending"), "in_progress"));
        watched.tell_task(1, edit(Some("in_progress"), "completed"));
        assert_eq!(watched.tasks_unsent.get(&1), Some(&edit(Some("pending"), "completed")));
    }
}
