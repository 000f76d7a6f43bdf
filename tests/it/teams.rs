//! T-1 to T-4: teams and their tasks, with files in the layout that Claude Code uses.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use proto::Outcome;
use proto::error::ErrorCode;
use proto::event::Event;
use proto::request::Request;
use proto::response::Response;
use proto::view::{TaskStatus, TaskView, TeamView};
use serde_json::{Value, json};
use tests::agents::{Agents, FakeAgent, outcome};
use tests::rehearsal::{lead, script};
use tests::wait::until;
use tests::{Client, Daemon, Sandbox};

fn create(client: &mut Client, session: &str, name: &str) -> TeamView {
    let request = Request::TeamCreate {
        session: session.into(),
        name: name.into(),
        description: "mends dates".into(),
        agent_type: String::new(),
    };
    match client.ok(request) {
        Response::Team { team } => team,
        other => panic!("{other:?}"),
    }
}

fn session(daemon: &Daemon, client: &mut Client) -> String {
    client.new_session(daemon.rehearsal("coordinator", &script(&json!([lead(&json!([]))])))).id
}

fn config(sandbox: &Sandbox, team: &str) -> PathBuf {
    sandbox.at(&format!("h/.claude/teams/{team}/config.json"))
}

fn json_at(path: &std::path::Path) -> Value {
    until(&format!("{} holds JSON", path.display()), || {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    })
}

fn task(response: Response) -> TaskView {
    match response {
        Response::Task { task } => task,
        other => panic!("{other:?}"),
    }
}

fn add(client: &mut Client, team: &str, subject: &str, blocked_by: &[u32]) -> u32 {
    let request = Request::TaskCreate {
        team: team.into(),
        subject: subject.into(),
        description: "in full".into(),
        blocked_by: blocked_by.to_vec(),
    };
    task(client.ok(request)).id
}

fn update(team: &str, task: u32, status: Option<TaskStatus>, owner: Option<&str>) -> Request {
    Request::TaskUpdate {
        team: team.into(),
        task,
        status,
        owner: owner.map(str::to_owned),
        blocked_by: None,
    }
}

fn get(client: &mut Client, team: &str, id: u32) -> TaskView {
    task(client.ok(Request::TaskGet { team: team.into(), task: id }))
}

#[test]
fn t1_t2_a_team_is_a_file_as_claude_code_has_it() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let team = create(&mut lead.client, "", "alpha");
    let named = daemon.client().show(&lead.boot.session).0.name;
    assert_eq!((team.name.as_str(), team.session.as_str()), ("alpha", named.as_str()));
    let path = config(&daemon, "alpha");
    assert_eq!(team.file, path.to_str().unwrap());
    let file = json_at(&path);
    assert_eq!(file["name"], "alpha");
    assert_eq!(file["description"], "mends dates");
    assert!(file["createdAt"].as_u64().unwrap() > 1_700_000_000_000, "{file}");
    assert_eq!(file["leadSessionId"], lead.boot.session.as_str());
    let first = &file["members"][0];
    assert_eq!(first["agentId"], file["leadAgentId"], "{file}");
    assert_eq!(first["agentType"], "coordinator");
    assert_eq!(first["cwd"], daemon.work().to_str().unwrap());
    assert!(first["joinedAt"].as_u64().is_some() && first["tmuxPaneId"] == "", "{first}");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert!(fs::read_to_string(&path).unwrap().starts_with("{\n  \"name\""), "indented by two");
    // Workers are members.
    let worker = agents.worker(&daemon, &mut lead, "m1");
    let member = until("m1 is in the file", || {
        let file = json_at(&path);
        let members = file["members"].as_array()?.clone();
        members.into_iter().find(|member| member["agentId"] == "m1@alpha")
    });
    assert_eq!((&member["name"], &member["agentType"]), (&json!("m1"), &json!("worker")));
    let listed = the_one_team(&mut daemon.client());
    assert_eq!(listed.members.len(), 2);
    drop(worker);
}

