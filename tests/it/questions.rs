//! questions to the user, where they are shown, answered, and waited for.

use proto::Outcome;
use proto::agent::Permissions;
use proto::error::ErrorCode;
use proto::request::{NewSession, Request};
use proto::response::Response;
use proto::view::PermissionView;
use serde_json::{Value, json};
use tests::processes::Process;
use tests::rehearsal::{call, lead, say, script, start, worker_of};
use tests::wait::{until, until_true};
use tests::{Client, Daemon, Sandbox, story};

use crate::coordctl::Terminal;

/// A call that is asked about in the mode `default`, whatever holds commands.
fn write(path: &str) -> Value {
    json!({ "name": "Write", "input": { "file_path": path, "content": "one\n" } })
}

/// A session whose lead writes one file after the other, and asks for each.
fn writes(daemon: &Daemon, paths: &[&str]) -> NewSession {
    let mut steps: Vec<_> =
        paths.iter().map(|path| call("A file.", &json!([write(path)]))).collect();
    steps.push(say("Done."));
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!(steps))])));
    new.permissions = Permissions { mode: "default".into(), ..Permissions::default() };
    (new.name, new.prompt) = ("dates".into(), "go".into());
    new
}

/// `coordctl run` with a script that asks, and no terminal.
fn run(daemon: &Daemon, more: &[&str]) -> tests::sandbox::Ran {
    let new = writes(daemon, &["a.txt"]);
    let file = new.model.unwrap().rehearsal_file.unwrap();
    let model = format!("rehearsal:{file}");
    let name = ["--name", "dates", "--mode", "normal", "--permission-mode", "default"];
    let arguments = [&["run", "go", "--model", &model], &name[..], more].concat();
    daemon.coordctl(&arguments)
}

