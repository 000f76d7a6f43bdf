//! T-2 with the real programs: Claude Code in a terminal, as a member of a team that coordd leads.

use std::cell::RefCell;
use std::path::Path;

use proto::entry::Origin;
use proto::message::{Body, MessageState, SendResult};
use proto::notification::RunStatus;
use proto::request::Request;
use proto::response::Response;
use proto::view::AgentState;
use serde_json::{Value, json};
use tests::cli::{self, CLI_LIMIT, Cli, KEY, Model, Script};
use tests::processes::Process;
use tests::wait::until_within;
use tests::{Agents, Daemon, FakeAgent, Sandbox};

use crate::coordctl::Terminal;

/// A session whose lead the test speaks for, with its team `alpha`.
struct Fixture {
    daemon: Daemon,
    _agents: Agents,
    model: Model,
    /// The terminal borrows the daemon meanwhile.
    lead: RefCell<FakeAgent>,
}

impl Fixture {
    /// `claude` in the sandbox is this version, and has been set up by its user.
    fn new(version: &str, scripts: Vec<Script>) -> Self {
        let mut sandbox = Sandbox::new();
        let mut agents = Agents::beside_real_terminals(&mut sandbox);
        let model = Model::start(&mut sandbox, scripts);
        let program = Cli::claude(version).program_in(&sandbox);
        let path = format!("{}:{}", program.parent().unwrap().display(), sandbox.vars()["PATH"]);
        sandbox.set("PATH", path);
        set_up(&sandbox);
        let daemon = Daemon::start_in(sandbox);
        let mut lead = agents.lead(&daemon, "coordinator");
        lead.create_team("alpha");
        Self { daemon, _agents: agents, model, lead: RefCell::new(lead) }
    }

