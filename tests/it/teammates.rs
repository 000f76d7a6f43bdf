//! T-2: members of a team in terminals of the user's own, which speak over inbox files. Here with a
//! stand-in; with the real programs in `cli/teammates.rs`.

use std::fs;
use std::time::Duration;

use proto::entry::Origin;
use proto::error::ErrorCode;
use proto::event::Event;
use proto::message::{Body, MessageState, SendResult};
use proto::notification::RunStatus;
use proto::request::Request;
use proto::response::Response;
use proto::view::AgentState;
use serde_json::{Value, json};
use tests::teammate::{Locked, Teammate, Version};
use tests::wait::{until, until_true};
use tests::{Agents, Client, Daemon, FakeAgent};

/// A session whose lead the test speaks for, its team `alpha`, and `m1` in a terminal.
struct Fixture {
    daemon: Daemon,
    _agents: Agents,
    lead: FakeAgent,
    session: String,
    m1: Teammate,
}

impl Fixture {
    fn new(version: Version) -> Self {
        let (daemon, mut agents) = Agents::start();
        let mut lead = agents.lead(&daemon, "coordinator");
        lead.create_team("alpha");
        let session = lead.boot.session.clone();
        let m1 = Teammate::new(&daemon, "alpha", "m1", version);
        let fixture = Self { daemon, _agents: agents, lead, session, m1 };
        fixture.invite("m1");
        fixture
    }

    fn invite(&self, name: &str) {
        let request = Request::TeamInvite(proto::request::Invite {
            team: "alpha".into(),
            name: name.into(),
            description: String::new(),
            start: false,
            arguments: Vec::new(),
        });
        assert!(matches!(self.daemon.client().ok(request), Response::Invited { .. }));
    }

    /// The lead says this to `m1`. The message's id.
    fn send(&mut self, body: Body) -> String {
        let request = Request::Send {
            session: String::new(),
            to: "m1".into(),
            body,
            summary: "briefly".into(),
            notify_when_idle: false,
        };
        sent(self.lead.client.ok(request))
    }

    fn state_of(&self, message: &str) -> MessageState {
        state_of(&mut self.daemon.client(), message)
    }

    fn wait_for(&self, message: &str, state: MessageState) {
        until_true(&format!("{message} is {state:?}"), || self.state_of(message) == state);
    }
}

fn sent(response: Response) -> String {
    match response {
        Response::Sent { results } => match &results[0] {
            SendResult::Accepted { id, .. } => id.clone(),
            SendResult::Refused { reason, .. } => panic!("{reason}"),
        },
        other => panic!("{other:?}"),
    }
}

fn state_of(client: &mut Client, message: &str) -> MessageState {
    client.receipt(message).state
}

/// The receipt follows the file, in both ways of reading.
#[test]
fn t2_m11_a_message_waits_in_the_inbox_and_is_consumed_when_it_is_read() {
    for version in [Version::Marks, Version::Takes] {
        let mut fixture = Fixture::new(version);
        let first = fixture.send(Body::text("look at <b> & \"it\""));
        fixture.wait_for(&first, MessageState::Delivered);
        let entries = fixture.m1.entries("m1").unwrap();
        assert_eq!(entries.len(), 1);
        let entry = &entries[0];
        assert_eq!((&entry["from"], &entry["read"]), (&json!("team-lead"), &json!(false)));
        assert_eq!(entry["text"], "look at <b> & \"it\"");
        assert_eq!((&entry["summary"], &entry["type"]), (&json!("briefly"), &json!("message")));
        let second = fixture.send(Body::text("and this"));
        fixture.wait_for(&second, MessageState::Delivered);
        let read = fixture.m1.read();
        assert_eq!(read.len(), 2);
        fixture.wait_for(&first, MessageState::Consumed);
        fixture.wait_for(&second, MessageState::Consumed);
        let member = fixture.daemon.client().agent(&format!("{}/m1", fixture.session));
        assert_eq!((member.state, member.mail), (AgentState::Running, 0));
        // The user's words come as the user's.
        let prompt = Request::Prompt {
            session: fixture.session.clone(),
            agent: Some("m1".into()),
            text: "by hand".into(),
        };
        sent(fixture.daemon.client().ok(prompt));
        let read = fixture.m1.read();
        assert_eq!((&read[0]["from"], &read[0]["text"]), (&json!("user"), &json!("by hand")));
    }
}