/// fA7, A-5: nobody is there to answer, so it ends with a code of its own, and says how to answer and go on.
#[test]
fn fa7_run_without_a_terminal_ends_at_a_question() {
    let daemon = Daemon::start();
    let ran = run(&daemon, &[]);
    assert_eq!(ran.code, 5, "{ran:?}");
    for what in ["p1", "a.txt", "coordctl permit allow p1", "coordctl wait dates"] {
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    }
    assert_eq!(daemon.coordctl(&["permit", "allow", "p1"]).code, 0);
    assert_eq!(daemon.coordctl(&["wait", "dates", "--timeout", "30"]).code, 0);
    assert!(daemon.at("w/a.txt").exists());

    let daemon = Daemon::start();
    let ran = run(&daemon, &["--json", "--rm"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    let document = &ran.json_lines()[0];
    assert_eq!(document["ended"], "needs_input", "{document}");
    assert_eq!(document["questions"][0]["id"], "p1", "{document}");
    assert_eq!(document["session_detail"]["session"]["name"], "dates", "{document}");
    assert_eq!(daemon.coordctl(&["status", "dates"]).code, 0, "what is asked is not removed");
}

/// fA7: told to deny, it goes on, and the agent knows why.
#[test]
fn fa7_an_unattended_run_may_deny_what_is_asked() {
    let daemon = Daemon::start();
    let ran = run(&daemon, &["--on-question", "deny", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json_lines()[0]["ended"], "idle", "{ran:?}");
    let entries = daemon.client().transcript("dates/lead");
    let results = story::results(&entries);
    assert!(results[0].1 && results[0].0.contains("nobody can be asked"), "{results:?}");
    assert!(!daemon.at("w/a.txt").exists());
}

/// fA7: whoever waits is told by the code what happened: idle, asked, or neither in time.
#[test]
fn fa7_wait_tells_idle_asked_and_too_late_apart() {
    let daemon = Daemon::start();
    daemon.client().new_session(writes(&daemon, &["a.txt", "b.txt"]));
    let asked = daemon.coordctl(&["wait", "dates", "--timeout", "30"]);
    assert_eq!(asked.code, 5, "{asked:?}");
    assert!(asked.stderr.contains("a.txt"), "{asked:?}");
    let document = daemon.coordctl(&["wait", "dates", "--json"]);
    assert_eq!((document.code, &document.json_lines()[0]["ended"]), (5, &json!("needs_input")));
    assert_eq!(daemon.coordctl(&["wait", "dates", "--until", "needs-input"]).code, 0);
    let late = daemon.coordctl(&["wait", "dates", "--until", "idle", "--timeout", "1", "--json"]);
    assert_eq!((late.code, &late.json_lines()[0]["ended"]), (6, &json!("timed_out")), "{late:?}");
    assert_eq!(late.json_lines()[0]["questions"][0]["id"], "p1", "{late:?}");
    for id in ["p1", "p2"] {
        until_true("it asks", || daemon.coordctl(&["permit", "allow", id]).code == 0);
    }
    assert_eq!(daemon.coordctl(&["wait", "dates", "--until", "idle"]).code, 0);
    assert_eq!(daemon.coordctl(&["wait", "dates", "--until", "needs-input"]).code, 1);
    assert_eq!(daemon.coordctl(&["wait", "dates"]).code, 0);
}

/// fA15: a permission mode that is none is refused where it is written, before anything starts.
#[test]
fn fa15_a_permission_mode_that_is_none_is_refused_at_once() {
    let daemon = Daemon::start();
    for verb in ["new", "run"] {
        let ran =
            daemon.coordctl(&[verb, "go", "--model", "rehearsal", "--permission-mode", "yolo"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains("yolo") && ran.stderr.contains("acceptEdits"), "{ran:?}");
    }
    daemon.write("c/coordd/config.toml", "[permissions]\nmode = \"yolo\"\n");
    let ran = daemon.coordctl(&["new", "--model", "rehearsal"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("yolo") && ran.stderr.contains("line 2"), "{ran:?}");
    assert_eq!(daemon.client().sessions().len(), 0);
}

/// of two clients that answer at once one is taken; the other is told, now and after a restart, and nothing is done twice.
#[test]
fn a2_a_question_is_answered_once_whoever_comes_late() {
    let mut daemon = Daemon::start();
    daemon.client().new_session(writes(&daemon, &["a.txt", "b.txt"]));
    let id = until_open(&mut daemon.client(), 1)[0].id.clone();
    let status = daemon.coordctl(&["status", "dates"]);
    assert!(status.stdout.contains("waits for you"), "{status:?}");
    assert!(!status.stdout.contains("running"), "{status:?}");
    let answer = |id: &str, allow: bool| Request::PermissionAnswer {
        id: id.to_owned(),
        allow,
        always: false,
        reason: String::new(),
    };
    let mut clients = [daemon.client(), daemon.client()];
    let calls = [true, false].map(|allow| answer(&id, allow));
    let [first, second] = &mut clients;
    let [yes, no] = calls.clone();
    let (yes, no) = (first.start_call(yes, None), second.start_call(no, None));
    let replies = [first.reply(yes), second.reply(no)];
    let taken: Vec<bool> = replies.iter().map(|reply| matches!(reply, Outcome::Ok(_))).collect();
    assert!(taken == [true, false] || taken == [false, true], "{replies:?}");
    let is_allowed = taken[0];
    assert_eq!(until_open(&mut daemon.client(), 1)[0].question.input.0["file_path"], "b.txt");
    assert_eq!(daemon.at("w/a.txt").exists(), is_allowed, "the answer that was taken counts");
    daemon.kill9();
    daemon.restart();
    for late in calls {
        let refused = daemon.client().denied(late);
        assert_eq!(refused.code, ErrorCode::State, "{refused:?}");
        assert!(refused.message.contains("already answered"), "{refused:?}");
    }
    let late = daemon.coordctl(&["permit", if is_allowed { "deny" } else { "allow" }, &id]);
    assert!(late.code == 3 && late.stderr.contains("already answered"), "{late:?}");
    assert_eq!(daemon.at("w/a.txt").exists(), is_allowed, "a late answer changes nothing");
    let entries = daemon.client().transcript("dates/lead");
    assert_eq!(story::results(&entries).len(), 1, "the call was answered once");
}

fn open(client: &mut Client) -> Vec<PermissionView> {
    match client.ok(Request::PermissionList { session: String::new() }) {
        Response::Permissions { permissions } => permissions,
        other => panic!("{other:?}"),
    }
}

fn until_open(client: &mut Client, count: usize) -> Vec<PermissionView> {
    until(&format!("{count} questions"), || Some(open(client)).filter(|open| open.len() == count))
}

/// A lead with two workers, `one` and `two`, each of which asks for one file in a folder of its own.
fn two_workers(daemon: &Daemon) {
    let asks = |path: &str| json!([call("A file.", &json!([write(path)])), say("Done.")]);
    let begin = json!([start("one", "task one"), start("two", "task two")]);
    let agents = json!([
        lead(&json!([call("Both.", &begin), say("Done.")])),
        worker_of("task one", &asks("a/one.txt")),
        worker_of("task two", &asks("b/two.txt")),
    ]);
    let mut new = daemon.rehearsal("normal", &script(&agents));
    new.permissions = Permissions { mode: "default".into(), ..Permissions::default() };
    (new.name, new.prompt) = ("dates".into(), "go".into());
    daemon.client().new_session(new);
}

/// fA6, W-7: with room for one worker, the second works while the first waits for a person.
#[test]
fn fa6_a_worker_that_waits_for_a_person_holds_up_nobody() {
    let daemon = Daemon::start();
    let begin = json!([start("one", "task one"), start("two", "task two")]);
    let asks = json!([call("A file.", &json!([write("one.txt")])), say("One is done.")]);
    let agents = json!([
        lead(&json!([call("Both.", &begin), say("Done.")])),
        worker_of("task one", &asks),
        worker_of("task two", &json!([say("Two is done.")])),
    ]);
    let mut new = daemon.rehearsal("normal", &script(&agents));
    new.permissions = Permissions { mode: "default".into(), ..Permissions::default() };
    (new.name, new.prompt, new.workers) = ("dates".into(), "go".into(), 1);
    let mut client = daemon.client();
    client.new_session(new);
    client.agent_until("dates/two", "has ended its run", |agent| agent.runs == 1);
    let asked = until_open(&mut client, 1);
    assert!(asked[0].agent.contains("one"), "{asked:?}");
    assert_eq!(daemon.coordctl(&["permit", "allow", &asked[0].id]).code, 0);
    client.agent_until("dates/one", "has ended its run", |agent| agent.runs == 1);
    assert!(daemon.at("w/one.txt").exists());
}

/// A-3, fA4: what the user always allows for one worker needs no question of another one that runs already.
#[test]
fn a3_fa4_always_holds_for_a_worker_that_runs() {
    let daemon = Daemon::start();
    let begin = json!([start("one", "task one"), start("two", "task two")]);
    // The second waits in a call of its own until the first has its answer.
    let gate = "until [ -e gate ]; do sleep 0.05; done";
    let wait = json!({ "name": "Bash", "input": { "command": gate, "description": "waits" } });
    let agents = json!([
        lead(&json!([call("Both.", &begin), say("Done.")])),
        worker_of(
            "task one",
            &json!([call("A file.", &json!([write("a/one.txt")])), say("Done.")])
        ),
        worker_of(
            "task two",
            &json!([
                call("Wait.", &json!([wait])),
                call("A file.", &json!([write("a/two.txt")])),
                say("Done."),
            ])
        ),
    ]);
    let mut new = daemon.rehearsal("normal", &script(&agents));
    new.permissions = Permissions { mode: "default".into(), ..Permissions::default() };
    (new.name, new.prompt) = ("dates".into(), "go".into());
    let mut client = daemon.client();
    client.new_session(new);
    client.agent_until("dates/two", "is at work", |agent| agent.pid.is_some());
    let asked = until_open(&mut client, 1);
    assert!(asked[0].agent.contains("one") && !asked[0].question.rule.is_empty(), "{asked:?}");
    assert_eq!(daemon.coordctl(&["permit", "allow", &asked[0].id, "--always"]).code, 0);
    client.agent_until("dates/one", "has ended its run", |agent| agent.runs == 1);
    daemon.write("w/gate", "");
    client.agent_until("dates/two", "has ended its run", |agent| agent.runs == 1);
    assert!(daemon.at("w/a/two.txt").exists());
    assert_eq!(open(&mut client).len(), 0);
}

fn attach<'a>(sandbox: &'a Sandbox, name: &str, what: &str) -> Terminal<'a> {
    let coordctl = tests::sandbox::program("coordctl");
    Terminal::open(sandbox, name, &format!("'{}' attach {what}", coordctl.display()))
}

fn paste(terminal: &Terminal<'_>, text: &str, announced: bool) {
    terminal.tmux(&["set-buffer", "-b", "pasted", text]);
    let flags: &[&str] = if announced { &["-p"] } else { &[] };
    terminal.tmux(&[&["paste-buffer", "-b", "pasted"], flags].concat());
}

/// Types an answer, again where it came too soon after its question was drawn, until the screen shows what it did.
fn answer(terminal: &Terminal<'_>, text: &str, done: &str) -> String {
    let all = || terminal.tmux(&["capture-pane", "-p", "-S", "-200"]);
    let too_soon = |screen: &str| screen.matches("has only just been drawn").count();
    loop {
        let before = too_soon(&all());
        terminal.type_in(text);
        let screen = until(&format!("`{text}` is taken, or came too soon"), || {
            Some(all()).filter(|it| it.contains(done) || too_soon(it) > before)
        });
        if screen.contains(done) {
            return screen;
        }
    }
}

/// Whether what is pasted after `attach` has left is announced to whoever reads there now: the terminal was not given back.
fn is_given_back(terminal: &Terminal<'_>) -> bool {
    paste(terminal, "after all", true);
    let screen = terminal.shows("after all");
    !screen.contains("200~")
}

/// fA1, fA3, fA5, A-2, A-4, in a real terminal: what is drawn is answered, with a note; a paste answers nothing; the terminal is
/// given back.
#[test]
fn fa1_fa3_fa5_a_question_is_answered_in_a_terminal() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    client.new_session(writes(&daemon, &["a.txt", "b.txt", "c.txt"]));
    until_open(&mut client, 1);
    let terminal = attach(&daemon, "one", "dates");
    let screen = terminal.shows("? p1  lead asks: Write a.txt");
    for part in ["a new file", "│ +one", "y  yes, this once", "p1 y/a/n ›"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    terminal.shows("p1 y/a/n ›");
    answer(&terminal, "n use make check", "denied p1");
    let screen = terminal.shows("? p2  lead asks: Write b.txt");
    assert!(
        screen.contains("denied p1: lead may not run `Write a.txt`; told: use make check"),
        "{screen}"
    );
    for (announced, text) in [(true, "y\ny\nthanks one"), (false, "please look\ny\nthanks two")] {
        paste(&terminal, text, announced);
        terminal.shows(text.rsplit('\n').next().unwrap());
        terminal.tmux(&["send-keys", "Enter"]);
    }
    answer(&terminal, "a sentence about it", "nothing was answered or sent");
    assert_eq!(until_open(&mut client, 1)[0].id, "p2", "a paste is no answer");
    answer(&terminal, "y", "allowed p2: lead may run `Write b.txt`");
    terminal.shows("? p3  lead asks: Write c.txt");
    assert_eq!(daemon.coordctl(&["permit", "deny", "p3"]).code, 0);
    terminal.shows("p3 denied, not from here");
    terminal.tmux(&["send-keys", "C-d"]);
    terminal.shows("left with 0");
    assert!(is_given_back(&terminal), "{}", terminal.screen());
    assert!(daemon.at("w/b.txt").exists() && !daemon.at("w/a.txt").exists());
    let entries = client.transcript("dates/lead");
    let results = story::results(&entries);
    assert!(results[0].0.contains("use make check"), "{results:?}");
    terminal.tmux(&["kill-server"]);
}

/// the terminal is as it was before, also when a signal ends the program.
#[test]
fn a2_a_terminal_is_given_back_whatever_ends_attach() {
    let daemon = Daemon::start();
    daemon.client().new_session(writes(&daemon, &["a.txt"]));
    let terminal = attach(&daemon, "one", "dates");
    terminal.shows("p1 y/a/n ›");
    let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let children = format!("/proc/{0}/task/{0}/children", shell.trim());
    let children = std::fs::read_to_string(children).unwrap();
    let attached = Process::open(children.trim().parse().unwrap()).unwrap();
    attached.signal(rustix::process::Signal::TERM);
    terminal.shows("left with 143");
    assert!(is_given_back(&terminal), "{}", terminal.screen());
    terminal.tmux(&["kill-server"]);
}

/// fA2: attached to one agent, only that one asks, and only that one is answered.
#[test]
fn fa2_attached_to_one_agent_only_its_questions_are_answered() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    two_workers(&daemon);
    let asked = until_open(&mut client, 2);
    let id = |agent: &str| asked.iter().find(|it| it.agent == agent).unwrap().id.clone();
    let terminal = attach(&daemon, "one", "dates/two");
    let screen = terminal.shows(&format!("? {}  two asks: Write b/two.txt", id("two")));
    terminal.shows(&format!("{} y/a/n ›", id("two")));
    assert!(!screen.contains("one asks"), "{screen}");
    answer(&terminal, "y", "two may run");
    assert_eq!(until_open(&mut client, 1)[0].id, id("one"));
    terminal.tmux(&["kill-server"]);
}

/// fP8, A-1: `permit show` has all of it, several at once, and says what is not open; answers take several ids and a note.
#[test]
fn a1_a4_questions_are_shown_and_answered_by_id() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    two_workers(&daemon);
    until_open(&mut client, 2);
    let shown = daemon.coordctl(&["permit", "show", "p1", "p2"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in [
        "one asks: Write a/one.txt",
        "two asks: Write b/two.txt",
        "│ +one",
        "why: ",
        "--always: Edit(",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let json = daemon.coordctl(&["permit", "show", "--all", "--json"]).json_lines();
    assert_eq!(json[0].as_array().unwrap().len(), 2, "{json:?}");
    let missing = daemon.coordctl(&["permit", "show", "p1", "p9"]);
    assert!(missing.code == 3 && missing.stderr.contains("p9 is no open question"), "{missing:?}");
    let denied = daemon.coordctl(&["permit", "deny", "p1", "p9", "--note", "not now", "--json"]);
    assert_eq!(denied.code, 3, "{denied:?}");
    let answers = &denied.json_lines()[0]["answers"];
    assert_eq!((&answers[0]["answered"], &answers[1]["answered"]), (&json!(true), &json!(false)));
    assert_eq!(answers[1]["error"]["code"], "not_found", "{answers}");
    let rest = daemon.coordctl(&["permit", "allow", "--all", "--session", "dates"]);
    assert!(rest.code == 0 && rest.stdout.contains("allowed p"), "{rest:?}");
    assert_eq!(until_open(&mut client, 0), []);
    assert_eq!(daemon.coordctl(&["permit", "allow"]).code, 2, "which one has to be said");
}
