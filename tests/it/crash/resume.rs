//! D-6, E1: a whole session comes back, after a stop of everything and after a reboot.

use std::fs;

use proto::agent::Mode;
use proto::notification::RunStatus;
use proto::request::Request;
use proto::response::Response;
use proto::view::{AgentState, AgentView, SessionState, TaskStatus};
use rustix::process::Signal;
use serde_json::json;
use tests::processes::Process;
use tests::rehearsal::{bash, call, lead, say, script, start, worker_of};
use tests::wait::until;
use tests::{Client, Daemon, Sandbox, story};

/// A session with a lead, a worker that is done, one that waits for the user, and one in the middle
/// of a tool; a team with tasks.
struct Scene {
    daemon: Daemon,
    session: String,
}

fn named<'a>(agents: &'a [AgentView], name: &str) -> &'a AgentView {
    agents.iter().find(|agent| agent.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn agent(client: &mut Client, session: &str, name: &str) -> AgentView {
    named(&client.show(session).1, name).clone()
}

fn questions(client: &mut Client, session: &str) -> Vec<proto::view::PermissionView> {
    match client.ok(Request::PermissionList { session: session.into() }) {
        Response::Permissions { permissions } => permissions,
        other => panic!("{other:?}"),
    }
}

fn tasks(client: &mut Client) -> Vec<(u32, TaskStatus, String)> {
    match client.ok(Request::TaskList { team: "crew".into() }) {
        Response::Tasks { tasks } => tasks
            .into_iter()
            .map(|task| (task.id, task.status, task.owner.unwrap_or_default()))
            .collect(),
        other => panic!("{other:?}"),
    }
}

impl Scene {
    fn set() -> Self {
        let mut sandbox = Sandbox::new();
        sandbox.set("COORDD_BOOT_ID", "11111111-1111-1111-1111-111111111111");
        let daemon = Daemon::start_in(sandbox);
        let mut client = daemon.client();
        let lead_steps = json!([
            call("Three of you.", &json!([start("done", "be done"), start("asks", "ask"), start("busy", "be busy")])),
            { "needs": ["asks"], "text": "It says: {{result:asks}}" }
        ]);
        let busy = bash("touch reached; until test -e enough; do read -rt 0.02 <>wait; done");
        let script = script(&json!([
            lead(&lead_steps),
            worker_of("be done", &json!([say("Done.")])),
            worker_of(
                "ask",
                &json!([
                    call("May I?", &json!([bash("make it >>made 2>&1; echo x >>made")])),
                    say("Made.")
                ])
            ),
            worker_of("be busy", &json!([call("I work.", &json!([busy])), say("Worked.")])),
        ]));
        assert_eq!(daemon.shell("mkfifo wait").code, 0);
        let mut new = daemon.rehearsal("coordinator", &script);
        new.permissions.allow = vec!["Bash(touch:*)".into()];
        new.permissions.ask = vec!["Bash(make:*)".into()];
        new.permissions.mode = "bypassPermissions".into();
        new.prompt = "go".into();
        let session = client.new_session(new).id;
        let request = Request::TeamCreate {
            session: session.clone(),
            name: "crew".into(),
            description: "mends".into(),
            agent_type: String::new(),
        };
        client.ok(request);
        for subject in ["one", "two"] {
            client.ok(Request::TaskCreate {
                team: "crew".into(),
                subject: subject.into(),
                description: String::new(),
                blocked_by: vec![],
            });
        }
        client.ok(Request::TaskUpdate {
            team: "crew".into(),
            task: 2,
            status: Some(TaskStatus::Completed),
            owner: Some("lead".into()),
            blocked_by: None,
        });
        until("one is done, one asks, one works, the lead waits", || {
            let agents = client.show(&session).1;
            let state = |name: &str| {
                agents.iter().find(|agent| agent.name == name).map(|agent| agent.state)
            };
            let set = state("done") == Some(AgentState::Stopped)
                && state("asks") == Some(AgentState::NeedsInput)
                && state("busy") == Some(AgentState::Running)
                && state("lead") == Some(AgentState::Idle)
                && named(&agents, "lead").mail == 0
                && daemon.at("w/reached").exists();
            set.then_some(())
        });
        Self { daemon, session }
    }

    /// The machine is started anew: no process is left, `/tmp` and the runtime folder are empty.
    fn reboot(&mut self) {
        for process in self.daemon.processes() {
            process.kill9();
        }
        self.daemon.assert_nothing_runs();
        for folder in ["r", "t"] {
            let folder = self.daemon.at(folder);
            let mode = fs::metadata(&folder).unwrap().permissions();
            fs::remove_dir_all(&folder).unwrap();
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, mode).unwrap();
        }
        self.daemon.set("COORDD_BOOT_ID", "22222222-2222-2222-2222-222222222222");
        self.daemon.restart();
    }
}