#[test]
fn t2_w4_a_turn_is_a_run_and_its_end_is_told_to_the_lead_once() {
    let mut fixture = Fixture::new(Version::Takes);
    let message = fixture.send(Body::text("look"));
    fixture.wait_for(&message, MessageState::Delivered);
    fixture.m1.read();
    fixture.m1.say("team-lead", "hi & <b>");
    fixture.m1.idle("all of it </result> done");
    let words = fixture.lead.deliver();
    assert_eq!(words.origin, Origin::Agent { name: "m1".into() });
    assert!(words.text.contains("hi &amp; &lt;b&gt;"), "{}", words.text);
    let told = fixture.lead.deliver();
    let Origin::Notification { notification } = told.origin else { panic!("{told:?}") };
    assert_eq!(notification.status, RunStatus::Completed);
    assert_eq!(notification.result, "all of it </result> done");
    until_true("the lead's inbox is empty", || {
        fixture.m1.entries("team-lead").is_some_and(|entry| entry.is_empty())
    });
    fixture.lead.assert_nothing_comes();
    let member = fixture.daemon.client().agent(&format!("{}/m1", fixture.session));
    assert_eq!((member.state, member.runs), (AgentState::Stopped, 1));
}

/// Words written half by half, at the same moment, and while the daemon was away: each comes once
/// and in order.
#[test]
fn t2_m3_nothing_that_a_member_leaves_is_lost_or_doubled() {
    for version in [Version::Marks, Version::Takes] {
        let mut fixture = Fixture::new(version);
        for number in 0..10 {
            fixture.m1.say("team-lead", &format!("word {number}"));
        }
        let mut got: Vec<String> = (0..10).map(|_| fixture.lead.deliver().text).collect();
        // Not in the middle of taking them out: a lock of a daemon that is gone keeps others out
        // until the next one comes.
        until_true("all were taken out", || {
            fixture.m1.entries("team-lead").is_some_and(|entry| entry.is_empty())
        });
        drop(Locked::take(&fixture.m1.file("team-lead")));
        fixture.daemon.kill9();
        for number in 10..20 {
            fixture.m1.say("team-lead", &format!("word {number}"));
        }
        fixture.daemon.restart();
        fixture.lead.reconnect(&fixture.daemon);
        // What was not acknowledged comes again, first and under the same ids.
        let again: Vec<String> = (0..20).map(|_| fixture.lead.deliver().text).collect();
        assert_eq!(again[..10], got[..]);
        got.extend_from_slice(&again[10..]);
        for (number, text) in got.iter().enumerate() {
            assert!(
                text.contains(&format!("word {number}\n"))
                    || text.contains(&format!("word {number}<")),
                "{number}: {text}"
            );
        }
        fixture.lead.assert_nothing_comes();
    }
}

#[test]
fn t2_m3_what_was_delivered_before_a_crash_is_not_delivered_again() {
    let mut fixture = Fixture::new(Version::Takes);
    let first = fixture.send(Body::text("one"));
    fixture.wait_for(&first, MessageState::Delivered);
    fixture.daemon.kill9();
    assert_eq!(fixture.m1.read().len(), 1);
    fixture.daemon.restart();
    fixture.wait_for(&first, MessageState::Consumed);
    fixture.lead.reconnect(&fixture.daemon);
    let second = fixture.send(Body::text("two"));
    fixture.wait_for(&second, MessageState::Delivered);
    let texts: Vec<_> =
        fixture.m1.entries("m1").unwrap().iter().map(|entry| entry["text"].clone()).collect();
    assert_eq!(texts, [json!("two")]);
}

#[test]
fn t2_a_lock_of_others_is_waited_for_and_one_that_was_left_behind_is_not() {
    let mut fixture = Fixture::new(Version::Takes);
    let file = fixture.m1.file("m1");
    let lock = Locked::take(&file);
    let first = fixture.send(Body::text("one"));
    // Another member's inbox is served meanwhile, so that the held one was tried.
    fixture.invite("m2");
    let request = Request::Send {
        session: String::new(),
        to: "m2".into(),
        body: Body::text("yours"),
        summary: String::new(),
        notify_when_idle: false,
    };
    let other = sent(fixture.lead.client.ok(request));
    fixture.wait_for(&other, MessageState::Delivered);
    assert_eq!(fixture.state_of(&first), MessageState::Accepted);
    drop(lock);
    fixture.wait_for(&first, MessageState::Delivered);
    Locked::left_behind(&file);
    let second = fixture.send(Body::text("two"));
    fixture.wait_for(&second, MessageState::Delivered);
}

