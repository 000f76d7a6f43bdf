//! M-6, M-9, M-10: sessions of coordd and of the real Claude Code write to each other. What its
//! version does is what counts.

use proto::entry::Origin;
use proto::message::MessageState;
use proto::request::{NewSession, Request};
use proto::response::Response;
use serde_json::{Value, json};
use tests::cli::{CLI_LIMIT, Cli, Headless, Model, Script};
use tests::outsider::listed;
use tests::rehearsal::{lead, script};
use tests::{Daemon, Sandbox, story, wait};

const VERSION: &str = "2.1.332";

/// Its tools that are about other sessions, granted.
const TOOLS: [&str; 2] = ["--allowedTools", "SendMessage,ListAgents"];

/// A daemon, a model for claudes in its sandbox, and nothing else.
fn world(scripts: Vec<Script>) -> (Daemon, Model) {
    let mut sandbox = Sandbox::new();
    let model = Model::start(&mut sandbox, scripts);
    // Without it, a bypass of all permissions is refused to root.
    sandbox.set("IS_SANDBOX", "1");
    (Daemon::start_in(sandbox), model)
}

/// A claude that has said its first word, and the address of its socket.
fn claude(daemon: &Daemon, name: &str, more: &[&str]) -> (Headless, String) {
    let arguments: Vec<_> = ["--name", name].iter().chain(&TOOLS).chain(more).copied().collect();
    let mut claude = Cli::claude(VERSION).headless(daemon, &arguments);
    claude.say("Good morning");
    let init = claude.line("system/init");
    claude.result();
    let socket = init["messaging_socket_path"].as_str().unwrap_or_else(|| panic!("{init}"));
    (claude, format!("uds:{socket}"))
}

/// Session `dates`, whose lead answers with these steps.
fn dates(daemon: &Daemon, steps: &Value) -> NewSession {
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(steps)])));
    "dates".clone_into(&mut new.name);
    new
}

/// A step in which the lead answers whoever wrote last.
fn answer(text: &str) -> Value {
    let to = "{{re:address=\"(uds:[^\"]+)\"}}";
    json!({ "tools": [{ "name": "SendMessage", "input": { "to": to, "message": text, "summary": "an answer" } }] })
}

/// What the lead of `dates` was told from outside.
fn told(daemon: &Daemon) -> Vec<(Origin, String)> {
    let request = Request::Transcript { agent: "dates".into(), from: 0, limit: 0 };
    let entries = match daemon.client().ok(request) {
        Response::Transcript { entries, .. } => entries,
        other => panic!("{other:?}"),
    };
    let inputs = story::inputs(&entries);
    let from_outside = inputs.into_iter().filter(|input| matches!(input.0, Origin::Outside { .. }));
    from_outside.map(|(origin, text)| (origin.clone(), text.to_owned())).collect()
}

fn hears(daemon: &Daemon, words: &str) -> (Origin, String) {
    wait::until_within(CLI_LIMIT, "the lead is told", || {
        told(daemon).into_iter().find(|it| it.1.contains(words))
    })
}

fn state(daemon: &Daemon, id: &str) -> MessageState {
    daemon.client().receipt(id).state
}

fn reaches(daemon: &Daemon, id: &str, wanted: MessageState) {
    wait::until_within(CLI_LIMIT, "the receipt says so", || {
        (state(daemon, id) == wanted).then_some(())
    });
}

/// Sends to an address, and returns the message's id.
fn send(daemon: &Daemon, address: &str, text: &str) -> String {
    let sent = daemon.coordctl_json(&["send", address, text]);
    let id = &sent["sent"]["results"][0]["accepted"]["id"];
    id.as_str().unwrap_or_else(|| panic!("{sent}")).to_owned()
}

fn by_peer(result: &Value) -> &Value {
    assert_eq!(result["origin"]["kind"], "peer", "{result}");
    &result["origin"]
}

