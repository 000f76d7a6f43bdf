//! S-1, S-2, S-4: the folder that the agents of a session share, and what stands in its way (rel-1
//! to rel-5).

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use proto::event::Event;
use proto::request::{NewSession, Request};
use proto::response::Response;
use serde_json::json;
use tests::rehearsal::{bash, call, lead, say, script, start, worker};
use tests::wait::until;
use tests::{Client, Daemon, Sandbox, story};

fn plain(daemon: &Daemon) -> NewSession {
    daemon.rehearsal("normal", &script(&json!([lead(&json!([say("Hello.")]))])))
}

/// The folder of this user below the one for temporary files.
fn root(sandbox: &Sandbox) -> PathBuf {
    sandbox.at(&format!("t/claude-{}", rustix::process::getuid().as_raw()))
}

fn scratchpad(client: &mut Client, session: &str) -> PathBuf {
    until("the session has a scratchpad", || {
        client.show(session).0.scratchpad.filter(|it| !it.is_empty()).map(PathBuf::from)
    })
}

fn listed(client: &mut Client, session: &str) -> Vec<String> {
    match client.ok(Request::ScratchpadList { session: session.into() }) {
        Response::Files { files, .. } => files.into_iter().map(|file| file.path).collect(),
        other => panic!("{other:?}"),
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

/// Every character of the working directory that is neither a letter nor a digit is a dash, as
/// Claude Code has it.
fn sanitized(path: &Path) -> String {
    let text = path.to_str().unwrap();
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[test]
fn s1_it_is_where_claude_code_has_it_and_closed() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.new_session(plain(&daemon));
    let path = scratchpad(&mut client, &session.id);
    let above = root(&daemon).join(sanitized(&daemon.work())).join(&session.id);
    assert_eq!(path, above.join("scratchpad"));
    for folder in [&path, &above, above.parent().unwrap(), &root(&daemon)] {
        assert_eq!(mode(folder), 0o700, "{folder:?}");
    }
}

#[test]
fn s2_agents_are_told_and_need_no_approval_there() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let write = json!({ "name": "Write", "input": { "file_path": "{{scratchpad}}/found.md", "content": "[HIGH] x" } });
    let steps = json!([
        call("Where?", &json!([bash("echo \"it is $COORDD_SCRATCHPAD.\"")])),
        call("There.", &json!([write])),
        say("Noted in {{scratchpad}}.")
    ]);
    let lead_steps = json!([
        call("I send one.", &json!([start("w", "write down what you find in {{scratchpad}}")])),
        { "needs": ["w"], "text": "{{result:w}}" }
    ]);
    let mut new =
        daemon.rehearsal("coordinator", &script(&json!([lead(&lead_steps), worker(&steps)])));
    // In this mode every other edit would be asked for.
    new.permissions.mode = "default".into();
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    let session = client.new_session(new).name;
    let path = scratchpad(&mut client, &session);
    let view = client.agent_until(&format!("{session}/w"), "is done", |agent| agent.runs == 1);
    assert_eq!(view.last.unwrap().result, format!("Noted in {}.", path.display()));
    let entries = client.transcript(&format!("{session}/w"));
    let results = story::results(&entries);
    assert!(results[0].0.contains(&format!("it is {}.", path.display())), "{results:?}");
    assert_eq!(fs::read_to_string(path.join("found.md")).unwrap(), "[HIGH] x");

    assert_eq!(listed(&mut client, &session), ["found.md"]);
    let shown = daemon.coordctl(&["scratchpad", "show", &session, "found.md"]);
    assert!(shown.code == 0 && shown.stdout.starts_with("[HIGH] x"), "{shown:?}");
    let ls = daemon.coordctl(&["scratchpad", "ls", &session]);
    assert!(ls.code == 0 && ls.stdout.contains("found.md"), "{ls:?}");
    let shown = daemon.coordctl(&["scratchpad", "path", &session]);
    assert_eq!(shown.stdout.trim(), path.to_str().unwrap());
}

#[test]
fn s2_a_session_without_one_has_none() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([
        call("Where?", &json!([bash("echo \"it is ${COORDD_SCRATCHPAD-nowhere}.\"")])),
        say("So.")
    ]);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    (new.scratchpad, new.prompt) = (false, "go".into());
    new.permissions.allow = vec!["Bash".into()];
    let session = client.new_session(new);
    let lead = format!("{}/lead", session.name);
    client.agent_until(&lead, "is done", |agent| agent.runs == 1);
    let entries = client.transcript(&lead);
    assert!(story::results(&entries)[0].0.contains("it is nowhere."), "{entries:?}");
    assert_eq!(client.show(&session.id).0.scratchpad, None);
    assert!(!root(&daemon).exists());
    let error = client.denied(Request::ScratchpadList { session: session.id });
    assert!(error.message.contains("no scratchpad"), "{error:?}");
}