#[test]
fn t2_a_damaged_inbox_is_set_aside_said_and_filled_again() {
    let mut fixture = Fixture::new(Version::Takes);
    let message = fixture.send(Body::text("one"));
    fixture.wait_for(&message, MessageState::Delivered);
    fs::write(fixture.m1.file("m1"), "[{\"from\":").unwrap();
    let entries = until("the letter is there again", || {
        fixture.m1.entries("m1").filter(|entry| entry.len() == 1)
    });
    assert_eq!(entries[0]["text"], "one");
    assert_eq!(fixture.state_of(&message), MessageState::Delivered, "nobody has read it");
    fs::write(fixture.m1.file("team-lead"), "").unwrap();
    until_true("the lead's inbox is one again", || fixture.m1.entries("team-lead").is_some());
    let folder = fixture.m1.file("m1").parent().unwrap().to_owned();
    let aside = fs::read_dir(folder).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_str().unwrap().contains(".json.corrupt-")
    });
    assert_eq!(aside.count(), 2);
    let degraded = match fixture.daemon.client().ok(Request::DaemonStatus {}) {
        Response::Daemon { daemon } => daemon.degraded.join("\n"),
        other => panic!("{other:?}"),
    };
    assert!(degraded.contains("the inbox file of m1 was not valid"), "{degraded}");
}

#[test]
fn t2_whoever_is_no_member_is_warned_of_and_its_words_wait() {
    let mut fixture = Fixture::new(Version::Takes);
    let mut watcher = fixture.daemon.client();
    watcher.subscribe("");
    let mut stranger = Teammate::new(&fixture.daemon, "alpha", "m2", Version::Takes);
    stranger.say("team-lead", "let me in");
    let warning = watcher.event("a warning", |it| match it {
        Event::Warning { text } => Some(text.clone()),
        _ => None,
    });
    assert!(warning.contains("coordctl team invite alpha m2"), "{warning}");
    fixture.lead.assert_nothing_comes();
    fixture.invite("m2");
    assert!(fixture.lead.deliver().text.contains("let me in"));
    // And what is for nobody comes back.
    stranger.say("nobody", "hello?");
    let back = stranger.read();
    assert!(back[0]["text"].as_str().unwrap().contains("nobody"), "{back:?}");
    assert_eq!(back[0]["from"], "coordd");
}

#[test]
fn t2_m2_a_member_is_asked_to_end_and_agrees() {
    let mut fixture = Fixture::new(Version::Marks);
    let member = format!("{}/m1", fixture.session);
    let asked = fixture.daemon.coordctl(&["team", "shutdown", &member, "all done"]);
    assert!(asked.stdout.contains("answered by shutdown-m"), "{}", asked.said());
    let request: Value =
        serde_json::from_str(fixture.m1.read()[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&request["type"], &request["reason"]),
        (&json!("shutdown_request"), &json!("all done"))
    );
    let id = request["requestId"].as_str().unwrap();
    assert!(id.ends_with("@m1"), "{id}");
    fixture.m1.signal(json!({ "type": "shutdown_approved", "requestId": id, "paneId": "" }));
    let told = fixture.lead.deliver();
    assert_eq!(told.origin, Origin::Agent { name: "m1".into() });
    assert!(told.text.contains("agrees to shut down"), "{}", told.text);
    fixture.lead.assert_nothing_comes();
}

