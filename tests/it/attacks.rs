//! W-13: attacks on the walls around commands, with the box, with the fallback, and without. What got through is counted; with the box it
//! must be none.

mod rows;
mod work;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::request::Request;
use proto::response::Response;
use serde_json::{Value, json};
use tests::rehearsal::{bash, call, lead, say, script};
use tests::sandbox::Sandbox;
use tests::{Client, Daemon, story};

use self::rows::{HEAVY, ROWS};
use self::work::WORK;
use self::world::{SECRET, World};

/// A run of all rows takes a minute on a busy machine.
const LIMIT: Duration = Duration::from_mins(8);

/// Plays rows in a session, each as a call of its own. Returns what each printed, and how many questions there were.
fn play(
    world: &mut World,
    daemon: &Daemon,
    rows: &[(&str, &str)],
    change: impl FnOnce(&mut proto::request::NewSession),
) -> Played {
    let commands: Vec<String> =
        rows.iter().enumerate().map(|(number, row)| world.written(daemon, number, row.1)).collect();
    let steps: Vec<_> = commands
        .iter()
        .map(|command| {
            let mut tool = bash(command);
            tool["input"]["timeout"] = json!(20_000);
            call("next", &json!([tool]))
        })
        .chain([say("Done.")])
        .collect();
    let mut client = daemon.client();
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!(steps))])));
    new.permissions.sandbox.off = false;
    new.permissions.deny =
        ["Read(.env)", "Read(secrets/**)", "Read(~/private/**)"].map(str::to_owned).into();
    new.cwd = world.at("w").display().to_string();
    new.env.insert("HOME".into(), world.at("home").display().to_string());
    new.env.insert("ANTHROPIC_API_KEY".into(), SECRET.into());
    new.prompt = "go".into();
    change(&mut new);
    let lead = format!("{}/lead", client.new_session(new).name);
    let mut questions = 0;
    tests::wait::until_within(LIMIT, "the end of the rows", || {
        questions += allow_all(&mut client);
        (client.agent(&lead).runs == 1).then_some(())
    });
    let entries = client.transcript(&lead);
    let results = story::results(&entries);
    assert_eq!(results.len(), rows.len(), "each row has run");
    let texts = results.iter().enumerate().map(|(number, it)| (number, it.0.to_owned())).collect();
    let through = world.through(&commands, &texts);
    let through =
        through.into_iter().map(|it| format!("{}: {}\n{}", rows[it].0, commands[it], texts[&it]));
    let name = |text: String| text.split_once(':').map(|it| it.0.to_owned()).unwrap_or_default();
    let shown: Vec<String> = through.collect();
    Played {
        names: shown.iter().cloned().map(name).collect(),
        shown,
        questions,
        changed: world.changed(),
        texts,
    }
}

/// What came of a run of rows.
struct Played {
    /// The rows that got through.
    names: BTreeSet<String>,
    /// They, with what they printed.
    shown: Vec<String>,
    questions: usize,
    /// What each printed.
    texts: BTreeMap<usize, String>,
    /// Files of the user's that are not as they were.
    changed: Vec<&'static str>,
}

/// Says yes to everything. Returns how much that was.
fn allow_all(client: &mut Client) -> usize {
    let Response::Permissions { permissions } =
        client.ok(Request::PermissionList { session: String::new() })
    else {
        panic!("no list of questions")
    };
    let open: Vec<_> = permissions.into_iter().filter(|it| it.allowed.is_none()).collect();
    for it in &open {
        let answer = Request::PermissionAnswer {
            id: it.id.clone(),
            allow: true,
            always: false,
            reason: String::new(),
        };
        let _answered = client.call(answer);
    }
    open.len()
}

/// W-13: with the box nothing gets through, and nobody is asked.
#[test]
fn w13_nothing_gets_through_the_box() {
    let daemon = Daemon::start();
    let mut world = World::new();
    world.listen();
    let rows: Vec<_> = ROWS.iter().chain(HEAVY).copied().collect();
    assert!(rows.len() >= 120, "{} rows", rows.len());
    let played = play(&mut world, &daemon, &rows, |_| ());
    eprintln!("with the box: {} of {} rows got through", played.names.len(), rows.len());
    assert!(played.shown.is_empty(), "{:#?}", played.shown);
    assert_eq!(played.changed, [""; 0]);
    assert_eq!(played.questions, 0);
}