/// The question is the same one; answered, the tool runs once, and its worker and the lead come to
/// their end.
fn answer_and_end(daemon: &Daemon, session: &str, question: &str) {
    let mut client = daemon.client();
    until("it asks again, or still", || {
        (agent(&mut client, session, "asks").state == AgentState::NeedsInput).then_some(())
    });
    let open = questions(&mut client, session);
    assert_eq!(open.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), [question]);
    client.ok(Request::PermissionAnswer {
        id: question.into(),
        allow: true,
        always: false,
        reason: String::new(),
    });
    until("the lead has read of it and rests", || {
        let lead = agent(&mut client, session, "lead");
        let entries = client.transcript(&lead.id);
        let said = story::texts(&entries).contains(&"It says: Made.");
        (said && lead.state == AgentState::Idle && lead.mail == 0).then_some(())
    });
    let asks = agent(&mut client, session, "asks");
    assert_eq!((asks.runs, asks.last.map(|it| it.status)), (1, Some(RunStatus::Completed)));
    let made = fs::read_to_string(daemon.at("w/made")).unwrap();
    assert_eq!(made.lines().filter(|line| *line == "x").count(), 1, "the tool ran once: {made}");
    let said = client.transcript(&asks.id);
    assert_eq!(story::texts(&said), ["May I?", "Made."]);
    // Nothing was told twice on the way.
    let lead = agent(&mut client, session, "lead");
    let entries = client.transcript(&lead.id);
    let told = story::notifications(&entries);
    let of = |id: &str| told.iter().filter(|it| it.0 == id).count();
    for name in ["done", "asks"] {
        assert_eq!(of(&agent(&mut client, session, name).id), 1, "{name}: {told:?}");
    }
    assert!(of(&agent(&mut client, session, "busy").id) <= 1, "{told:?}");
    assert_eq!(story::count_inputs(&entries, "go"), 1);
    assert_eq!(
        tasks(&mut client),
        [(1, TaskStatus::Pending, String::new()), (2, TaskStatus::Completed, "lead".into())]
    );
}

/// E1, E2, E3, rel-66: everything is stopped, the machine starts anew, and `coordctl resume` brings
/// it back and says what.
#[test]
fn d6_e1_rel66_resumed_after_a_stop_and_a_reboot() {
    let mut scene = Scene::set();
    let session = scene.session.clone();
    let mut client = scene.daemon.client();
    let question = questions(&mut client, &session).remove(0).id;
    let before = client.show(&session).1;
    // The lead has got a message and not read it when everything is stopped.
    Process::open(named(&before, "lead").pid.unwrap()).unwrap().signal(Signal::STOP);
    client.prompt(&session, "and remember this");
    drop(client);
    assert_eq!(scene.daemon.coordctl(&["stop", &session]).code, 0);
    let mut client = scene.daemon.client();
    let stopped = client.show(&session).1;
    assert!(stopped.iter().all(|it| it.state == AgentState::Stopped), "{stopped:#?}");
    assert_eq!(named(&stopped, "busy").last.as_ref().map(|it| it.status), Some(RunStatus::Killed));
    drop(client);
    assert!(scene.daemon.stop().success());
    scene.reboot();
    let mut client = scene.daemon.client();
    let (view, agents) = client.show(&session);
    assert_eq!((view.state, view.mode), (SessionState::Stopped, Mode::Coordinator));
    assert_eq!((view.team.as_deref(), view.questions), (Some("crew"), 1));
    assert_eq!(agents.len(), before.len());
    assert!(
        agents.iter().all(|agent| agent.pid.is_none()),
        "nothing starts by itself: {agents:#?}"
    );
    let said = scene.daemon.coordctl(&["resume", &session, "--keep-env"]);
    assert_eq!(said.code, 0, "{said:?}");
    let said = said.said();
    for part in [
        "waiting message",
        "restored: lead, ",
        "asks",
        "1 open question",
        "busy; a message",
        "lost: what was in the scratchpad",
    ] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    answer_and_end(&scene.daemon, &session, &question);
    let lead = agent(&mut client, &session, "lead");
    let entries = client.transcript(&lead.id);
    assert_eq!(story::count_in_inputs(&entries, "and remember this"), 1);
    // E3: what has ended stays ended, as it ended.
    let agents = client.show(&session).1;
    for (name, status) in [("done", RunStatus::Completed), ("busy", RunStatus::Killed)] {
        let it = named(&agents, name);
        assert_eq!((it.runs, it.last.as_ref().map(|it| it.status)), (1, Some(status)), "{name}");
        assert_eq!(it.incarnation, named(&before, name).incarnation, "{name} is not started");
    }
    // Restartable means that a message makes it go on.
    scene.daemon.write("w/enough", "");
    let request = Request::Prompt {
        session: session.clone(),
        agent: Some("busy".into()),
        text: "go on".into(),
    };
    client.ok(request);
    until("it has gone on", || (agent(&mut client, &session, "busy").runs == 2).then_some(()));
}

