//! rel-1, rel-6, rel-7, rel-11, cases G11, H1, H2, H6: other users of the machine, and what cleans
//! up behind everybody.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use proto::event::Event;
use proto::request::Request;
use serde_json::json;
use tests::rehearsal::{bash, call, lead, say, script};
use tests::wait::until;
use tests::{Daemon, Ran, Sandbox};

/// Runs a script as another user, in a folder that everybody can enter.
fn as_another(sandbox: &Sandbox, script: &str, argument: &Path) -> Ran {
    let as_root = if rustix::process::getuid().is_root() { "" } else { "sudo -n " };
    let mut command = sandbox.command("/bin/sh");
    let line = format!(
        "{as_root}setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \"$0\" attacker \"$1\""
    );
    command.args(["-c", &line, script]).arg(argument).current_dir("/");
    Ran::of(command, "")
}

/// A sandbox whose folder for temporary files is as `/tmp` is, and that others can reach.
fn shared() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::set_permissions(sandbox.root(), Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(sandbox.at("t"), Permissions::from_mode(0o1777)).unwrap();
    sandbox
}

fn root(sandbox: &Sandbox) -> PathBuf {
    sandbox.at(&format!("t/claude-{}", rustix::process::getuid().as_raw()))
}

/// What somebody else can put where our folder is to be: nothing of it is used, followed or opened,
/// what is wrong is said, and what the attacker put there for reading has nothing in it.
#[test]
fn rel1_nothing_that_another_user_plants_is_used() {
    let plants = [
        ("a folder of theirs", "mkdir -m 700 \"$1\"", "belongs to user 65534"),
        ("an open folder of theirs", "mkdir -m 777 \"$1\"", "belongs to user 65534"),
        (
            "a link to a folder of theirs",
            "mkdir -m 777 \"$1.theirs\"; ln -s \"$1.theirs\" \"$1\"",
            "symbolic link",
        ),
        ("a link in a circle", "ln -s \"$1\" \"$1\"", "symbolic link"),
        ("a link to nothing", "ln -s \"$1.none\" \"$1\"", "symbolic link"),
        ("a file", "echo x >\"$1\"", "where a folder is needed"),
        ("a pipe", "mkfifo -m 666 \"$1\"", "where a folder is needed"),
    ];
    let daemon = Daemon::start_in(shared());
    for (what, plant, said) in plants {
        let root = root(&daemon);
        let planted = as_another(&daemon, plant, &root);
        assert_eq!(planted.code, 0, "{what}: {planted:?}");
        let made = daemon.coordctl(&["new", "--name", "x", "--model", "rehearsal"]);
        assert_eq!(made.code, 1, "{what}: {made:?}");
        assert!(made.stderr.contains(said), "{what}: {made:?}");
        assert!(made.stderr.contains("CLAUDE_CODE_TMPDIR"), "{what}: what to do: {made:?}");
        let doctor = daemon.coordctl(&["doctor"]);
        assert_eq!(doctor.code, 1, "{what}: {doctor:?}");
        let theirs = root.with_extension("theirs");
        let got =
            as_another(&daemon, "find \"$1\" \"$1.theirs\" -mindepth 1 2>/dev/null; exit 0", &root);
        assert_eq!(got.stdout, "", "{what}: something was put there");
        assert!(!root.with_extension("none").exists(), "{what}");
        let cleared = as_another(&daemon, "rm -rf \"$1\" \"$1.theirs\"", &root);
        assert!(cleared.code == 0 && !theirs.exists(), "{what}: {cleared:?}");
    }
    assert_eq!(daemon.client().sessions(), []);
}

/// A session with a secret in its scratchpad. Returns the daemon, the session's id, and the
/// scratchpad.
fn with_secret() -> (Daemon, String, PathBuf) {
    let daemon = Daemon::start_in(shared());
    let mut client = daemon.client();
    let steps = json!([
        call("Writing.", &json!([bash("umask 0; echo secret >\"$COORDD_SCRATCHPAD/note\"")])),
        say("Written.")
    ]);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    let session = client.new_session(new);
    client.agent_until(&format!("{}/lead", session.name), "is done", |agent| agent.runs == 1);
    let path = client.show(&session.id).0.scratchpad.map(PathBuf::from).unwrap();
    assert_eq!(fs::read_to_string(path.join("note")).unwrap(), "secret\n");
    (daemon, session.id, path)
}