#[test]
fn s4_sessions_have_their_own_and_it_outlives_restarts() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let [one, other] = [(); 2].map(|()| client.new_session(plain(&daemon)).id);
    let [path, other_path] = [&one, &other].map(|it| scratchpad(&mut client, it));
    assert_ne!(path, other_path);
    fs::write(path.join("kept.md"), "kept").unwrap();
    assert_eq!(listed(&mut client, &other), Vec::<String>::new());
    daemon.kill9();
    daemon.restart();
    let mut client = daemon.client();
    assert_eq!(scratchpad(&mut client, &one), path);
    assert_eq!(fs::read_to_string(path.join("kept.md")).unwrap(), "kept");
    until("it is held again", || {
        let list = Request::ScratchpadList { session: one.clone() };
        matches!(client.call(list), proto::Outcome::Ok(_)).then_some(())
    });
    assert_eq!(listed(&mut client, &one), ["kept.md"]);
    client.ok(Request::SessionRemove { session: one, force: true });
    assert!(!path.exists() && other_path.exists(), "it goes with its session alone");
}

/// rel-4: nothing that an agent puts there leads the daemon out of it.
#[test]
fn rel4_links_in_it_are_not_followed() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.new_session(plain(&daemon)).id;
    let path = scratchpad(&mut client, &session);
    let secret = daemon.write("h/secret", "secret");
    symlink(&secret, path.join("link")).unwrap();
    symlink(daemon.at("h"), path.join("folder")).unwrap();
    fs::hard_link(&secret, path.join("hard")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path.join("fifo"), rustix::fs::Mode::RWXU).unwrap();
    for name in ["link", "folder/secret", "hard", "fifo", "../scratchpad/x", "/etc/passwd", "."] {
        let request = Request::ScratchpadShow { session: session.clone(), path: name.into() };
        let error = client.denied(request);
        assert!(!error.message.contains("secret\n"), "{name}: {error:?}");
    }
    assert!(!listed(&mut client, &session).iter().any(|it| it.contains("secret")));
}

/// rel-5: removal removes links, never what they lead to.
#[test]
fn rel5_removal_does_not_follow_links() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.new_session(plain(&daemon)).id;
    let path = scratchpad(&mut client, &session);
    let canary = daemon.write("h/outside/canary", "alive");
    symlink(daemon.at("h/outside"), path.join("out")).unwrap();
    fs::create_dir(path.join("deep")).unwrap();
    symlink("/", path.join("deep/root")).unwrap();
    client.ok(Request::SessionRemove { session, force: true });
    assert!(!path.exists());
    assert_eq!(fs::read_to_string(canary).unwrap(), "alive");
}

/// What comes of a new session where something stands in the way: none is made, and what is wrong
/// is said.
fn refused(plant: impl Fn(&Path)) -> (Daemon, String) {
    let sandbox = Sandbox::new();
    plant(&root(&sandbox));
    let daemon = Daemon::start_in(sandbox);
    let new = ["new", "--name", "x", "--model", "rehearsal"];
    let made = daemon.coordctl(&new);
    assert_eq!((made.code, made.stdout.as_str()), (1, ""), "{made:?}");
    assert!(made.stderr.contains("no scratchpad can be created"), "{made:?}");
    assert!(made.stderr.contains("CLAUDE_CODE_TMPDIR"), "what to do: {made:?}");
    assert_eq!(daemon.client().sessions(), []);
    // The way out that it names is one.
    assert!(made.stderr.contains("--no-scratchpad"), "{made:?}");
    let made_without = daemon.coordctl(&[&new[..], &["--no-scratchpad"]].concat());
    assert_eq!(made_without.code, 0, "{made_without:?}");
    (daemon, made.stderr)
}

#[test]
fn rel1_a_planted_symlink_is_refused_and_not_followed() {
    let target = tempfile::tempdir().unwrap();
    let (daemon, said) = refused(|root| symlink(target.path(), root).unwrap());
    assert!(said.contains("is a symbolic link"), "{said}");
    assert_eq!(target.path().read_dir().unwrap().count(), 0);
    assert!(root(&daemon).is_symlink());
}