/// rel-66, E10: the power fails. Nobody has to resume anything: what was in the middle goes on.
#[test]
fn d6_rel66_e10_a_reboot_without_a_stop() {
    let mut scene = Scene::set();
    let session = scene.session.clone();
    let mut client = scene.daemon.client();
    let question = questions(&mut client, &session).remove(0).id;
    drop(client);
    scene.daemon.kill9();
    scene.reboot();
    let mut client = scene.daemon.client();
    until("the busy one has come to its end", || {
        (agent(&mut client, &session, "busy").runs == 1).then_some(())
    });
    let busy = agent(&mut client, &session, "busy");
    assert_eq!((busy.incarnation, busy.last.map(|it| it.status)), (2, Some(RunStatus::Completed)));
    answer_and_end(&scene.daemon, &session, &question);
}

/// W-3: the process that asked dies, and the answer comes while there is none. The tool runs once,
/// and in truth.
#[test]
fn w3_e1_an_answer_that_no_process_heard_counts() {
    let mut scene = Scene::set();
    let session = scene.session.clone();
    let mut client = scene.daemon.client();
    let question = questions(&mut client, &session).remove(0).id;
    client.ok(Request::SessionStop { session: session.clone() });
    let asks = agent(&mut client, &session, "asks");
    assert_eq!((asks.state, asks.runs), (AgentState::Stopped, 0), "its run is open: {asks:?}");
    client.ok(Request::PermissionAnswer {
        id: question,
        allow: true,
        always: false,
        reason: String::new(),
    });
    drop(client);
    scene.daemon.kill9();
    scene.daemon.restart();
    assert_eq!(scene.daemon.coordctl(&["resume", &session, "--keep-env"]).code, 0);
    let mut client = scene.daemon.client();
    until("it is done", || (agent(&mut client, &session, "asks").runs == 1).then_some(()));
    let asks = agent(&mut client, &session, "asks");
    assert_eq!(story::texts(&client.transcript(&asks.id)), ["May I?", "Made."]);
    let made = fs::read_to_string(scene.daemon.at("w/made")).unwrap();
    assert_eq!(made.lines().filter(|line| *line == "x").count(), 1, "{made}");
}

/// W-3: the answer comes while the process that asked lives and is not connected. It hears it when
/// it is back, begins, and dies in the middle: nobody begins the same call again.
#[test]
fn w3_e10_an_answer_that_was_heard_late_begins_one_call() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([
        call(
            "May I?",
            &json!([bash("echo x >>made; until test -e enough; do read -rt 0.02 <>wait; done")])
        ),
        say("Made.")
    ]);
    assert_eq!(daemon.shell("mkfifo wait").code, 0);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.permissions.ask = vec!["Bash".into()];
    new.prompt = "go".into();
    let session = client.new_session(new).id;
    until("it asks", || {
        (agent(&mut client, &session, "lead").state == AgentState::NeedsInput).then_some(())
    });
    let question = questions(&mut client, &session).remove(0).id;
    let asker = Process::open(agent(&mut client, &session, "lead").pid.unwrap()).unwrap();
    asker.signal(Signal::STOP);
    drop(client);
    daemon.kill9();
    daemon.restart();
    let mut client = daemon.client();
    client.ok(Request::PermissionAnswer {
        id: question,
        allow: true,
        always: false,
        reason: String::new(),
    });
    asker.signal(Signal::CONT);
    until("the tool runs", || daemon.at("w/made").exists().then_some(()));
    assert_eq!(agent(&mut client, &session, "lead").incarnation, 1);
    asker.kill9();
    until("the run has ended", || (agent(&mut client, &session, "lead").runs == 1).then_some(()));
    assert_eq!(fs::read_to_string(daemon.at("w/made")).unwrap(), "x\n", "begun once");
    let lead = agent(&mut client, &session, "lead");
    let entries = client.transcript(&lead.id);
    assert!(story::results(&entries)[0].0.contains("effects are unknown"), "and it is said");
}