fn the_one_team(client: &mut Client) -> TeamView {
    match client.ok(Request::TeamList {}) {
        Response::Teams { mut teams } if teams.len() == 1 => teams.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn t1_a_second_team_is_refused_and_a_taken_name_gets_a_fresh_one() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let [one, two, three] = [(); 3].map(|()| session(&daemon, &mut client));
    assert_eq!(create(&mut client, &one, "alpha").name, "alpha");
    let again = Request::TeamCreate {
        session: one.clone(),
        name: "beta".into(),
        description: String::new(),
        agent_type: String::new(),
    };
    let error = client.denied(again);
    assert_eq!(error.code, ErrorCode::Exists);
    assert!(error.message.contains("alpha"), "{error:?}");
    let fresh = create(&mut client, &two, "alpha").name;
    assert!(fresh.starts_with("alpha-"), "{fresh}");
    let made_up = create(&mut client, &three, "").name;
    assert!(made_up.starts_with("team-"), "{made_up}");
}

/// The folder's name is Claude Code's.
#[test]
fn t1_names_become_folder_names() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let one = session(&daemon, &mut client);
    assert_eq!(create(&mut client, &one, "My Team_1.x").name, "my-team-1-x");
    assert_eq!(json_at(&config(&daemon, "my-team-1-x"))["name"], "my-team-1-x");
}

#[test]
fn t2_teams_survive_kill_9_and_lost_files_are_written_again() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let one = session(&daemon, &mut client);
    let before = create(&mut client, &one, "alpha");
    add(&mut client, "alpha", "first", &[]);
    json_at(&daemon.at("h/.claude/tasks/alpha/1.json"));
    daemon.kill9();
    fs::remove_dir_all(daemon.at("h/.claude")).unwrap();
    daemon.restart();
    let mut client = daemon.client();
    assert_eq!(the_one_team(&mut client), before);
    assert_eq!(json_at(&config(&daemon, "alpha"))["name"], "alpha");
    assert_eq!(json_at(&daemon.at("h/.claude/tasks/alpha/1.json"))["subject"], "first");
}

/// An edit that makes sense is taken in, with what this build does not know.
#[test]
fn t2_a_valid_edit_from_outside_is_merged() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let one = session(&daemon, &mut client);
    create(&mut client, &one, "alpha");
    client.subscribe("");
    let path = config(&daemon, "alpha");
    let mut file = json_at(&path);
    file["description"] = json!("mends times");
    file["leadProcess"] = json!({ "pid": 7 });
    file["members"][0]["color"] = json!("blue");
    let theirs = json!({ "agentId": "ada@alpha", "name": "ada", "joinedAt": 5, "tmuxPaneId": "%3", "cwd": "/x", "subscriptions": [] });
    file["members"].as_array_mut().unwrap().push(theirs.clone());
    fs::write(&path, serde_json::to_vec_pretty(&file).unwrap()).unwrap();
    let team = client.event("team_changed", |event| match event {
        Event::TeamChanged { team } if team.description == "mends times" => Some(team.clone()),
        _ => None,
    });
    assert_eq!(team.name, "alpha");
    // Something of ours changes, and the file is written again.
    add(&mut client, "alpha", "first", &[]);
    let again = until("the file is ours again and has what they wrote", || {
        let file = json_at(&path);
        (file["leadProcess"]["pid"] == 7 && file["description"] == "mends times").then_some(file)
    });
    assert_eq!(again["members"][0]["color"], "blue");
    let member = again["members"].as_array().unwrap().iter().find(|it| it["name"] == "ada");
    assert_eq!(member.unwrap()["tmuxPaneId"], "%3");
    assert_eq!(member.unwrap()["subscriptions"], json!([]));
}

/// One that does not is set aside and said, and the last good state is restored.
#[test]
fn t2_an_invalid_edit_is_set_aside_and_the_file_restored() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let one = session(&daemon, &mut client);
    create(&mut client, &one, "alpha");
    client.subscribe("");
    let path = config(&daemon, "alpha");
    let good = json_at(&path);
    fs::write(&path, "{\"name\": \"alpha\", \"members\": 7").unwrap();
    let warning = client.event("a warning", |event| match event {
        Event::Warning { text } => Some(text.clone()),
        _ => None,
    });
    assert!(warning.contains("alpha") && warning.contains(".corrupt-"), "{warning}");
    until("the last good state is back", || (json_at(&path) == good).then_some(()));
    let mut aside = path.parent().unwrap().read_dir().unwrap().flatten();
    let kept = aside.find(|it| it.file_name().to_string_lossy().contains(".corrupt-")).unwrap();
    assert_eq!(fs::read_to_string(kept.path()).unwrap(), "{\"name\": \"alpha\", \"members\": 7");
}