/// W-13: the same rows do what they say where nothing holds them, so that none is held by accident.
#[test]
fn w13_without_a_box_the_rows_do_what_they_say() {
    let daemon = Daemon::start();
    let mut world = World::new();
    world.listen();
    let rows = harmless();
    let played = play(&mut world, &daemon, &rows, |new| {
        new.permissions.sandbox.off = true;
        new.permissions.deny = Vec::new();
        "bypassPermissions".clone_into(&mut new.permissions.mode);
    });
    let count = played.names.len() + played.changed.len();
    eprintln!("without: {count} of {} rows got through", rows.len());
    let held: Vec<_> =
        rows.iter().map(|it| it.0).filter(|it| !played.names.contains(*it)).collect();
    eprintln!("held all the same: {held:#?}");
    assert!(count > rows.len() / 2, "{held:#?}");
}

/// W-13: with Landlock and seccomp alone, what is allowed is still fenced in: the user's files, keys and network are out of reach.
#[test]
fn w13_the_fallback_holds_what_it_says() {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let through = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"];
    let daemon = Daemon::start_through(Sandbox::new(), &through);
    let mut world = World::new();
    world.listen();
    let rows = harmless();
    let played =
        play(&mut world, &daemon, &rows, |new| new.permissions.allow = vec!["Bash".into()]);
    eprintln!(
        "with the fallback: {} of {} rows got through: {:#?}",
        played.names.len(),
        rows.len(),
        played.names
    );
    assert_eq!(played.changed, [""; 0]);
    let held = ["write ", "start-up", "ssh key", "cloud", "tcp", "udp", "a key over", "kill"];
    let wrong: Vec<_> =
        played.shown.iter().filter(|it| held.iter().any(|held| it.starts_with(held))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn harmless() -> Vec<(&'static str, &'static str)> {
    ROWS.iter().filter(|it| !it.0.starts_with('!')).copied().collect()
}

/// W-13, fP18: ordinary work goes through in acceptEdits, and nobody is asked.
#[test]
fn w13_fp18_ordinary_work_needs_no_question() {
    let daemon = Daemon::start();
    let mut world = World::new();
    let played = play(&mut world, &daemon, WORK, |_| ());
    assert_eq!(played.questions, 0);
    let failed: Vec<_> = played.texts.iter().filter(|it| !it.1.contains("went well")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// W-13: what commands put into their `/tmp` is read and edited by the file tools under the same name, without a question.
#[test]
fn w13_file_tools_and_commands_mean_the_same_tmp() {
    let daemon = Daemon::start();
    let name =
        format!("/tmp/{}", daemon.root().file_name().unwrap().to_str().unwrap().replace('.', "-"));
    let tool = |name: &str, input: Value| json!({ "name": name, "input": input });
    let steps = [
        bash(&format!("echo one > {name}; ln -s /etc/hostname {name}.link")),
        tool("Read", json!({ "file_path": name })),
        tool("Edit", json!({ "file_path": name, "old_string": "one", "new_string": "two" })),
        tool("Write", json!({ "file_path": format!("{name}.new"), "content": "three" })),
        bash(&format!("cat {name} {name}.new")),
        tool("Read", json!({ "file_path": format!("{name}.link") })),
    ];
    let steps: Vec<_> =
        steps.iter().map(|it| call("next", &json!([it]))).chain([say("Done.")]).collect();
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!(steps))])));
    new.permissions.sandbox.off = false;
    new.prompt = "go".into();
    let mut client = daemon.client();
    let lead = format!("{}/lead", client.new_session(new).name);
    client.agent_until(&lead, "has ended its run", |it| it.runs == 1);
    let entries = client.transcript(&lead);
    let results = story::results(&entries);
    assert!(results[1].0.contains("one"), "{results:?}");
    assert!(results[3].0.contains(&format!("{name}.new")), "its name in the box: {results:?}");
    assert_eq!(results[4].0, "two\nthree");
    assert!(results[5].1, "a link leads nowhere: {results:?}");
    assert!(
        !std::path::Path::new(&name).exists()
            && !std::path::Path::new(&format!("{name}.new")).exists()
    );
}