/// However carelessly an agent writes its files: another user gets no byte of them, and cannot
/// name, link or add one.
#[test]
fn rel1_another_user_reads_nothing_of_a_scratchpad() {
    let (daemon, _, path) = with_secret();
    let attempts = [
        "cat \"$1/note\"",
        "ls -R \"$1\" \"$1/..\" \"$1/../..\" \"$1/../../..\"",
        "cd \"$1\" && cat note",
        "ln \"$1/note\" /tmp/\"x$$\" && cat /tmp/\"x$$\"",
        "echo theirs >\"$1/theirs\" && echo written",
        "mv \"$1/../../..\" \"$1/../../../../moved\" && echo moved",
        "find \"$1/../../..\" -type f -exec cat {} +",
    ];
    for attempt in attempts {
        let ran = as_another(&daemon, attempt, &path);
        assert!(ran.code != 0 && ran.stdout.is_empty(), "{attempt}: {ran:?}");
    }
    // Nor by way of the processes that hold it, or of what else is ours.
    let pid = daemon.pid();
    for place in [
        format!("/proc/{pid}/fd"),
        format!("/proc/{pid}/cwd/"),
        daemon.state().display().to_string(),
    ] {
        let ran = as_another(
            &daemon,
            "find \"$1/\" -mindepth 1 2>/dev/null | head -n 1; cat \"$1/\"*",
            Path::new(&place),
        );
        assert!(ran.code != 0 && ran.stdout.is_empty(), "{place}: {ran:?}");
    }
    let entries: Vec<_> =
        path.read_dir().unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(entries, ["note"]);
}

fn clean(sandbox: &Sandbox) {
    let rule = format!("e {} - - - 1s\n", root(sandbox).display());
    let file = sandbox.write("tmpfiles.conf", rule);
    let ran = Command::new("systemd-tmpfiles")
        .arg("--clean")
        .arg(&file)
        .env("SYSTEMD_LOG_LEVEL", "warning")
        .output();
    let ran = ran.expect("systemd-tmpfiles");
    assert!(ran.status.success(), "{ran:?}");
}

/// rel-6, rel-7: the system's own cleaner, told that all there is too old, leaves what a living
/// session has. What no daemon holds any more it takes; then there is a new one, and that is said.
#[test]
fn rel6_the_cleaner_leaves_a_living_sessions_scratchpad() {
    let (mut daemon, session, path) = with_secret();
    let old = |path: &Path| {
        let found = path.metadata().unwrap();
        let changed = SystemTime::UNIX_EPOCH + Duration::new(found.ctime().cast_unsigned(), 0);
        changed.elapsed().is_ok_and(|it| it > Duration::from_secs(3))
    };
    until("all of it is too old", || (old(&path.join("note")) && old(&path)).then_some(()));
    clean(&daemon);
    assert_eq!(fs::read_to_string(path.join("note")).unwrap(), "secret\n");

    assert!(daemon.stop().success());
    until("the folder's own times are too old, too", || {
        clean(&daemon);
        (!path.exists()).then_some(())
    });
    daemon.restart();
    let mut client = daemon.client();
    let warned = |text: &str| text.contains("was gone");
    until("a new one is made, and it is said", || {
        client.subscribe("");
        let env = std::collections::BTreeMap::new();
        client.ok(Request::SessionResume { session: session.clone(), env, mode_variable: None });
        let log = daemon.log_text();
        let event = client.take_events().into_iter().any(|it| match it.event {
            Event::Warning { text } => warned(&text),
            _ => false,
        });
        (path.is_dir() && (event || log.contains("was gone"))).then_some(())
    });
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}