#[test]
fn m10_a_claude_lists_a_session_writes_to_it_by_name_and_path_and_is_answered() {
    let (daemon, model) = world(vec![
        Script::when("Good morning").say("Good morning."),
        Script::when("Who is there").call("ListAgents", json!({})).say("Listed."),
        Script::when("Write by name")
            .call(
                "SendMessage",
                json!({ "to": "dates", "message": "is the build green?", "summary": "the build" }),
            )
            .say("Sent."),
        Script::when("by-name-it-is-green").say("Good."),
        Script::when("Write by path")
            .call(
                "SendMessage",
                json!({ "to": "{{(uds:[^\"]*coordd-[0-9a-f]+\\.sock)}}", "message": "and the tests?", "summary": "tests" }),
            )
            .say("Sent too."),
        Script::when("by-path-they-pass").say("Very good."),
    ]);
    let steps = json!([
        answer("by-name-it-is-green"), { "text": "Answered." },
        answer("by-path-they-pass"), { "text": "Answered again." },
    ]);
    daemon.client().new_session(dates(&daemon, &steps));
    let (mut claude, address) = claude(&daemon, "alice", &[]);
    claude.say("Who is there");
    claude.result();
    let list = model.shown_to("Who is there").pop().unwrap().last_tool_result().unwrap();
    assert!(list.contains("dates [") && list.contains("idle"), "{list}");

    claude.say("Write by name");
    assert_eq!(claude.result()["result"], "Sent.");
    let (origin, text) = hears(&daemon, "is the build green?");
    let want = Origin::Outside { name: "alice".into(), address: address.clone(), verified: true };
    assert_eq!(origin, want);
    assert!(text.contains("<outside-message from=\"alice\""), "{text}");
    let result = claude.result();
    let origin = by_peer(&result);
    assert_eq!((&origin["name"], &origin["verifiedLocal"]), (&json!("dates"), &json!(true)));
    assert_eq!(result["result"], "Good.");

    claude.say("Write by path");
    assert_eq!(claude.result()["result"], "Sent too.");
    hears(&daemon, "and the tests?");
    let result = claude.result();
    by_peer(&result);
    assert_eq!(result["result"], "Very good.");
    assert_eq!(told(&daemon).len(), 2);
    model.assert_all_scripted();

    // Whoever is listed, is listed to us too, with an address that works.
    let ran = daemon.coordctl(&["peers"]);
    assert!(ran.stdout.contains("alice") && ran.stdout.contains(&address), "{ran:?}");
    let pid = claude.pid();
    assert_eq!(claude.end().code, 0);
    wait::until_true("a claude that ended is listed no more", || {
        !daemon.coordctl(&["peers"]).stdout.contains(&address)
    });
    assert!(pid > 0);
}

