//! D-3: the examples for other programs hold a real conversation.

use proto::request::Request;
use proto::response::Response;
use tests::{Daemon, Ran};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/examples");

/// Runs an example twice on one session, so that the second time there is a past that must not be
/// taken for an answer.
fn converse(program: &str, file: &str) {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let script = serde_json::json!({
        "about": "answers", "pace_ms": 0,
        "agents": [{ "when": {}, "steps": [{ "text": "first answer" }, { "text": "second answer" }] }],
    });
    let mut new = daemon.rehearsal("normal", &script);
    "talk".clone_into(&mut new.name);
    client.new_session(new);
    for (words, answer) in [("hello there", "first answer\n"), ("and again", "second answer\n")] {
        let mut command = daemon.command(program);
        command.arg(format!("{EXAMPLES}/{file}")).arg("talk").args(words.split(' '));
        let ran = Ran::of(command, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, answer), "{ran:?}");
    }
    let Response::Sessions { sessions } = client.ok(Request::SessionList {}) else {
        panic!("no sessions")
    };
    assert_eq!(sessions.len(), 1);
    let mut command = daemon.command(program);
    command.arg(format!("{EXAMPLES}/{file}")).args(["nosuch", "x"]);
    let ran = Ran::of(command, "");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("no session named"), "{ran:?}");
}

#[test]
fn d3_twenty_lines_of_python() {
    converse("python3", "converse.py");
}

#[test]
fn d3_twenty_lines_of_shell() {
    converse("sh", "converse.sh");
}