#[test]
fn t3_a_team_is_deleted_when_nobody_is_active() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    create(&mut lead.client, "", "alpha");
    let mut worker = agents.worker(&daemon, &mut lead, "m1");
    let delete = || Request::TeamDelete { session: String::new() };
    let error = lead.client.denied(delete());
    assert_eq!(error.code, ErrorCode::State);
    assert!(error.message.contains("m1"), "it names who is active: {error:?}");
    assert!(config(&daemon, "alpha").exists());
    worker.complete(1, "done");
    worker.exit();
    daemon.client().agent_until(&worker.boot.agent, "is down", |agent| agent.pid.is_none());
    let response = lead.client.ok(delete());
    let Response::TeamDeleted { name, removed, kept } = response else { panic!("{response:?}") };
    assert_eq!((name.as_str(), kept.len()), ("alpha", 0));
    assert!(removed.iter().any(|it| it.contains("teams/alpha")), "{removed:?}");
    assert!(!config(&daemon, "alpha").parent().unwrap().exists());
    assert!(!daemon.at("h/.claude/tasks/alpha").exists());
    assert_eq!(lead.client.denied(delete()).code, ErrorCode::NotFound);
    create(&mut lead.client, "", "alpha");
}

#[test]
fn t4_tasks_and_their_files() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let one = session(&daemon, &mut client);
    create(&mut client, &one, "alpha");
    let first = add(&mut client, "alpha", "first", &[]);
    let second = add(&mut client, "alpha", "second", &[first]);
    assert_eq!((first, second), (1, 2));
    assert_eq!(get(&mut client, "alpha", second).blocked_by, [first]);
    let file = until("both tasks are files", || {
        let file = json_at(&daemon.at("h/.claude/tasks/alpha/1.json"));
        (file["blocks"] == json!(["2"])).then_some(file)
    });
    assert_eq!((&file["id"], &file["status"]), (&json!("1"), &json!("pending")));
    assert_eq!(json_at(&daemon.at("h/.claude/tasks/alpha/2.json"))["blockedBy"], json!(["1"]));

    let begin = Some(TaskStatus::InProgress);
    let error = client.denied(update("alpha", second, begin, Some("lead")));
    assert!(error.message.contains("waits for 1"), "{error:?}");
    assert_eq!(client.denied(update("alpha", first, begin, None)).code, ErrorCode::Invalid);
    client.ok(update("alpha", first, begin, Some("lead")));
    assert_eq!(get(&mut client, "alpha", first).owner.as_deref(), Some("lead"));
    client.ok(update("alpha", first, Some(TaskStatus::Completed), None));
    assert_eq!(get(&mut client, "alpha", second).blocked_by, [0_u32; 0], "it is unblocked");
    client.ok(update("alpha", second, begin, Some("lead")));
    let error = client.denied(Request::TaskCreate {
        team: "alpha".into(),
        subject: "third".into(),
        description: String::new(),
        blocked_by: vec![99],
    });
    assert_eq!(error.code, ErrorCode::NotFound);
}

