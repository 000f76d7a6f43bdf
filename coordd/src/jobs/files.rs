//! Jobs about files, one after the other, on a thread of their own: disks may be slow, and order matters.

use super::{ReplyTo, SessionJob, TeamJob, World, answer_call, failed};
use crate::cause::chain;
use crate::limits;
use crate::reactor::Arrival;
use crate::scratchpad::{Checked, Scratchpad, ScratchpadError};
use crate::team_files::tasks::{TaskEdit, TaskReplaced, number_of};
use crate::team_files::watch::{Outside, TeamWatch};
use crate::team_files::{Replaced, TeamFiles};
use crate::translate;
use coordd_core::Input;
use coordd_core::id::SessionId;
use coordd_core::name::Name;
use coordd_core::task::{Edit, TaskStatus};
use proto::event::Event;
use proto::response::{FileRow, Response};
use proto::team::{TaskFile, TeamFile};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Outside edits that wait to be told; the watch keeps the last word of each team.
const EDITS_WAITING_MAX: usize = 64;

/// Tasks that one warning names.
const TASKS_NAMED_MAX: usize = 20;

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
    pub(super) fn start(world: World) -> Self {
        let (queue, mut jobs) =
            mpsc::channel::<(FileJob, oneshot::Sender<()>)>(limits::JOBS_WAITING_MAX);
        let (told, mut edits) = mpsc::channel(EDITS_WAITING_MAX);
        let files = Arc::new(TeamFiles::new(&world.paths.home));
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
        let mut thread = Thread { world, files, watch, scratchpads: HashMap::new() };
        let started = std::thread::Builder::new().name("files".to_owned()).spawn(move || {
            while let Some((job, done)) = jobs.blocking_recv() {
                thread.take(job);
                // Whoever waited may be gone.
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
            // Each team waits once, each session a few times, each reader for its answer: this is a stuck disk.
            tracing::error!("a job about files was not taken; check the disk and restart coordd");
        }
    }

    /// Has a job done, and waits until it is: what follows may depend on it.
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
    scratchpads: HashMap<SessionId, Scratchpad>,
}

impl Thread {
    fn take(&mut self, job: FileJob) {
        match job {
            FileJob::Session(SessionJob::Open { session, cwd, tmp, create }) => {
                self.open(&session, &cwd, tmp, create);
            }
            FileJob::Session(SessionJob::Sweep { known }) => self.sweep(&known),
            FileJob::Session(SessionJob::Read { session, path, reply }) => {
                self.read(&session, path, &reply);
            }
            FileJob::Session(SessionJob::Remove { session, team, reply }) => {
                self.remove_session(&session, team.as_ref(), reply.as_ref());
            }
            FileJob::Team(TeamJob::Write { team, file, tasks }) => {
                self.write_team(&file, &tasks);
                let _told = self.world.reactor.blocking_send(Arrival::TeamWritten(team));
            }
            FileJob::Team(TeamJob::Remove { team, session, cwd, tmp, reply }) => {
                self.remove_team(&team, &session, (&cwd, tmp), reply.as_ref());
            }
            FileJob::Edited(outside) => self.edited(outside),
        }
    }

    fn tell(&self, input: Input) {
        // Fails only when the reactor has ended.
        let _told = self.world.reactor.blocking_send(Arrival::Input(input));
    }

    fn warn(&self, session: &str, text: String) {
        tracing::warn!(session, text, "something was not as it should be");
        self.world.hub.publish(session, Event::Warning { text });
    }

    /// For what somebody has to look at: it is said to those who ask later, too.
    fn degraded(&self, text: String) {
        // Fails only when the reactor has ended.
        let _told = self.world.reactor.blocking_send(Arrival::Degraded(text));
    }

    /// Makes sure that a session's scratchpad is there (S-1, S-4), and says what happened to it.
    fn open(&mut self, session: &SessionId, cwd: &str, tmp: Option<String>, create: bool) {
        let checked = if let Some(held) = self.scratchpads.get_mut(session) {
            held.check().map(|found| found == Checked::Lost)
        } else {
            let tmp = tmp.map_or_else(|| self.world.paths.tmp.clone(), PathBuf::from);
            Scratchpad::create(&session.0, Path::new(cwd), &tmp).map(|created| {
                for repair in &created.repaired {
                    self.warn(&session.0, repair.to_string());
                }
                self.scratchpads.insert(session.clone(), created.scratchpad);
                created.is_new && !create
            })
        };
        match checked {
            Err(error) => self.warn(&session.0, chain(&error)),
            Ok(lost) => {
                let Some(held) = self.scratchpads.get(session) else { return };
                let path = held.path().display().to_string();
                if lost {
                    let text = format!(
                        "the scratchpad {path} was gone with all that was in it; an empty one was made"
                    );
                    self.note_loss(session, &text);
                    self.warn(&session.0, text);
                }
                self.tell(Input::ScratchpadReady { session: session.clone(), path });
            }
        }
    }

    /// For whoever resumes the session later: the warning is heard by those who listen now.
    fn note_loss(&self, session: &SessionId, text: &str) {
        let noted = self.world.state.session(&session.0).map(|folder| {
            folder
                .write_atomic(translate::SCRATCHPAD_LOST, text.as_bytes())
                .map_err(|it| chain(&it))
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
            None => listing(held),
            Some(path) => held.read(Path::new(&path)).map(|content| Response::File {
                bytes: content.bytes.len() as u64,
                truncated: content.cut,
                text: String::from_utf8_lossy(&content.bytes).into_owned(),
            }),
        };
        answer_call(reply, answer.map_err(|error| failed(&chain(&error))));
    }

    /// A session's keys and transcripts go with it, also when the daemon died between the record and the files.
    fn sweep(&self, known: &[SessionId]) {
        let names = match self.world.state.sessions() {
            Ok(names) => names,
            Err(error) => {
                return tracing::warn!(error = chain(&error), "old sessions are not looked for");
            }
        };
        for name in names.into_iter().filter(|name| !known.iter().any(|it| it.0 == *name)) {
            match self.world.state.remove_session(&name) {
                Ok(_) => {
                    tracing::info!(session = name, "the rest of a removed session was removed")
                }
                Err(error) => {
                    tracing::warn!(error = chain(&error), "an old session cannot be removed")
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
            remove_scratchpad(held, &mut removed, &mut kept);
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

    fn remove_team_files(&self, team: &Name, removed: &mut Vec<String>, kept: &mut Vec<String>) {
        if let Some(watch) = &self.watch {
            watch.remove(team.as_str());
        }
        match self.files.remove(team.as_str()) {
            Ok(gone) => {
                removed.extend(gone.removed.iter().map(|it| it.display().to_string()));
                kept.extend(
                    gone.kept.iter().map(|it| format!("{}: {}", it.path.display(), it.reason)),
                );
            }
            Err(error) => kept.push(chain(&error)),
        }
    }

    /// T-3: the team's folders, then the scratchpad; a step that fails does not stop the rest.
    fn remove_team(
        &mut self,
        team: &Name,
        session: &SessionId,
        (cwd, tmp): (&str, Option<String>),
        reply: Option<&ReplyTo>,
    ) {
        let (mut removed, mut kept) = (Vec::new(), Vec::new());
        self.remove_team_files(team, &mut removed, &mut kept);
        if let Some(held) = self.scratchpads.remove(session) {
            remove_scratchpad(held, &mut removed, &mut kept);
            // The session goes on, and its agents know the path.
            self.open(session, cwd, tmp, true);
        }
        self.tell(Input::TeamRemoved { team: team.clone(), all: kept.is_empty() });
        if let Some(reply) = reply {
            answer_call(reply, Ok(Response::TeamDeleted { name: team.to_string(), removed, kept }));
        }
    }

    fn write_team(&self, file: &TeamFile, tasks: &[TaskFile]) {
        match self.files.write_team(file) {
            Ok(Replaced::Ours) => {}
            Ok(Replaced::Edited(theirs)) => self.edited(Outside::Edited(theirs)),
            Ok(Replaced::Damaged(aside)) => {
                self.edited(Outside::Damaged { team: file.name.clone(), aside });
            }
            Err(error) => self.warn(&file.lead_session_id, chain(&error)),
        }
        for task in tasks {
            match self.files.write_task(&file.name, task) {
                Ok(replaced) => self.task_replaced(file, task, replaced),
                Err(error) => self.warn(&file.lead_session_id, chain(&error)),
            }
        }
        if let Some(watch) = &self.watch {
            watch.add(&file.name);
        }
    }

    fn task_replaced(&self, file: &TeamFile, task: &TaskFile, replaced: TaskReplaced) {
        let (id, team) = (&task.id, &file.name);
        match replaced {
            TaskReplaced::Ours => {}
            TaskReplaced::Edited(edit) => self.edited(Outside::TaskEdited(edit)),
            TaskReplaced::Behind(found) => self.warn(
                &file.lead_session_id,
                format!(
                    "the file of task {id} of team {team} said `{}` from before coordd started, coordd knows `{}`; the file was written again. \
                     What was changed while coordd was away is to be changed once more",
                    found.status, task.status
                ),
            ),
            TaskReplaced::Another(aside) => self.degraded(format!(
                "others had a task with the number {id} of team {team}, which is another one here; theirs is kept as {}. \
                 `coordctl task add` takes it in under a number of its own",
                aside.display()
            )),
            TaskReplaced::Damaged(aside) => self.degraded(task_damaged(id, team, &aside, true)),
        }
    }

    /// Somebody else changed a team file: what makes sense is merged, what does not is set aside and said (T-2).
    fn edited(&self, outside: Outside) {
        match outside {
            Outside::Edited(file) => {
                let (Ok(team), Ok(text)) = (Name::new(&file.name), serde_json::to_string(&file))
                else {
                    return;
                };
                self.tell(Input::TeamEdited { team, description: file.description, outside: text });
            }
            Outside::Damaged { team, aside } => {
                let aside = aside.display();
                self.degraded(format!("the file of team {team} was no team file; it is kept as {aside}, and the last good state was restored"));
            }
            Outside::Deleted { team } => {
                self.warn("", format!("the file of team {team} was deleted; it was written again. `coordctl team delete` removes a team"));
            }
            Outside::TaskEdited(edit) => {
                let Ok(team) = Name::new(&edit.team) else { return };
                let task = edit.number;
                self.tell(Input::TaskEdited { team, task, edit: Box::new(difference(&edit)) });
            }
            Outside::TaskDamaged { team, number, aside, restored } => {
                self.degraded(task_damaged(&number.to_string(), &team, &aside, restored));
            }
            Outside::TasksDeleted { team, numbers } => {
                let count = numbers.len();
                let numbers: Vec<_> =
                    numbers.iter().take(TASKS_NAMED_MAX).map(ToString::to_string).collect();
                let numbers = numbers.join(", ");
                self.warn("", format!("{count} files of tasks of team {team} were deleted ({numbers}); they were written again. A task that is not wanted is to be completed"));
            }
        }
    }
}

fn task_damaged(id: &str, team: &str, aside: &Path, restored: bool) -> String {
    let aside = aside.display();
    let then = if restored { ", and the last good state was restored" } else { "" };
    format!("the file of task {id} of team {team} was no task file; it is kept as {aside}{then}")
}

/// What others changed in a task, or all of one that they made.
fn difference(edit: &TaskEdit) -> Edit {
    let (before, now) = (edit.before.as_ref(), &edit.now);
    let is_new = |is_same: fn(&TaskFile, &TaskFile) -> bool| {
        before.is_none_or(|before| !is_same(before, now))
    };
    let status = match now.status.as_str() {
        "in_progress" => TaskStatus::InProgress,
        "completed" => TaskStatus::Completed,
        _ => TaskStatus::Pending,
    };
    let blocked_by = || now.blocked_by.iter().filter_map(|it| number_of(it)).collect();
    Edit {
        subject: is_new(|a, b| a.subject == b.subject).then(|| now.subject.clone()),
        description: is_new(|a, b| a.description == b.description).then(|| now.description.clone()),
        status: is_new(|a, b| a.status == b.status).then_some(status),
        owner: is_new(|a, b| a.owner == b.owner).then(|| now.owner.clone().unwrap_or_default()),
        blocked_by: is_new(|a, b| a.blocked_by == b.blocked_by).then(blocked_by),
    }
}

fn listing(held: &Scratchpad) -> Result<Response, ScratchpadError> {
    let listing = held.list()?;
    let files = listing
        .entries
        .into_iter()
        .map(|it| FileRow { path: it.path, bytes: it.bytes, modified_ms: it.modified_ms })
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
