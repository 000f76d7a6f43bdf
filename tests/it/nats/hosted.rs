//! C-7: workers that run on another machine, in a checkout that its user named, and are told of
//! like any other (N-1, N-4, W-5, W-6).

use std::time::Duration;

use proto::entry::Origin;
use proto::error::ErrorCode;
use proto::message::{Body, MessageState};
use proto::notification::{Notification, RunStatus};
use proto::request::{NewAgent, Request};
use proto::response::Response;
use proto::view::{AgentState, PeerKind};
use serde_json::{Value, json};
use tests::nats::{Server, TOKEN};
use tests::rehearsal::{bash, call, say, script, worker};
use tests::wait::until_within;
use tests::{Daemon, Sandbox, processes};

use super::hosts::{Host, RECOVERY_LIMIT};

/// The machine that has the lead, and the one that runs its workers, where agents are real.
struct Two {
    server: Server,
    a: Host,
    b: Daemon,
    _folder: tempfile::TempDir,
}

fn coordctl(daemon: &Daemon, arguments: &[&str]) -> String {
    let ran = daemon.coordctl(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    ran.stdout.trim().to_owned()
}

impl Two {
    /// Workers on the second machine say this.
    fn start(steps: &Value) -> Self {
        let folder = tempfile::Builder::new().prefix("cn.").tempdir_in("/tmp").unwrap();
        let server = Server::start(folder.path());
        let a = Host::start(&[]);
        a.join(&server);
        let b = Daemon::start_in(Sandbox::new());
        let token = b.write("token", TOKEN);
        std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let token = token.to_str().unwrap();
        coordctl(&b, &["bridge", "add", &server.url(), "--token-file", token]);
        coordctl(&b, &["bridge", "trust", &a.key, "--name", "ay"]);
        let key = coordctl(&b, &["bridge", "key"]);
        coordctl(&a.daemon, &["bridge", "trust", &key, "--name", "bee"]);
        a.allow("bee", &["--out"]);
        let file = b.write("script.json", script(&json!([worker(steps)])).to_string());
        std::fs::create_dir(b.at("w/checkout")).unwrap();
        let model = format!("rehearsal:{}", file.display());
        let checkout = b.at("w/checkout");
        let arguments = [
            &["new", "--host-for", "ay", "--name", "dates", "--model", &model, "--allow", "Bash"],
            &["--cwd", checkout.to_str().unwrap()][..],
        ]
        .concat();
        until_within(RECOVERY_LIMIT, "the bridge knows the peer", || {
            (b.coordctl(&arguments).code == 0).then_some(())
        });
        let mut two = Self { server, a, b, _folder: folder };
        until_within(RECOVERY_LIMIT, "the place for workers is seen", || two.hosts().pop());
        two
    }

    /// Where workers can run, as the lead is told.
    fn hosts(&mut self) -> Vec<String> {
        let Response::Peers { peers } = self.a.lead.client.ok(Request::PeerList {}) else {
            panic!()
        };
        let hosts = peers.into_iter().filter(|peer| peer.kind == PeerKind::Host);
        hosts.map(|it| it.address).collect()
    }

    fn spawn(&mut self, name: &str) {
        let agent = NewAgent {
            name: name.into(),
            description: "far work".into(),
            prompt: "do the far work".into(),
            host: "bee".into(),
            ..NewAgent::default()
        };
        let spawned = self.a.lead.client.ok(Request::AgentSpawn { agent: Box::new(agent) });
        assert!(matches!(spawned, Response::Spawned { .. }), "{spawned:?}");
    }

    /// The next end of a run that the lead is told of.
    fn told(&mut self) -> Notification {
        let it = self.a.read_one();
        let Origin::Notification { notification } = it.origin else { panic!("{it:?}") };
        notification
    }

    fn state(&mut self, name: &str) -> AgentState {
        let path = format!("{}/{name}", self.a.session);
        self.a.client.agent(&path).state
    }

    fn wait_for(&mut self, name: &str, state: AgentState) {
        until_within(RECOVERY_LIMIT, "the worker's state is told", || {
            (self.state(name) == state).then_some(())
        });
    }

    fn wait_for_file(&self, path: &str) {
        let path = self.b.at(&format!("w/checkout/{path}"));
        until_within(RECOVERY_LIMIT, "the worker is at work", || path.exists().then_some(()));
    }
}

/// FP-15: the session's folder and the system are all that it sees, by commands and by file tools, and nobody is asked.
#[test]
fn c7_fp15_a_worker_there_sees_its_folder_and_the_system_alone() {
    let look = "cat ../private $HOME/.ssh/id ~/notes /root/.bashrc; ls /home /srv; echo $?; ls /usr | wc -l; cat own";
    let home = "~/notes";
    let mut two = Two::start(&json!([
        call("Looking.", &json!([bash(look)])),
        call("", &json!([{ "name": "Read", "input": { "file_path": home } }])),
        call(
            "",
            &json!([{ "name": "Write", "input": { "file_path": "../mine", "content": "x" } }])
        ),
        say("Seen.")
    ]));
    for (path, text) in [
        ("w/private", "PRIVATE"),
        ("h/notes", "NOTES"),
        ("h/.ssh/id", "KEY"),
        ("w/checkout/own", "OWN"),
    ] {
        let path = two.b.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    two.spawn("w");
    assert_eq!(two.told().status, RunStatus::Completed);
    let log = coordctl(&two.b, &["logs", "dates/w", "--json"]);
    assert!(log.contains("OWN"), "{log}");
    for secret in ["PRIVATE", "NOTES", "KEY"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
    assert!(!two.b.at("w/mine").exists());
    assert!(coordctl(&two.b, &["permit", "ls"]).is_empty());
}

#[test]
fn c7_n1_a_worker_works_in_the_checkout_there_and_its_lead_is_notified() {
    let write = "echo here >>found && pwd && test -z \"$(ls ..|grep -v checkout)\"; true";
    let mut two = Two::start(&json!([
        call("Looking.", &json!([bash(write)])),
        say("The answer is 42."),
        say("It still is.")
    ]));
    assert_eq!(two.hosts(), ["bee/dates"]);
    let listed = coordctl(&two.a.daemon, &["peers"]);
    assert!(listed.contains("bee/dates") && listed.contains("host"), "{listed}");

    two.spawn("w");
    let told = two.told();
    assert_eq!((told.status, told.result.as_str()), (RunStatus::Completed, "The answer is 42."));
    assert_eq!(told.usage.tool_uses, 1);
    assert_eq!(std::fs::read_to_string(two.b.at("w/checkout/found")).unwrap(), "here\n");
    assert_eq!(two.state("w"), AgentState::Stopped);
    let there = coordctl(&two.b, &["status", "dates"]);
    assert!(there.contains("workers of ay") && there.contains("completed"), "{there}");
    let here = coordctl(&two.a.daemon, &["status", &two.a.session]);
    assert!(here.contains("on bee"), "{here}");

    // W-5: it goes on in the same conversation.
    let go_on = Request::Send {
        session: String::new(),
        to: "w".into(),
        body: Body::text("are you sure?"),
        summary: String::new(),
        notify_when_idle: false,
    };
    let Response::Sent { results } = two.a.lead.client.ok(go_on) else { panic!() };
    let proto::message::SendResult::Accepted { id, .. } = &results[0] else { panic!() };
    let told = two.told();
    assert_eq!((told.status, told.result.as_str()), (RunStatus::Completed, "It still is."));
    two.a.wait_for(id, MessageState::Consumed);
    assert_eq!(two.a.client.agent(&format!("{}/w", two.a.session)).runs, 2);
    two.a.lead.assert_nothing_comes();
}

#[test]
fn c7_w6_a_worker_there_is_stopped_from_here_and_leaves_nothing() {
    let sleep = "touch ready && sleep 1000";
    let mut two = Two::start(&json!([call("Sleeping.", &json!([bash(sleep)])), say("Awake.")]));
    two.spawn("w");
    two.wait_for_file("ready");
    two.wait_for("w", AgentState::Running);
    // In the box it has another number than out here.
    let sleeps = |process: &processes::Process| process.command == "sleep 1000";
    let shell = until_within(RECOVERY_LIMIT, "the command sleeps", || {
        two.b.processes().into_iter().find(sleeps)
    });
    let asked = two.a.lead.client.ok(Request::AgentStop { agent: "w".into() });
    assert_eq!(asked, Response::StopAsked { agent: "w".into() });
    let told = two.told();
    assert_eq!(told.status, RunStatus::Killed);
    assert!(told.summary.contains("lead on ay"), "{told:?}");
    assert!(!shell.runs());
    assert_eq!(two.state("w"), AgentState::Stopped);
}

/// Both daemons, both bridges and the server die while the worker works. It goes on, and its end is
/// told once.
#[test]
fn c7_n4_d6_whoever_dies_the_work_is_done_once_and_told_once() {
    let wait = "echo x >>begun; until test -e go; do sleep 0.05; done";
    let mut two =
        Two::start(&json!([call("Waiting.", &json!([bash(wait)])), say("Done at last.")]));
    let bridge_of = |daemon: &Daemon| {
        let all = daemon.processes();
        all.into_iter().find(|it| it.command.ends_with("coordd-bridge")).expect("a bridge runs")
    };
    two.spawn("w");
    two.wait_for_file("begun");
    two.wait_for("w", AgentState::Running);
    two.b.kill9();
    two.b.restart();
    two.a.daemon.kill9();
    two.a.daemon.restart();
    two.a.meet_again();
    bridge_of(&two.b).kill9();
    bridge_of(&two.a.daemon).kill9();
    two.server.kill9();
    assert_eq!(two.state("w"), AgentState::Running);
    // It ends while its lead's machine can tell nothing and hear nothing.
    two.b.write("w/checkout/go", "");
    let mut there = two.b.client();
    until_within(RECOVERY_LIMIT, "it has ended there", || {
        (there.agent("dates/w").state == AgentState::Stopped).then_some(())
    });
    two.b.kill9();
    two.a.daemon.kill9();
    two.server.restart();
    two.b.restart();
    two.a.daemon.restart();
    two.a.meet_again();
    let told = two.told();
    assert_eq!((told.status, told.result.as_str()), (RunStatus::Completed, "Done at last."));
    assert_eq!(std::fs::read_to_string(two.b.at("w/checkout/begun")).unwrap(), "x\n");
    // What is handed over after all that has been read already.
    let again = two.a.read(Duration::from_secs(2));
    assert!(again.is_empty(), "told again: {again:?}");
}

#[test]
fn c7_m8_nothing_runs_there_unless_both_users_said_so() {
    let mut two = Two::start(&json!([say("Done.")]));
    let agent = |host: &str| {
        let prompt = "do it".to_owned();
        let agent = NewAgent { host: host.into(), prompt, ..NewAgent::default() };
        Request::AgentSpawn { agent: Box::new(agent) }
    };
    let denied = two.a.lead.client.denied(agent("desk"));
    assert_eq!(denied.code, ErrorCode::NotFound);
    assert!(denied.hint.contains("bee/dates"), "{denied:?}");
    // Here, the session's user takes it back.
    coordctl(&two.a.daemon, &["bridge", "deny", &two.a.session, "bee"]);
    let denied = two.a.lead.client.denied(agent("bee"));
    assert_eq!(denied.code, ErrorCode::Forbidden);
    two.a.allow("bee", &["--out"]);
    // There, its user stops the session that is for workers.
    coordctl(&two.b, &["stop", "dates"]);
    two.spawn("w");
    let told = two.told();
    assert_eq!(told.status, RunStatus::Failed);
    assert!(told.summary.contains("stopped there"), "{told:?}");
    // And nobody speaks to it as to a session of its own.
    coordctl(&two.b, &["resume", "dates"]);
    let refused = two.b.coordctl(&["send", "dates", "hello"]);
    assert_ne!(refused.code, 0);
    assert!(refused.said().contains("for another machine"), "{refused:?}");
}
