//! What the reactor wants done in the world: processes started, watched and ended; folders made,
//! read and removed.
//!
//! Jobs about processes run side by side, starts at most a few at once. Jobs about the files of
//! sessions and teams run one after the other, so that a write never overtakes a removal. Each
//! reports its result as an input.

mod files;
mod inboxes;
mod joined;
mod processes;

use std::path::PathBuf;
use std::sync::Arc;

use coordd_core::agent::{Process, Runtime};
use coordd_core::id::{AgentId, MessageId, SessionId};
use coordd_core::name::Name;
use coordd_core::{Core, Input};
use proto::Outcome;
use proto::agent::Bootstrap;
use proto::error::ErrorBody;
use proto::response::Response;
use proto::team::{MemberFile, TaskFile, TeamFile};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::ground::Watch;
use crate::limits;
use crate::paths::{Paths, StateDir};
use crate::peer::Handle;
use crate::reactor::Arrival;
use crate::team_files::TeamFiles;
use crate::team_files::inbox::Letter;
use crate::translate;

/// Where the answer to a call goes.
pub(crate) type ReplyTo = (Handle, u64);

/// Something to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Starts a process, after its session's scratchpad was looked at.
    Spawn {
        bootstrap: Box<Bootstrap>,
        open: Option<SessionJob>,
    },
    Watch {
        agent: AgentId,
        incarnation: u32,
        process: Option<Process>,
        tree: bool,
        dir: Option<PathBuf>,
    },
    Kill {
        agent: AgentId,
        incarnation: u32,
        process: Option<Process>,
        tree: bool,
        dir: Option<PathBuf>,
    },
    ReadTranscript {
        path: PathBuf,
        from: u64,
        limit: u32,
        reply: ReplyTo,
    },
    Session(SessionJob),
    Team(TeamJob),
    Inbox(InboxJob),
}

/// Something to do with a session's files.
#[derive(Debug)]
pub(crate) enum SessionJob {
    /// Removes the folders of sessions that no longer exist: their removal was cut off.
    Sweep {
        unknown: Vec<String>,
    },
    Open {
        session: SessionId,
        cwd: String,
        tmp: Option<String>,
        create: bool,
    },
    /// Looks whether each scratchpad that is held is still there.
    Look,
    Read {
        session: SessionId,
        path: Option<String>,
        reply: ReplyTo,
    },
    Remove {
        session: SessionId,
        team: Option<Name>,
        reply: Option<ReplyTo>,
    },
}

/// Something to do with a team's files.
#[derive(Debug)]
pub(crate) enum TeamJob {
    Write(Box<TeamWrite>),
    Remove {
        team: Name,
        session: SessionId,
        cwd: String,
        tmp: Option<String>,
        reply: Option<ReplyTo>,
    },
}

/// A team's files, as they are to be.
#[derive(Debug)]
pub(crate) struct TeamWrite {
    pub(crate) team: Name,
    pub(crate) file: TeamFile,
    /// The last outside edit of the file.
    pub(crate) merged: String,
    pub(crate) tasks: Vec<TaskFile>,
}

/// Something to do with the inboxes of members in terminals.
#[derive(Debug)]
pub(crate) enum InboxJob {
    /// The inboxes are to be like this. Answered by [`Arrival::InboxesServed`].
    Serve(Box<TeamInboxes>),
    /// This entry was taken over from an inbox, and must be removed from it.
    Taken { team: Name, inbox: String, key: String },
}

/// The wanted content of a team's inboxes.
#[derive(Clone, Debug)]
pub(crate) struct TeamInboxes {
    pub(crate) team: Name,
    /// What is for members in terminals.
    pub(crate) terminals: Vec<Terminal>,
    /// The other members, by the names of their inbox files: what is left for them there is read
    /// here.
    pub(crate) ours: Vec<(String, AgentId)>,
}

/// A member in a terminal.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    pub(crate) agent: AgentId,
    pub(crate) name: String,
    /// Its process, as far as the core knows.
    pub(crate) process: Option<Process>,
    /// The beginning of its mailbox.
    pub(crate) letters: Vec<(MessageId, Letter)>,
    /// The prefix of the ids of our own entries for its session, so that undelivered ones can be
    /// removed again.
    pub(crate) ours: Option<String>,
}