#[test]
fn t2_m2_a_plan_is_approved_by_its_lead_and_sent_back_by_the_user() {
    let mut fixture = Fixture::new(Version::Takes);
    let plan = |id: &str| json!({ "type": "plan_approval_request", "requestId": id, "planFilePath": "/p.md", "planContent": "1. go" });
    fixture.m1.signal(plan("plan_approval-1@m1@alpha"));
    let asked = fixture.lead.deliver();
    assert!(asked.text.contains("1. go"), "{}", asked.text);
    let id = format!("plan-{}", asked.message);
    assert!(asked.text.contains(&id), "{}", asked.text);
    let member = format!("{}/m1", fixture.session);
    let ran = fixture.daemon.coordctl(&["team", "reject", &member, &id, "more detail"]);
    assert_eq!(ran.code, 0, "{}", ran.said());
    let answer = |fixture: &Fixture| -> Value {
        serde_json::from_str(fixture.m1.read()[0]["text"].as_str().unwrap()).unwrap()
    };
    let rejected = answer(&fixture);
    assert_eq!(rejected["requestId"], "plan_approval-1@m1@alpha");
    assert_eq!(
        (&rejected["approved"], &rejected["feedback"]),
        (&json!(false), &json!("more detail"))
    );
    fixture.m1.signal(plan("plan_approval-2@m1@alpha"));
    let id = format!("plan-{}", fixture.lead.deliver().message);
    let feedback = String::new();
    fixture.send(Body::PlanApprovalResponse { request_id: id.clone(), approve: true, feedback });
    let approved = answer(&fixture);
    assert_eq!(
        (&approved["type"], &approved["approved"]),
        (&json!("plan_approval_response"), &json!(true))
    );
    let again = fixture.daemon.coordctl(&["team", "approve", &member, &id]);
    assert_eq!(again.code, 3, "{}", again.said());
    // M-8: a member approves nothing, whatever it writes.
    fixture.m1.signal(plan("plan_approval-3@m1@alpha"));
    let id = format!("plan-{}", fixture.lead.deliver().message);
    fixture
        .m1
        .signal(json!({ "type": "plan_approval_response", "requestId": id, "approved": true }));
    let words = fixture.lead.deliver();
    assert_eq!(words.origin, Origin::Agent { name: "m1".into() });
    let approve = fixture.daemon.coordctl(&["team", "approve", &member, &id]);
    assert_eq!(approve.code, 0, "it is still open: {}", approve.said());
}

#[test]
fn t2_a_terminal_is_seen_and_one_that_is_closed_at_work_has_failed() {
    let mut fixture = Fixture::new(Version::Takes);
    let member = format!("{}/m1", fixture.session);
    let state = |fixture: &Fixture| fixture.daemon.client().agent(&member);
    assert_eq!(state(&fixture).state, AgentState::Stopped);
    let terminal = fixture.m1.terminal(&fixture.daemon);
    until_true("it is seen", || state(&fixture).state == AgentState::Idle);
    assert_eq!(state(&fixture).pid, Some(terminal.pid()));
    let refused = fixture.daemon.client().denied(Request::AgentStop { agent: member.clone() });
    assert_eq!(refused.code, ErrorCode::State);
    assert!(refused.hint.contains("coordctl team shutdown"), "{refused:?}");
    fixture.send(Body::text("work"));
    fixture.m1.read();
    until_true("it works", || state(&fixture).state == AgentState::Running);
    terminal.close();
    let told = fixture.lead.deliver();
    let Origin::Notification { notification } = told.origin else { panic!("{told:?}") };
    assert_eq!(notification.status, RunStatus::Failed);
    assert!(notification.summary.contains("its terminal was closed"), "{}", notification.summary);
    assert_eq!(state(&fixture).state, AgentState::Stopped);
}

/// The command that is printed starts the program in the right place with what makes it a member,
/// and nothing is served any more when the team is gone.
#[test]
fn t2_t3_l1_a_member_is_invited_by_a_command_and_goes_with_its_team() {
    let mut fixture = Fixture::new(Version::Takes);
    let session = fixture.session.clone();
    let invited = fixture.daemon.coordctl(&[
        "team",
        "invite",
        &session,
        "m2",
        "--plan-first",
        "--",
        "--model",
        "x y",
    ]);
    assert_eq!(invited.code, 0, "{}", invited.said());
    let line = invited.stdout.trim();
    assert_eq!(line.lines().count(), 1, "{line}");
    fixture.daemon.write_program(
        "bin/claude",
        "#!/bin/sh\npwd\nprintf '%s\\n' \"$CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS\" \"$@\"\n",
    );
    let path = fixture.daemon.at("bin");
    let ran = fixture.daemon.shell(&format!("PATH={}:$PATH; {line}", path.display()));
    let said: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(said[0], fixture.daemon.work().to_str().unwrap());
    assert_eq!(said[1..4], ["1", "--agent-id", "m2@alpha"]);
    assert!(said.contains(&"--plan-mode-required") && said.contains(&"x y"), "{said:?}");
    let pair = |name: &str| said[said.iter().position(|it| *it == name).unwrap() + 1];
    assert_eq!((pair("--team-name"), pair("--agent-name")), ("alpha", "m2"));
    assert_eq!(
        (pair("--parent-session-id"), pair("--permission-mode")),
        (session.as_str(), "acceptEdits")
    );
    let again = fixture.daemon.coordctl(&["team", "invite", "alpha", "m2"]);
    assert_eq!(again.code, 0, "{}", again.said());
    let taken = fixture.daemon.coordctl(&["team", "invite", "alpha", "lead"]);
    assert_eq!(taken.code, 3, "{}", taken.said());
    let shown = fixture.daemon.coordctl(&["team", "show", "alpha"]);
    assert!(
        shown.stdout.contains("m2") && shown.stdout.contains("general-purpose"),
        "{}",
        shown.said()
    );
    let config = fixture.daemon.at("h/.claude/teams/alpha/config.json");
    let member = until("m2 is in the file", || {
        let file: Value = serde_json::from_slice(&fs::read(&config).ok()?).ok()?;
        file["members"].as_array()?.iter().find(|it| it["agentId"] == "m2@alpha").cloned()
    });
    assert_eq!(
        (&member["isActive"], &member["agentType"]),
        (&json!(false), &json!("general-purpose"))
    );
    fixture.lead.complete(1, "done");
    let deleted = fixture.lead.client.ok(Request::TeamDelete { session: String::new() });
    assert!(
        matches!(&deleted, Response::TeamDeleted { kept, .. } if kept.is_empty()),
        "{deleted:?}"
    );
    let folder = fixture.daemon.at("h/.claude/teams/alpha");
    // Something else is served after it, so that whatever would make it again has had its turn.
    assert_eq!(fixture.daemon.client().ok(Request::Ping {}), Response::Done {});
    assert!(!folder.exists());
    let sent = Request::Send {
        session: String::new(),
        to: "m1".into(),
        body: Body::text("late"),
        summary: String::new(),
        notify_when_idle: false,
    };
    fixture.lead.client.ok(sent);
    let still = fixture.lead.client.order_within(Duration::from_millis(1));
    assert_eq!(still, None);
    assert!(!folder.exists());
}