#[test]
fn m6_m11_words_of_the_user_start_a_turn_of_a_claude_and_equal_ones_another() {
    let (daemon, model) = world(vec![
        Script::when("Good morning").say("Good morning."),
        Script::when("go on").say("I go on."),
    ]);
    let (mut claude, address) = claude(&daemon, "alice", &[]);
    let first = send(&daemon, &address, "go on");
    let result = claude.result();
    assert_eq!(by_peer(&result)["verifiedLocal"], true);
    assert_eq!(result["result"], "I go on.");
    assert_eq!(state(&daemon, &first), MessageState::Delivered);
    // The same again within 30 s is not lost.
    let second = send(&daemon, &address, "go on");
    by_peer(&claude.result());
    assert_eq!(state(&daemon, &second), MessageState::Delivered);
    // With `--wait` until it has nothing to do any more.
    let ran = daemon.coordctl(&["send", &address, "go on", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("consumed"), "{ran:?}");
    model.assert_all_scripted();
    assert_eq!(claude.end().code, 0);
}

/// A25: a claude whose permissions are bypassed holds what comes from one whose are not, and lets
/// it expire when it ends.
#[test]
fn a25_m10_what_a_claude_holds_is_held_and_then_expired_here() {
    let (daemon, _model) = world(vec![
        Script::when("Good morning").say("Good morning."),
        Script::when("of the same kind").say("Done."),
    ]);
    let (mut claude, address) = claude(&daemon, "bob", &["--permission-mode", "bypassPermissions"]);
    let id = send(&daemon, &address, "delete it all");
    claude.line("system/peer_message_hold");
    reaches(&daemon, &id, MessageState::Held);
    let ran = daemon.coordctl(&["wait", &id, "--timeout", "1"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    // A session of ours of the same kind is heard.
    let steps = json!([
        { "tools": [{ "name": "SendMessage", "input": { "to": address, "message": "of the same kind" } }] },
        { "text": "Sent." },
    ]);
    let mut new = dates(&daemon, &steps);
    "bypassPermissions".clone_into(&mut new.permissions.mode);
    "go".clone_into(&mut new.prompt);
    daemon.client().new_session(new);
    by_peer(&claude.result());
    claude.end();
    reaches(&daemon, &id, MessageState::Expired);
}

/// M-10: what claude wrote stays as it is, ours is gone while nobody serves it, and back with the
/// next daemon.
#[test]
fn m10_a_claude_sees_a_session_come_and_go_with_its_daemon() {
    let (mut daemon, model) = world(vec![
        Script::when("Good morning").say("Good morning."),
        Script::when("before").call("ListAgents", json!({})).say("Listed."),
        Script::when("between").call("ListAgents", json!({})).say("Listed."),
        Script::when("after").call("ListAgents", json!({})).say("Listed."),
    ]);
    daemon.client().new_session(dates(&daemon, &json!([{ "text": "hello" }])));
    let (mut claude, _) = claude(&daemon, "alice", &[]);
    let list = |claude: &mut Headless, when: &str| {
        claude.say(when);
        claude.result();
        model.shown_to(when).pop().unwrap().last_tool_result().unwrap()
    };
    let reference = |text: &str| {
        let (_, after) = text.split_once("dates [").unwrap_or_else(|| panic!("{text}"));
        after.split(']').next().unwrap().to_owned()
    };
    let before = reference(&list(&mut claude, "before"));
    let own = format!("{}.json", claude.pid());
    let theirs = || listed(&daemon).into_iter().find(|it| it.0 == own).expect("claude is listed");
    let was = theirs().1;
    daemon.kill9();
    let between = list(&mut claude, "between");
    assert!(!between.contains("dates ["), "{between}");
    daemon.restart();
    wait::until_true("the session is listed again", || {
        listed(&daemon).iter().any(|it| it.1["pid"] == daemon.pid())
    });
    let after = reference(&list(&mut claude, "after"));
    assert_eq!(after, before, "a reference stays good over restarts");
    let is = listed(&daemon).into_iter().find(|it| it.0 == own).expect("claude is listed").1;
    for field in ["pid", "sessionId", "messagingSocketPath", "name", "startedAt"] {
        assert_eq!(is[field], was[field], "{field}");
    }
    assert_eq!(claude.end().code, 0);
}

#[test]
fn m10_a_claude_that_asked_is_told_when_our_lead_has_nothing_to_do() {
    let (daemon, model) = world(vec![
        Script::when("Good morning").say("Good morning."),
        Script::when("Write and wait")
            .call(
                "SendMessage",
                json!({ "to": "dates", "message": "tell me when done", "summary": "the build", "notify_when_idle": true }),
            )
            .say("Sent."),
        Script::when("All is green here").say("Good."),
    ]);
    let steps = json!([{ "text": "All is green here." }]);
    daemon.client().new_session(dates(&daemon, &steps));
    let (mut claude, _) = claude(&daemon, "alice", &[]);
    claude.say("Write and wait");
    assert_eq!(claude.result()["result"], "Sent.");
    hears(&daemon, "tell me when done");
    // A turn of its own, with our lead's last words.
    assert_eq!(claude.result()["result"], "Good.");
    model.assert_all_scripted();
    assert_eq!(claude.end().code, 0);
}