#[test]
fn rel1_a_file_in_the_way_is_refused() {
    let (daemon, said) = refused(|root| fs::write(root, "precious").unwrap());
    assert!(said.contains("move it out of the way"), "{said}");
    assert_eq!(fs::read_to_string(root(&daemon)).unwrap(), "precious");
}

#[test]
fn rel1_a_folder_of_somebody_else_is_refused() {
    let (daemon, said) = refused(|root| {
        fs::create_dir(root).unwrap();
        fs::set_permissions(root, Permissions::from_mode(0o700)).unwrap();
        let chown = |command: &mut std::process::Command| {
            command.arg("65534").arg(root).status().is_ok_and(|status| status.success())
        };
        let given = chown(&mut std::process::Command::new("chown"))
            || chown(std::process::Command::new("sudo").args(["-n", "chown"]));
        assert!(given, "this test gives a folder away, as root or through sudo");
    });
    assert!(said.contains("belongs to user 65534"), "{said}");
    let mut inside = root(&daemon).read_dir().unwrap();
    assert!(inside.next().is_none(), "nothing was put into it");
}

/// rel-2: a folder of ours that stood open is closed, and what others could have put there is set
/// aside.
#[test]
fn rel2_an_open_folder_of_ours_is_closed_and_its_content_set_aside() {
    let victim = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new();
    let planted = root(&sandbox).join(sanitized(&sandbox.work()));
    fs::create_dir(root(&sandbox)).unwrap();
    symlink(victim.path(), &planted).unwrap();
    fs::set_permissions(root(&sandbox), Permissions::from_mode(0o777)).unwrap();
    let daemon = Daemon::start_in(sandbox);
    let mut client = daemon.client();
    client.subscribe("");
    let session = client.new_session(plain(&daemon));
    let warning = client.event("a warning", |event| match event {
        Event::Warning { text } => Some(text.clone()),
        _ => None,
    });
    assert!(warning.contains("was open to other users"), "{warning}");
    let path = scratchpad(&mut client, &session.id);
    assert_eq!(mode(&root(&daemon)), 0o700);
    assert_eq!(victim.path().read_dir().unwrap().count(), 0, "nothing was followed");
    assert!(path.is_dir() && !planted.is_symlink());
    let aside = root(&daemon).read_dir().unwrap().flatten();
    assert!(aside.map(|it| it.file_name()).any(|it| it.to_string_lossy().contains(".quarantine")));
}

/// rel-3: exchanged while the session lives, it is noticed, and nothing is put into what took its
/// place.
#[test]
fn rel3_an_exchanged_folder_is_noticed() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.new_session(plain(&daemon));
    let path = scratchpad(&mut client, &session.id);
    fs::write(path.join("ours.md"), "ours").unwrap();
    fs::rename(&path, path.with_file_name("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    fs::write(path.join("theirs.md"), "theirs").unwrap();
    // By what is held, never by what the path has become.
    let seen = client
        .call(Request::ScratchpadShow { session: session.id.clone(), path: "theirs.md".into() });
    assert!(matches!(seen, proto::Outcome::Error(_)), "{seen:?}");
    client.subscribe(&session.id);
    client.ok(Request::SessionResume {
        session: session.id,
        env: std::collections::BTreeMap::new(),
        mode_variable: None,
    });
    let warning = client.event("a warning", |event| match event {
        Event::Warning { text } => Some(text.clone()),
        _ => None,
    });
    assert!(warning.contains("no longer the folder"), "{warning}");
}

/// rel-7: a cleaner has removed it; the next use makes a new one, and says that what was in it is
/// lost.
#[test]
fn rel7_a_removed_one_is_made_again_and_that_is_said() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let session = client.new_session(plain(&daemon));
    let path = scratchpad(&mut client, &session.id);
    fs::remove_dir_all(root(&daemon)).unwrap();
    client.subscribe(&session.id);
    client.ok(Request::SessionResume {
        session: session.id.clone(),
        env: std::collections::BTreeMap::new(),
        mode_variable: None,
    });
    let warning = client.event("a warning", |event| match event {
        Event::Warning { text } => Some(text.clone()),
        _ => None,
    });
    assert!(warning.contains("was gone"), "{warning}");
    assert!(path.is_dir());
    assert_eq!(listed(&mut client, &session.id), Vec::<String>::new());
}