/// What a terminal writes about itself in the team file stays.
#[test]
fn t2_a_member_says_itself_whether_it_is_active() {
    let mut fixture = Fixture::new(Version::Takes);
    let config = fixture.daemon.at("h/.claude/teams/alpha/config.json");
    let file = || -> Option<Value> { serde_json::from_slice(&fs::read(&config).ok()?).ok() };
    let mut edited = until("m1 is in the file", || {
        file().filter(|it| it["members"].as_array().is_some_and(|it| it.len() == 2))
    });
    edited["members"][1]["isActive"] = true.into();
    edited["members"][1]["color"] = "blue".into();
    fs::write(&config, edited.to_string()).unwrap();
    let pretty = || fs::read_to_string(&config).is_ok_and(|it| it.contains("\n  "));
    until_true("it was taken in and written again", pretty);
    fixture.invite("m2");
    let file = until("m2 is there too", || {
        file().filter(|it| it["members"].as_array().is_some_and(|it| it.len() == 3))
    });
    assert_eq!(
        (&file["members"][1]["isActive"], &file["members"][1]["color"]),
        (&json!(true), &json!("blue"))
    );
    fixture.lead.assert_nothing_comes();
}

/// Whoever gives a task to a member, its inbox says so once, whatever dies meanwhile.
#[test]
fn t2_t4_a_task_that_is_given_to_a_member_is_told_to_it_once() {
    let mut fixture = Fixture::new(Version::Takes);
    let task = |fixture: &Fixture, arguments: &[&str]| {
        let ran = fixture.daemon.coordctl(&[&["task"], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.said());
    };
    for subject in ["one", "two", "three", "four"] {
        task(&fixture, &["add", "alpha", subject, "--description", "in full"]);
    }
    let signal = |fixture: &Fixture| -> Value {
        let read = fixture.m1.read();
        assert_eq!(read.len(), 1, "{read:?}");
        serde_json::from_str(read[0]["text"].as_str().unwrap()).unwrap()
    };
    let assigned = |it: &Value, number: &str, subject: &str, by: &str| {
        assert_eq!((&it["type"], &it["taskId"]), (&json!("task_assignment"), &json!(number)));
        assert_eq!((&it["subject"], &it["description"]), (&json!(subject), &json!("in full")));
        assert_eq!(it["assignedBy"], by);
    };
    task(&fixture, &["claim", "alpha", "1", "--as", "m1"]);
    assigned(&signal(&fixture), "1", "one", "user");
    // The same again is no news, neither now nor to the next daemon.
    task(&fixture, &["claim", "alpha", "1", "--as", "m1"]);
    fixture.daemon.kill9();
    fixture.daemon.restart();
    fixture.lead.reconnect(&fixture.daemon);
    task(&fixture, &["update", "alpha", "2", "--owner", "m1"]);
    assigned(&signal(&fixture), "2", "two", "user");
    // By hand, in the file.
    let give = |number: u32| {
        let file = fixture.daemon.at(&format!("h/.claude/tasks/alpha/{number}.json"));
        let whole = until("it is in the file", || fs::read(&file).ok());
        let mut task: Value = serde_json::from_slice(&whole).unwrap();
        task["owner"] = "m1".into();
        fs::write(&file, task.to_string()).unwrap();
    };
    give(3);
    assigned(&signal(&fixture), "3", "three", "coordd");
    // A Claude Code that writes the file tells the new owner too: that is enough.
    give(4);
    let told = json!({ "type": "task_assignment", "taskId": "4", "subject": "four", "description": "in full", "assignedBy": "m2",
        "timestamp": tests::teammate::now() });
    let mut entry = fixture.m1.entry(&told.to_string());
    (entry["from"], entry["timestamp"]) = ("m2".into(), tests::teammate::now().into());
    fixture.m1.leave("m1", entry);
    let owner = || {
        let shown = fixture.daemon.coordctl(&["task", "show", "alpha", "4"]).stdout;
        shown.contains("m1").then_some(())
    };
    until("coordd knows of it", owner);
    fixture.send(Body::text("last"));
    let mut texts = Vec::new();
    until("the last word", || {
        texts.extend(fixture.m1.read_now().iter().map(|it| it["text"].clone()));
        texts.last().filter(|it| **it == "last").map(|_| ())
    });
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].as_str().unwrap().contains("\"assignedBy\":\"m2\""), "{texts:?}");
    let mailbox = fixture.daemon.client().agent(&format!("{}/m1", fixture.session)).mail;
    until_true("and nothing waits", || mailbox == 0 || fixture.m1.read_now().is_empty());
}