/// The way to the jobs. It never blocks.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    queue: mpsc::Sender<Job>,
}

impl Jobs {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Job>) {
        let (queue, jobs) = mpsc::channel(limits::JOBS_WAITING_MAX);
        (Self { queue }, jobs)
    }

    pub(crate) fn push(&self, job: Job) {
        if let Err(error) = self.queue.try_send(job) {
            // The queue is full only if thousands of starts or writes are stuck. The next start of
            // the daemon picks them up.
            tracing::error!(%error, "a job was not taken; restart coordd");
        }
    }
}

/// What jobs need.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) paths: Arc<Paths>,
    pub(crate) state: Arc<StateDir>,
    pub(crate) reactor: mpsc::Sender<Arrival>,
    pub(crate) hub: crate::hub::Hub,
    /// Places for reading transcripts, here and in the hub.
    pub(crate) reads: Arc<Semaphore>,
    pub(crate) watch: Arc<Watch>,
}

impl World {
    async fn tell(&self, input: Input) {
        // Fails only when the reactor has ended, and then nobody needs to know.
        let _told = self.reactor.send(Arrival::Input(input)).await;
    }

    async fn degraded(&self, text: String) {
        // The same.
        let _told = self.reactor.send(Arrival::Degraded(text)).await;
    }
}

/// Does jobs until the reactor is gone.
pub(crate) async fn run(world: World, mut jobs: mpsc::Receiver<Job>) {
    let mut running = JoinSet::new();
    let starts = Arc::new(Semaphore::new(limits::SPAWNS_AT_ONCE_MAX));
    let team_files = Arc::new(TeamFiles::new(&world.paths.home));
    let files = files::Files::start(world.clone(), Arc::clone(&team_files));
    let inboxes = inboxes::Inboxes::start(world.clone(), team_files);
    let starting = processes::Starting::default();
    while let Some(job) = jobs.recv().await {
        while running.try_join_next().is_some() {}
        match job {
            Job::Spawn { bootstrap, open } => {
                let (world, starts, files) = (world.clone(), Arc::clone(&starts), files.clone());
                let starting = starting.clone();
                starting.begin(&bootstrap);
                running.spawn(async move {
                    if let Some(open) = open {
                        files.done(files::FileJob::Session(open)).await;
                    }
                    processes::spawn(world, *bootstrap, &starts, &starting).await;
                });
            }
            Job::Watch { agent, incarnation, process: Some(process), tree: false, .. } => {
                running.spawn(joined::watch(world.clone(), agent, incarnation, process));
            }
            Job::Kill { agent, incarnation, process: Some(process), tree: false, .. } => {
                running.spawn(joined::kill(world.clone(), agent, incarnation, process));
            }
            Job::Watch { agent, incarnation, process, dir, .. } => {
                running.spawn(processes::watch(world.clone(), agent, incarnation, process, dir));
            }
            // The process is not there yet: the thread that starts it ends it, and reports that.
            Job::Kill { agent, incarnation, process: None, .. }
                if starting.end(&agent, incarnation) => {}
            Job::Kill { agent, incarnation, process, dir, .. } => {
                let process = process.or_else(|| starting.made(&agent, incarnation));
                running.spawn(processes::kill(world.clone(), agent, incarnation, process, dir));
            }
            Job::ReadTranscript { path, from, limit, reply } => {
                running.spawn(read_transcript(Arc::clone(&world.reads), path, from, limit, reply));
            }
            // Never waited for here: a slow disk must not hold up a kill.
            Job::Session(job) => files.push(files::FileJob::Session(job)),
            Job::Team(job) => files.push(files::FileJob::Team(job)),
            Job::Inbox(job) => inboxes.push(job),
        }
    }
}

async fn read_transcript(
    reads: Arc<Semaphore>,
    path: PathBuf,
    from: u64,
    limit: u32,
    reply: ReplyTo,
) {
    let _place = reads.acquire().await;
    let read =
        tokio::task::spawn_blocking(move || crate::transcript::page(&path, from, limit)).await;
    let answer = match read {
        Ok(Ok(page)) => Ok(Response::Transcript { entries: page.entries, last: page.last }),
        Ok(Err(error)) => Err(failed(&format!("the transcript cannot be read: {error}"))),
        Err(_) => Err(failed("reading the transcript was cut off; try again")),
    };
    answer_call(&reply, answer);
}