    /// The command that `coordctl` prints for a member.
    fn invite(&self, arguments: &[&str]) -> String {
        let ran = self.daemon.coordctl(&[&["team", "invite", "alpha", "m1"], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.said());
        ran.stdout.trim().to_owned()
    }

    /// The lead says this to `m1`. The message's id.
    fn send(&self, body: Body) -> String {
        let request = Request::Send {
            session: String::new(),
            to: "m1".into(),
            body,
            summary: "briefly".into(),
            notify_when_idle: false,
        };
        match self.lead.borrow_mut().client.ok(request) {
            Response::Sent { results } => match &results[0] {
                SendResult::Accepted { id, .. } => id.clone(),
                SendResult::Refused { reason, .. } => panic!("{reason}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// What the lead is told next, acknowledged.
    fn told(&self) -> (Origin, String, String) {
        let mut lead = self.lead.borrow_mut();
        let order = lead.client.order_within(CLI_LIMIT);
        let Some(proto::agent::Order::Deliver { message, origin, text, .. }) = order else {
            panic!("not a message: {order:?}")
        };
        lead.acknowledge(&[&message], 1);
        (origin, text, message)
    }

    fn session(&self) -> String {
        self.lead.borrow().boot.session.clone()
    }

    fn state(&self) -> AgentState {
        self.daemon.client().agent(&format!("{}/m1", self.session())).state
    }

    fn wait_for_state(&self, wanted: AgentState) {
        until_within(CLI_LIMIT, &format!("m1 is {wanted:?}"), || {
            (self.state() == wanted).then_some(())
        });
    }

    fn is_consumed(&self, message: &str) -> bool {
        self.daemon.client().receipt(message).state == MessageState::Consumed
    }
}

/// What a user has answered when Claude Code was started for the first time, and in this folder.
fn set_up(sandbox: &Sandbox) {
    let work = sandbox.work();
    let work: &Path = work.as_ref();
    let settings = json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "customApiKeyResponses": { "approved": [&KEY[KEY.len() - 20..]], "rejected": [] },
        "projects": { work.to_str().unwrap(): { "hasTrustDialogAccepted": true } },
    });
    sandbox.write("h/.claude.json", settings.to_string());
}

/// What `m1` says when it is asked to end.
fn agrees_to_end() -> Script {
    let agree = json!({
        "to": "team-lead",
        "message": { "type": "shutdown_response", "request_id": "{{shutdown-[0-9]+@m1}}", "approve": true },
    });
    Script::when("shutdown_request").call("SendMessage", agree).say("bye")
}

/// Words to a real member and back, its turn as a run, and its end, by what each version writes and
/// reads.
#[test]
fn t2_a_real_terminal_is_a_member_until_it_agrees_to_end() {
    for version in ["2.1.332", "2.1.150"] {
        let hello = json!({ "to": "team-lead", "message": "hi & <b>", "summary": "hello" });
        let scripts = vec![
            agrees_to_end(),
            Script::when("say hello & <i>").call("SendMessage", hello).say("it is said"),
        ];
        let fixture = Fixture::new(version, scripts);
        let line = fixture.invite(&[]);
        // Before its terminal is there, so that it waits.
        let message = fixture.send(Body::text("say hello & <i>"));
        assert_eq!(fixture.state(), AgentState::Stopped);
        let terminal = Terminal::open(&fixture.daemon, "one", &line);
        let (origin, text, _) = fixture.told();
        assert_eq!(origin, Origin::Agent { name: "m1".into() }, "{version}");
        assert!(text.contains("hi &amp; &lt;b&gt;"), "{version}: {text}");
        let (origin, _, _) = fixture.told();
        let Origin::Notification { notification } = origin else { panic!("{version}: {origin:?}") };
        assert_eq!(notification.status, RunStatus::Completed, "{version}");
        let result = if version == "2.1.332" { "it is said" } else { "" };
        assert_eq!(notification.result, result, "{version}");
        assert!(fixture.is_consumed(&message), "{version}");
        let shown = fixture.model.shown_to("say hello & <i>");
        assert!(shown[0].all().contains("teammate_id=\"team-lead\""), "{version}: {shown:?}");
        fixture.wait_for_state(AgentState::Idle);
        fixture.send(Body::ShutdownRequest { reason: "all done".into() });
        let (origin, text, _) = fixture.told();
        assert_eq!(origin, Origin::Agent { name: "m1".into() }, "{version}");
        assert!(text.contains("agrees to shut down"), "{version}: {text}");
        terminal.shows("left with");
        fixture.wait_for_state(AgentState::Stopped);
        terminal.tmux(&["kill-server"]);
    }
}

/// L-2, K4, W-6: one that coordd runs is a member as well, and is looked at meanwhile. When its
/// process is lost it comes back with its conversation; when it agrees to end it stays away, and
/// nothing of it is left.
#[test]
fn t2_l2_a_real_terminal_that_coordd_runs() {
    for version in ["2.1.332", "2.1.150"] {
        let hello = json!({ "to": "team-lead", "message": "hi from inside", "summary": "hello" });
        let scripts = vec![
            agrees_to_end(),
            Script::when("once more").say("the second answer"),
            Script::when("say hello").call("SendMessage", hello).say("the first answer"),
        ];
        let fixture = Fixture::new(version, scripts);
        let invited = fixture.invite(&["--start"]);
        let member = invited.strip_prefix("coordctl attach ").expect("how to look at it");
        fixture.wait_for_state(AgentState::Idle);
        let coordctl = tests::sandbox::program("coordctl");
        let attach = format!("'{}' attach {member}", coordctl.display());
        let terminal = Terminal::open(&fixture.daemon, "one", &attach);
        let message = fixture.send(Body::text("say hello"));
        let (origin, text, _) = fixture.told();
        assert_eq!(origin, Origin::Agent { name: "m1".into() }, "{version}");
        assert!(text.contains("hi from inside"), "{version}: {text}");
        let (origin, _, _) = fixture.told();
        let Origin::Notification { notification } = origin else { panic!("{version}: {origin:?}") };
        assert_eq!(notification.status, RunStatus::Completed, "{version}");
        assert!(fixture.is_consumed(&message), "{version}");
        terminal.shows("the first answer");
        cli::is_recorded(&fixture.daemon, "the first answer");

        let pid = || fixture.daemon.client().agent(member).pid;
        let before = pid().expect("a process");
        Process::open(before).expect("it runs").kill9();
        until_within(CLI_LIMIT, "it is there again", || pid().filter(|it| *it != before));
        fixture.wait_for_state(AgentState::Idle);
        fixture.send(Body::text("once more"));
        let (origin, _, _) = fixture.told();
        assert!(matches!(origin, Origin::Notification { .. }), "{version}: {origin:?}");
        terminal.shows("the second answer");
        let shown = fixture.model.shown_to("once more").remove(0).all();
        assert!(
            shown.contains("the first answer"),
            "{version}: its conversation is there: {shown}"
        );

        fixture.send(Body::ShutdownRequest { reason: "all done".into() });
        let (origin, text, _) = fixture.told();
        assert_eq!(origin, Origin::Agent { name: "m1".into() }, "{version}");
        assert!(text.contains("agrees to shut down"), "{version}: {text}");
        terminal.shows("left with");
        fixture.wait_for_state(AgentState::Stopped);
        let left = fixture.daemon.processes();
        let claudes: Vec<_> = left.iter().filter(|it| it.command.contains("--agent-id")).collect();
        assert!(claudes.is_empty(), "{version}: {claudes:?}");
        terminal.tmux(&["kill-server"]);
    }
}

/// A message that comes in the middle of a turn, and a terminal that is closed in the middle of
/// one.
#[test]
fn t2_a_real_terminal_that_is_closed_at_work_has_failed() {
    let scripts = vec![Script::when("take your time").begin("I am at it", "never")];
    let fixture = Fixture::new("2.1.332", scripts);
    let line = fixture.invite(&[]);
    let terminal = Terminal::open(&fixture.daemon, "one", &line);
    fixture.wait_for_state(AgentState::Idle);
    let message = fixture.send(Body::text("take your time"));
    fixture.wait_for_state(AgentState::Running);
    assert!(fixture.is_consumed(&message));
    fixture.model.wait_for("the turn has begun", |it| it.script.is_some());
    terminal.tmux(&["kill-server"]);
    let (origin, _, _) = fixture.told();
    let Origin::Notification { notification } = origin else { panic!("{origin:?}") };
    assert_eq!(notification.status, RunStatus::Failed);
    assert!(notification.summary.contains("its terminal was closed"), "{}", notification.summary);
}

/// Its plan is sent back by the lead and then approved by the user, and it goes on.
#[test]
fn t2_m2_a_real_terminal_waits_for_approval_of_its_plan() {
    let plan = |text: &str| json!({ "plan": text });
    let scripts = vec![
        Script::when("\"approved\":true").say("carried out"),
        Script::when("\"approved\":false").call("ExitPlanMode", plan("1. go")).say("again I wait"),
        Script::when("make a plan").call("ExitPlanMode", plan("1. go")).say("I wait"),
    ];
    let fixture = Fixture::new("2.1.150", scripts);
    let line = fixture.invite(&["--plan-first"]);
    fixture.send(Body::text("make a plan"));
    let terminal = Terminal::open(&fixture.daemon, "one", &line);
    let asked = |fixture: &Fixture, plan: &str| {
        loop {
            // Between the plans it is idle, which is told too.
            let (origin, text, message) = fixture.told();
            if matches!(origin, Origin::Agent { .. }) {
                assert!(text.contains(plan), "{text}");
                break format!("plan-{message}");
            }
        }
    };
    let first = asked(&fixture, "1. go");
    let request_id = first.clone();
    let feedback = "more detail".to_owned();
    fixture.send(Body::PlanApprovalResponse { request_id, approve: false, feedback });
    let request = asked(&fixture, "1. go");
    assert_ne!(request, first, "it asks again");
    let shown = fixture.model.wait_for("the answer", |it| it.all().contains("more detail"));
    assert!(shown.all().contains("plan_approval_response"));
    let member = format!("{}/m1", fixture.session());
    let approved = fixture.daemon.coordctl(&["team", "approve", &member, &request]);
    assert_eq!(approved.code, 0, "{}", approved.said());
    fixture.model.wait_for("it goes on", |it| it.script.as_deref() == Some("\"approved\":true"));
    terminal.tmux(&["kill-server"]);
}

/// What a real terminal says about itself in the team file survives coordd's own writes, in each of
/// its turns.
#[test]
fn t2_a_real_terminal_and_coordd_write_the_team_file() {
    let turns = ["count to 0", "count to 1", "count to 2"];
    let scripts = turns.map(|it| Script::when(it).say("done").after(it));
    let fixture = Fixture::new("2.1.332", scripts.into());
    let line = fixture.invite(&[]);
    let terminal = Terminal::open(&fixture.daemon, "one", &line);
    let config = fixture.daemon.at("h/.claude/teams/alpha/config.json");
    let wait_for = |is_active: bool| {
        until_within(CLI_LIMIT, &format!("its being active is {is_active}"), || {
            let file: Value = serde_json::from_slice(&std::fs::read(&config).ok()?).ok()?;
            let members = file["members"].as_array()?.clone();
            let member = members.into_iter().find(|member| member["agentId"] == "m1@alpha")?;
            (member["isActive"] == is_active).then_some(member)
        })
    };
    for turn in turns {
        fixture.send(Body::text(turn));
        wait_for(true);
        fixture.model.open(turn);
        let (origin, _, _) = fixture.told();
        assert!(matches!(origin, Origin::Notification { .. }), "{origin:?}");
        // It writes this after it has told of its end. The next turn would begin with what is left of this one.
        let member = wait_for(false);
        assert_eq!(member["agentType"], "general-purpose", "{member}");
    }
    terminal.tmux(&["kill-server"]);
}

/// A task that the user gives to a real member begins its turn.
#[test]
fn t2_t4_a_real_terminal_takes_up_a_task_that_it_is_given() {
    let done = json!({ "taskId": "1", "status": "completed" });
    let scripts =
        vec![Script::when("task_assignment").call("TaskUpdate", done).say("the task is done")];
    let fixture = Fixture::new("2.1.150", scripts);
    let line = fixture.invite(&[]);
    let terminal = Terminal::open(&fixture.daemon, "one", &line);
    fixture.wait_for_state(AgentState::Idle);
    let run = |arguments: &[&str]| {
        let ran = fixture.daemon.coordctl(arguments);
        assert_eq!(ran.code, 0, "{}", ran.said());
        ran.stdout
    };
    run(&["task", "add", "alpha", "mend it", "--description", "all of it"]);
    run(&["task", "claim", "alpha", "1", "--as", "m1"]);
    let shown = fixture.model.wait_for("the task", |it| it.all().contains("task_assignment"));
    let words = shown.all();
    assert!(words.contains("mend it") && words.contains("all of it"), "{words}");
    let (origin, _, _) = fixture.told();
    assert!(matches!(origin, Origin::Notification { .. }), "{origin:?}");
    until_within(CLI_LIMIT, "it has marked the task as done", || {
        run(&["task", "show", "alpha", "1"]).contains("completed").then_some(())
    });
    assert_eq!(fixture.model.shown_to("task_assignment").len(), 2, "one turn, with one call");
    terminal.tmux(&["kill-server"]);
}

/// fR1: what the terminal's own prompt would expand stays text in a message of its inbox.
#[test]
fn a7_fr1_a_message_in_an_inbox_opens_no_file() {
    for version in ["2.1.332", "2.1.150"] {
        let fixture = Fixture::new(version, vec![Script::when("look into").say("done")]);
        let secret = fixture.daemon.write("elsewhere/notes", "SECRET-OF-THE-USER");
        let line = fixture.invite(&[]);
        let terminal = Terminal::open(&fixture.daemon, "one", &line);
        let secret = secret.display();
        fixture.send(Body::text(format!("look into @{secret} and @\"{secret}\"")));
        fixture.told();
        let asked: String = fixture.model.shown().iter().map(|it| it.body.to_string()).collect();
        assert!(asked.contains(&format!("{secret}")), "{version}: {asked}");
        assert!(!asked.contains("SECRET-OF-THE-USER"), "{version}: {asked}");
        terminal.tmux(&["kill-server"]);
    }
}