/// Two write the team's file at the same time, each many times, and neither loses what the other
/// wrote, not even for a moment.
#[test]
fn t2_two_writers_of_the_team_file_lose_nothing() {
    const WRITES: usize = 30;
    let fixture = Fixture::new(Version::Takes);
    let config = fixture.daemon.at("h/.claude/teams/alpha/config.json");
    let file = || -> Option<Value> { serde_json::from_slice(&fs::read(&config).ok()?).ok() };
    let names = |file: &Value, first: char| -> Vec<String> {
        let members = file["members"].as_array().unwrap();
        let names = members.iter().map(|member| member["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with(first)).collect()
    };
    until("m1 is in the file", || file().filter(|it| names(it, 'm').len() == 1));
    for number in 0..WRITES {
        // coordd writes this into the file while the other one edits it, and knows nothing of the
        // edit before.
        fixture.invite(&format!("c{number}"));
        fixture.m1.edit_team(|team| {
            assert_eq!(names(team, 'x').len(), number, "what it wrote before is there");
            let members = team["members"].as_array_mut().unwrap();
            let own = members.iter_mut().find(|member| member["name"] == "m1").unwrap();
            if number > 0 {
                assert_eq!(own["isActive"], json!(number % 2 == 0), "{number}");
            }
            own["isActive"] = (number % 2 == 1).into();
            let name = format!("x{number}");
            members.push(json!({ "agentId": format!("{name}@alpha"), "name": name }));
        });
    }
    let file = until("all are in the file", || {
        file().filter(|it| names(it, 'x').len() == WRITES && names(it, 'c').len() == WRITES)
    });
    let own = file["members"].as_array().unwrap().iter().find(|it| it["name"] == "m1").unwrap();
    assert_eq!(own["isActive"], json!(WRITES.is_multiple_of(2)), "its last word");
}

/// Whoever holds the lock for long holds up neither other files nor whoever waits for them.
#[test]
fn t2_a_team_file_that_is_locked_for_long_holds_up_nobody() {
    let fixture = Fixture::new(Version::Takes);
    let config = fixture.daemon.at("h/.claude/teams/alpha/config.json");
    let holds = |name: &str| fs::read_to_string(&config).is_ok_and(|it| it.contains(name));
    until_true("m1 is in the file", || holds("m1@alpha"));
    let lock = Locked::take(&config);
    fixture.invite("m2");
    // A task's file, and a session's scratchpad, are made by the same thread after it.
    let added = fixture.daemon.coordctl(&["task", "add", "alpha", "look"]);
    assert_eq!(added.code, 0, "{}", added.said());
    let task = fixture.daemon.at("h/.claude/tasks/alpha/1.json");
    until_true("the task has its file", || task.exists());
    assert!(!holds("m2@alpha"));
    drop(lock);
    until_true("m2 is in the file", || holds("m2@alpha"));
}