fn failed(why: &str) -> ErrorBody {
    translate::error_body(&coordd_core::denial::Denial::Failed { why: why.to_owned() })
}

fn answer_call((handle, call): &ReplyTo, answer: Result<Response, ErrorBody>) {
    let outcome = match answer {
        Ok(response) => Outcome::Ok(Box::new(response)),
        Err(error) => Outcome::Error(error),
    };
    handle.reply(*call, outcome);
}

/// The wanted content of a team's files, or none when the team is deleted.
pub(crate) fn team_files(core: &Core, name: &Name) -> Option<TeamWrite> {
    let team = core.durable.teams.get(name).filter(|team| !team.deleting)?;
    let session = core.durable.sessions.get(&team.session)?;
    let mut file: TeamFile = serde_json::from_str(&team.outside).unwrap_or_else(|_| TeamFile {
        name: name.to_string(),
        description: String::new(),
        created_at: 0,
        lead_agent_id: String::new(),
        lead_session_id: String::new(),
        members: Vec::new(),
        unknown: serde_json::Map::new(),
    });
    let before = std::mem::take(&mut file.members);
    for agent in core.durable.agents_of(&team.session) {
        // Other programs know the lead by this name; ours does by both.
        let own = if agent.id == session.lead { "team-lead" } else { agent.name.as_str() };
        let id = format!("{own}@{name}");
        let known = before.iter().find(|it| it.agent_id == id);
        file.members.push(MemberFile {
            agent_id: id,
            name: own.to_owned(),
            agent_type: if agent.id == session.lead {
                team.agent_type.clone()
            } else {
                agent.agent_type.clone()
            },
            model: match agent.runtime {
                Runtime::Native => translate::view::model(session).map(|model| model.name),
                Runtime::Claude | Runtime::External | Runtime::Bridged => None,
                Runtime::Terminal => known.map(|it| it.model.clone()),
            }
            .unwrap_or_default(),
            joined_at: agent.created_ms.max(team.created_ms),
            tmux_pane_id: known.map(|it| it.tmux_pane_id.clone()).unwrap_or_default(),
            cwd: session.cwd.clone(),
            // A terminal says it itself.
            is_active: if agent.runtime == Runtime::Terminal {
                known.is_some_and(|it| it.is_active)
            } else {
                agent.is_active()
            },
            unknown: known.map(|it| it.unknown.clone()).unwrap_or_default(),
        });
    }
    // Members that joined from outside stay.
    let own: Vec<_> = file.members.iter().map(|member| member.agent_id.clone()).collect();
    file.members.extend(before.into_iter().filter(|it| !own.contains(&it.agent_id)));
    file.name = name.to_string();
    file.description.clone_from(&team.description);
    file.created_at = team.created_ms;
    file.lead_agent_id = format!("team-lead@{name}");
    file.lead_session_id = team.session.to_string();
    let tasks = team.tasks.values().map(|task| task_file(team, task)).collect();
    Some(TeamWrite { team: name.clone(), file, merged: team.outside.clone(), tasks })
}

fn task_file(team: &coordd_core::team::Team, task: &coordd_core::task::Task) -> TaskFile {
    let blocks = team
        .tasks
        .values()
        .filter(|it| it.blocked_by.contains(&task.id))
        .map(|task| task.id.to_string());
    TaskFile {
        id: task.id.to_string(),
        subject: task.subject.clone(),
        description: task.description.clone(),
        status: match task.status {
            coordd_core::task::TaskStatus::Pending => "pending",
            coordd_core::task::TaskStatus::InProgress => "in_progress",
            coordd_core::task::TaskStatus::Completed => "completed",
        }
        .to_owned(),
        blocks: blocks.collect(),
        blocked_by: task.blocked_by.iter().map(ToString::to_string).collect(),
        owner: task.owner.clone(),
        unknown: serde_json::Map::new(),
    }
}