/// T-2, T-4: what others write into the files of tasks counts where the rules allow it, and is said
/// and undone where not.
#[test]
fn t2_t4_tasks_edited_from_outside_are_merged_or_refused() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let one = session(&daemon, &mut client);
    create(&mut client, &one, "alpha");
    let first = add(&mut client, "alpha", "first", &[]);
    add(&mut client, "alpha", "second", &[first]);
    let at = |number: u32| daemon.at(&format!("h/.claude/tasks/alpha/{number}.json"));
    until("both tasks are files", || at(2).exists().then_some(()));
    client.subscribe("");
    let edit = |number: u32, changes: &[(&str, Value)]| {
        let mut file = json_at(&at(number));
        for (field, value) in changes {
            file[*field] = value.clone();
        }
        fs::write(at(number), serde_json::to_vec_pretty(&file).unwrap()).unwrap();
    };
    let warning = |client: &mut Client, wanted: &str| {
        client.event("a warning", |event| match event {
            Event::Warning { text } if text.contains(wanted) => Some(text.clone()),
            _ => None,
        })
    };

    // Against the rules: the second waits for the first.
    edit(2, &[("status", json!("completed")), ("metadata", json!({ "k": 1 }))]);
    warning(&mut client, "task 2 waits for 1");
    let restored = until("the last good state is back", || {
        let file = json_at(&at(2));
        (file["status"] == "pending").then_some(file)
    });
    assert_eq!(restored["metadata"], json!({ "k": 1 }), "what coordd does not know is kept");

    // Within them, by somebody who is no agent of ours.
    edit(1, &[("status", json!("completed")), ("owner", json!("ada")), ("activeForm", json!("x"))]);
    let changed = client.event("task_changed", |event| match event {
        Event::TaskChanged { task } if task.status == TaskStatus::Completed => Some(task.clone()),
        _ => None,
    });
    assert_eq!((changed.id, changed.owner.as_deref()), (1, Some("ada")));
    client.ok(update("alpha", 2, Some(TaskStatus::InProgress), Some("lead")));
    until("ours is written", || (json_at(&at(2))["owner"] == "lead").then_some(()));
    let file = json_at(&at(1));
    assert_eq!((&file["status"], &file["activeForm"]), (&json!("completed"), &json!("x")));

    // One that others made.
    let made = json!({ "id": "3", "subject": "theirs", "status": "pending", "blockedBy": ["1"] });
    fs::write(at(3), made.to_string()).unwrap();
    client.event("task_changed", |event| match event {
        Event::TaskChanged { task } if task.id == 3 => Some(()),
        _ => None,
    });
    assert_eq!(get(&mut client, "alpha", 3).subject, "theirs");
    assert_eq!(add(&mut client, "alpha", "fourth", &[]), 4);
    // Both are written as ours before the next edit: what is written into a file while it is being
    // replaced is lost.
    until("3 is ours and 4 is there", || {
        (json_at(&at(3))["blocks"] == json!([]) && at(4).exists()).then_some(())
    });

    // No task, and gone.
    fs::write(at(3), "{").unwrap();
    let text = warning(&mut client, "task 3");
    assert!(text.contains(".corrupt-"), "{text}");
    assert_eq!(json_at(&at(3))["subject"], "theirs");
    fs::remove_file(at(1)).unwrap();
    warning(&mut client, "deleted");
    assert_eq!(json_at(&at(1))["activeForm"], "x");
}

/// rel-47: many claim at once, each on a connection of its own; one gets it.
#[test]
fn t4_rel47_claiming_is_atomic() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    create(&mut lead.client, "", "alpha");
    let names = ["a", "b", "c", "d"];
    let _crew: Vec<FakeAgent> =
        names.iter().map(|name| agents.worker(&daemon, &mut lead, name)).collect();
    let mut client = daemon.client();
    for round in 0..5 {
        let id = add(&mut client, "alpha", &format!("task {round}"), &[]);
        let claims: Vec<_> = names
            .map(|name| {
                let mut own = daemon.client();
                std::thread::spawn(move || {
                    own.call(update("alpha", id, Some(TaskStatus::InProgress), Some(name)))
                })
            })
            .into_iter()
            .map(|it| it.join().unwrap())
            .collect();
        let won: Vec<_> = claims
            .iter()
            .filter_map(|claim| match claim {
                Outcome::Ok(response) => Some(task(response.as_ref().clone()).owner.unwrap()),
                Outcome::Error(_) => None,
            })
            .collect();
        let [owner] = won.as_slice() else { panic!("not one: {claims:?}") };
        assert_eq!(get(&mut client, "alpha", id).owner.as_ref(), Some(owner));
        for lost in claims.iter().filter_map(|claim| match claim {
            Outcome::Error(error) => Some(error),
            Outcome::Ok(_) => None,
        }) {
            assert!(lost.message.contains(owner), "it says who has it: {lost:?}");
        }
    }
}

/// A member that dies gives its tasks back.
#[test]
fn t4_a_failed_member_gives_its_tasks_back() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    create(&mut lead.client, "", "alpha");
    let mut worker = agents.worker(&daemon, &mut lead, "m1");
    let mut client = daemon.client();
    let mine = add(&mut client, "alpha", "mine", &[]);
    let done = add(&mut client, "alpha", "done", &[]);
    for id in [mine, done] {
        client.ok(update("alpha", id, Some(TaskStatus::InProgress), Some("m1")));
    }
    client.ok(update("alpha", done, Some(TaskStatus::Completed), None));
    worker.end_run(1, outcome(proto::notification::RunStatus::Failed, "cannot"));
    let back = get(&mut client, "alpha", mine);
    assert_eq!((back.status, back.owner), (TaskStatus::Pending, None));
    let kept = get(&mut client, "alpha", done);
    assert_eq!((kept.status, kept.owner.as_deref()), (TaskStatus::Completed, Some("m1")));
}
