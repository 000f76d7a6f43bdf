//! fR5 to fR10: what coordd has put into the file system is looked at again, and made anew, or what is lost is said.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proto::entry::Origin;
use proto::request::Request;
use proto::response::Response;
use rustix::process::Signal;
use serde_json::json;
use tests::agents::Agents;
use tests::processes::Process;
use tests::rehearsal::{lead, say, script};
use tests::sandbox::program;
use tests::wait::{CONDITION_LIMIT, until};
use tests::{Daemon, Sandbox};

/// A removal is heard at once; the rest is for a busy machine.
const ANEW_LIMIT: Duration = Duration::from_secs(4);
/// How often each is removed: what goes before it is watched again is hit by one round in four.
const ROUNDS: usize = 5;

/// How something goes away, in words, and the doing of it with the folder that it is about.
type Way = (&'static str, fn(&Path));

fn plain(daemon: &Daemon) -> proto::request::NewSession {
    daemon.rehearsal("normal", &script(&json!([lead(&json!([say("Hello.")]))])))
}

fn inode(path: &Path) -> Option<u64> {
    path.symlink_metadata().ok().map(|it| it.ino())
}

/// Waits until the socket is there again, and says how long that took.
fn until_anew(daemon: &Daemon, before: Option<u64>) -> Duration {
    let begun = Instant::now();
    until("the socket is there again", || {
        let is_new = inode(&daemon.socket()) != before;
        (is_new && UnixStream::connect(daemon.socket()).is_ok()).then_some(())
    });
    begun.elapsed()
}

/// What a logout does, in the ways in which it can happen. Clients find the same daemon, who is connected stays, and agents that
/// come back find it too.
#[test]
fn fr5_a_socket_that_is_gone_is_made_anew_at_once() {
    let (daemon, mut agents) = Agents::start();
    let mut client = daemon.client();
    let mut lead = agents.lead(&daemon, "coordinator");
    let folder = daemon.socket().parent().unwrap().to_owned();
    let ways: [Way; 4] = [
        ("the socket", |folder| fs::remove_file(folder.join("coordd.sock")).unwrap()),
        ("its folder", |folder| fs::remove_dir_all(folder).unwrap()),
        ("its folder is moved away", |folder| {
            fs::rename(folder, folder.with_file_name("aside")).unwrap();
        }),
        ("another file in its place", |folder| {
            fs::remove_file(folder.join("coordd.sock")).unwrap();
            fs::write(folder.join("coordd.sock"), "").unwrap();
        }),
    ];
    for (what, remove) in ways {
        let before = inode(&daemon.socket());
        remove(&folder);
        if !daemon.socket().exists() {
            let ran = daemon.coordctl(&["ls", "--json"]);
            assert_eq!(ran.code, 0, "{what}: whoever asks meanwhile is served, too: {ran:?}");
        }
        let took = until_anew(&daemon, before);
        assert!(took < ANEW_LIMIT, "{what}: {took:?}");
        assert_eq!(daemon.client().welcome().pid, daemon.pid(), "{what}: it is the same daemon");
        assert_eq!(client.ok(Request::Ping {}), Response::Done {}, "{what}: who was there stays");
        lead.disconnect();
        lead.reconnect(&daemon);
        let second = daemon.coordctl(&["daemon", "start"]);
        assert!(
            second.code == 0 && second.said().contains("already running"),
            "{what}: {second:?}"
        );
        let _aside = fs::remove_dir_all(folder.with_file_name("aside"));
    }
    let doctor = daemon.coordctl(&["doctor"]);
    assert!(doctor.stdout.contains(&format!("runs (pid {})", daemon.pid())), "{doctor:?}");
    let stopped = daemon.coordctl(&["daemon", "stop"]);
    assert!(stopped.said().contains("has stopped"), "{stopped:?}");
    assert!(!daemon.socket().exists(), "an orderly end takes its own socket away");
}

/// A daemon that cannot listen where it should is found by its lock: it is told of, and can be ended and replaced.
#[test]
fn fr5_a_daemon_whose_socket_is_gone_is_found_by_its_lock() {
    let mut daemon = Daemon::start();
    let process = Process::open(daemon.pid()).unwrap();
    let frozen = |daemon: &Daemon| {
        // It can do nothing about it.
        Process::open(daemon.pid()).unwrap().signal(Signal::STOP);
        fs::remove_file(daemon.socket()).unwrap();
    };
    frozen(&daemon);
    let pid = format!("(pid {})", daemon.pid());
    for (arguments, code) in [(["doctor"].as_slice(), 1), (&["daemon", "status"], 4), (&["ls"], 4)]
    {
        let ran = daemon.coordctl(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        let said = ran.said();
        assert!(said.contains(&pid) && said.contains("does not listen"), "{arguments:?}: {ran:?}");
        assert!(said.contains("coordctl daemon restart"), "{arguments:?}: {ran:?}");
    }
    let restarted = daemon.coordctl(&["daemon", "restart"]);
    assert_eq!(restarted.code, 0, "{restarted:?}");
    assert!(!process.runs(), "the one that was stuck is gone");
    let pid = daemon.client().welcome().pid;
    assert_ne!(pid, daemon.pid());
    daemon.kill9();
    let next = Process::open(pid).unwrap();
    // It is not told to end, but by its lock.
    block(&daemon);
    let stopped = daemon.coordctl(&["daemon", "stop"]);
    assert!(stopped.code == 0 && stopped.said().contains("has stopped"), "{stopped:?}");
    assert!(!next.runs());
}

/// Puts something in the way that a daemon must not remove, and waits until it has said so.
fn block(daemon: &Daemon) {
    let mut client = daemon.client();
    fs::remove_file(daemon.socket()).unwrap();
    fs::create_dir(daemon.socket()).unwrap();
    until("it is said", || {
        let Response::Daemon { daemon } = client.ok(Request::DaemonStatus {}) else { panic!() };
        daemon.degraded.iter().any(|it| it.contains("clients do not find coordd")).then_some(())
    });
}

/// What was in the way and is said is no longer said when it is gone.
#[test]
fn fr5_what_is_in_the_way_is_said_until_it_is_gone() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    block(&daemon);
    let kept = daemon.socket().join("of somebody");
    fs::write(&kept, "x").unwrap();
    assert!(kept.exists());
    fs::remove_dir_all(daemon.socket()).unwrap();
    until("clients find it again", || daemon.coordctl(&["ls"]).code.eq(&0).then_some(()));
    let Response::Daemon { daemon } = client.ok(Request::DaemonStatus {}) else { panic!() };
    assert!(daemon.degraded.is_empty(), "{:?}", daemon.degraded);
}

/// The runtime folder is moved away and somebody else serves there: the first one, which cannot know in time, ends, and what the
/// other one made stays.
#[test]
fn fr6_the_socket_of_a_successor_stays() {
    let mut daemon = Daemon::start();
    let folder = daemon.socket().parent().unwrap().to_owned();
    let process = Process::open(daemon.pid()).unwrap();
    process.signal(Signal::STOP);
    fs::rename(&folder, folder.with_file_name("aside")).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let _theirs = UnixListener::bind(daemon.socket()).unwrap();
    let before = inode(&daemon.socket());
    process.signal(Signal::CONT);
    assert!(daemon.stop().success());
    assert_eq!(inode(&daemon.socket()), before, "the other one's socket");
    assert!(!folder.with_file_name("aside").join("coordd.sock").exists(), "its own is gone");
}

/// The state folder, or the store alone, removed or moved away: nothing is accepted any more, everybody is told, the daemon ends,
/// and the next one says so.
#[test]
fn fr8_what_no_later_start_would_find_is_not_accepted() {
    let ways: [Way; 4] = [
        ("the folder", |state| fs::remove_dir_all(state).unwrap()),
        ("the folder is moved away", |state| {
            fs::rename(state, state.with_file_name("aside")).unwrap();
        }),
        ("the store", |state| fs::remove_file(state.join("coordd.db")).unwrap()),
        ("its log", |state| fs::remove_file(state.join("coordd.db-wal")).unwrap()),
    ];
    for (what, remove) in ways {
        let daemon = Daemon::start();
        let mut client = daemon.client();
        let kept = client.new_session(plain(&daemon)).name;
        let process = Process::open(daemon.pid()).unwrap();
        let new = plain(&daemon);
        remove(&daemon.state());
        // On a connection that was there before: no other daemon can have answered.
        let call = client.start_call(Request::SessionNew { session: Box::new(new) }, None);
        assert_eq!(client.reply_within(call, CONDITION_LIMIT), None, "{what}: it is not accepted");
        let refused = client.closed_within(CONDITION_LIMIT).expect("a reason");
        assert!(refused.message.contains("coordd ends"), "{what}: {refused:?}");
        assert!(refused.message.contains("removed, moved or replaced"), "{what}: {refused:?}");
        until("the daemon ends", || (!process.runs()).then_some(()));
        assert!(daemon.log_text().contains("coordd ends"), "{what}");
        // Whoever starts the next one is told, and so is whoever asks later.
        let next = daemon.coordctl(&["ls"]);
        assert_eq!(next.code, 0, "{what}: {next:?}");
        assert!(
            next.stderr.contains("warning: the coordd before this one ended"),
            "{what}: {next:?}"
        );
        let doctor = daemon.coordctl(&["doctor"]);
        assert_eq!(doctor.code, 1, "{what}: {doctor:?}");
        assert!(doctor.stdout.contains("may be lost"), "{what}: {doctor:?}");
        assert!(doctor.stdout.contains(&kept), "{what}: {doctor:?}");
        assert_eq!(daemon.coordctl(&["daemon", "restart"]).code, 0);
        let ls = daemon.coordctl(&["ls"]);
        assert!(!ls.stderr.contains("ended at"), "{what}: it is said once: {ls:?}");
        assert_eq!(daemon.coordctl(&["daemon", "stop"]).code, 0);
    }
}

/// The lock alone is made anew, and keeps others out again.
#[test]
fn fr8_the_lock_of_the_state_folder_is_taken_again() {
    let daemon = Daemon::start();
    let lock = daemon.state().join("coordd.lock");
    let before = inode(&lock);
    fs::remove_file(&lock).unwrap();
    until("it is there again", || {
        let found = inode(&lock);
        (found.is_some() && found != before).then_some(())
    });
    assert_eq!(daemon.client().ok(Request::Ping {}), Response::Done {});
}

/// The entry of coordd's only session in Claude Code's list, once it is there, and its socket.
fn listed(daemon: &Daemon) -> (PathBuf, PathBuf) {
    until("the session is listed", || {
        let files = fs::read_dir(daemon.at("h/.claude/sessions")).ok()?;
        let mut files = files.flatten().map(|it| it.path());
        // Not one that is being written under another name.
        let is_number =
            |it: &Path| it.file_stem().unwrap().to_str().unwrap().parse::<u64>().is_ok();
        let is_entry = |it: &Path| is_number(it) && it.extension().is_some_and(|it| it == "json");
        let entry = files.find(|it| is_entry(it))?;
        let text: serde_json::Value = serde_json::from_slice(&fs::read(&entry).ok()?).ok()?;
        Some((entry, PathBuf::from(text["messagingSocketPath"].as_str()?)))
    })
}

/// What other programs see of a session: its socket and its entry with the secret, and the folders of both.
#[test]
fn fr5_what_others_see_of_a_session_is_made_anew() {
    let daemon = Daemon::start();
    let _session = daemon.client().new_session(plain(&daemon));
    let (entry, socket) = listed(&daemon);
    let removals: [(&str, &dyn Fn()); 6] = [
        ("the socket", &|| fs::remove_file(&socket).unwrap()),
        // The daemon may still be making a socket in it.
        ("the folder of the sockets", &|| {
            until("the folder is removed", || fs::remove_dir_all(socket.parent().unwrap()).ok());
        }),
        ("the folder of the sockets is moved away", &|| {
            let _earlier = fs::remove_dir_all(daemon.at("r/aside"));
            until("the folder is moved away", || {
                fs::rename(socket.parent().unwrap(), daemon.at("r/aside")).ok()
            });
        }),
        ("the entry", &|| fs::remove_file(&entry).unwrap()),
        ("the list", &|| {
            until("the list is removed", || fs::remove_dir_all(entry.parent().unwrap()).ok());
        }),
        ("the secret", &|| {
            let files = fs::read_dir(entry.parent().unwrap()).unwrap().flatten();
            let keys = files.map(|it| it.path()).filter(|it| it.extension().unwrap() == "key");
            keys.for_each(|key| fs::remove_file(key).unwrap());
        }),
    ];
    let keys = || {
        let files = fs::read_dir(entry.parent().unwrap()).into_iter().flatten().flatten();
        files.filter(|it| it.path().extension().is_some_and(|it| it == "key")).count()
    };
    for (what, remove) in (0..ROUNDS).flat_map(|_| removals) {
        let begun = Instant::now();
        remove();
        until(what, || {
            let is_whole = entry.exists() && keys() == 1 && UnixStream::connect(&socket).is_ok();
            is_whole.then_some(())
        });
        let took = begun.elapsed();
        assert!(took < ANEW_LIMIT, "{what}: {took:?}");
        assert_eq!(listed(&daemon), (entry.clone(), socket.clone()), "{what}: addresses stay");
    }
    daemon.stop_and_leave_nothing();
}

/// fR6: a socket that somebody else serves by now in the place of a session's stays, and what another program has written there.
#[test]
fn fr6_what_others_put_in_place_of_a_sessions_socket_stays() {
    let mut daemon = Daemon::start();
    let _session = daemon.client().new_session(plain(&daemon));
    let (entry, socket) = listed(&daemon);
    let process = Process::open(daemon.pid()).unwrap();
    process.signal(Signal::STOP);
    fs::remove_file(&socket).unwrap();
    let _theirs = UnixListener::bind(&socket).unwrap();
    let before = inode(&socket);
    let foreign = r#"{"pid":1,"messagingSocketPath":"/nowhere","sessionId":"theirs"}"#;
    fs::write(&entry, foreign).unwrap();
    process.signal(Signal::CONT);
    assert!(daemon.stop().success());
    assert_eq!(inode(&socket), before);
    assert_eq!(fs::read_to_string(&entry).unwrap(), foreign);
}

/// fR10: in each way in which a scratchpad can be lost it is there again, and its agents are told by coordd.
#[test]
fn fr10_agents_are_told_that_their_scratchpad_is_lost() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let mut worker = agents.worker(&daemon, &mut lead, "w");
    let path = until("there is a scratchpad", || {
        let path = daemon.client().sessions()[0].scratchpad.clone();
        path.filter(|it| !it.is_empty()).map(PathBuf::from)
    });
    let ways: [Way; 3] = [
        ("removed", |path| fs::remove_dir_all(path).unwrap()),
        ("removed with all above it", |path| {
            fs::remove_dir_all(path.ancestors().nth(3).unwrap()).unwrap();
        }),
        ("moved away", |path| fs::rename(path, path.with_file_name("aside")).unwrap()),
    ];
    for (what, remove) in ways {
        fs::write(path.join("notes.md"), "x").unwrap();
        remove(&path);
        for agent in [&mut lead, &mut worker] {
            let told = agent.deliver();
            assert!(matches!(told.origin, Origin::System { .. }), "{what}: {told:?}");
            let said = path.display().to_string();
            assert!(told.text.contains(&said) && told.text.contains("is gone"), "{what}: {told:?}");
            agent.acknowledge(&[&told.message], 1);
        }
        assert!(path.is_dir() && !path.join("notes.md").exists(), "{what}: it is there, empty");
    }
    // One file that goes is the agents' own business; all at once is not.
    let write = || ["a", "b"].map(|name| fs::write(path.join(name), "x").unwrap());
    write();
    fs::remove_file(path.join("a")).unwrap();
    std::thread::sleep(LOOKS);
    fs::remove_file(path.join("b")).unwrap();
    std::thread::sleep(LOOKS);
    lead.assert_nothing_comes();
    write();
    std::thread::sleep(LOOKS);
    for name in ["a", "b"] {
        fs::remove_file(path.join(name)).unwrap();
    }
    assert!(lead.deliver().text.contains("is gone"));
}

/// More than the time between two looks: what is not watched is seen by then.
const LOOKS: Duration = Duration::from_millis(5_500);

/// fR10: what cannot be mended is said until it is: another folder, or a link, where the scratchpad was.
#[test]
fn fr10_a_scratchpad_that_cannot_be_relied_on_is_said_until_it_can() {
    let (daemon, mut agents) = Agents::start();
    let _lead = agents.lead(&daemon, "coordinator");
    let path = until("there is a scratchpad", || {
        let path = daemon.client().sessions()[0].scratchpad.clone();
        path.filter(|it| !it.is_empty() && Path::new(it).is_dir()).map(PathBuf::from)
    });
    let aside = path.with_file_name("aside");
    fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(daemon.work(), &path).unwrap();
    let is_said = || {
        let doctor = daemon.coordctl(&["doctor"]);
        doctor.stdout.contains("cannot rely on their scratchpad")
    };
    until("it is said", || is_said().then_some(()));
    assert!(path.is_symlink(), "it is somebody's, and stays");
    fs::remove_file(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    until("it is well again", || (!is_said()).then_some(()));
}

/// fR10: an update replaces the programs on the disk, and what runs is still the old one.
#[test]
fn fr10_doctor_tells_that_the_program_that_runs_was_replaced() {
    let mut sandbox = Sandbox::new();
    fs::create_dir(sandbox.at("bin")).unwrap();
    for name in ["coordd", "coordd-worker"] {
        let own = sandbox.at(&format!("bin/{name}"));
        fs::copy(program(name), &own).unwrap();
        let variable = if name == "coordd" { "COORDD_BIN" } else { "COORDD_WORKER" };
        sandbox.set(variable, own.to_str().unwrap());
    }
    let run = |arguments: &[&str]| sandbox.coordctl(arguments);
    let new = run(&["new", "--name", "dates", "--mode", "normal", "--model", "rehearsal", "go"]);
    assert_eq!(new.code, 0, "{new:?}");
    assert_eq!(run(&["wait", "dates"]).code, 0);
    let doctor = run(&["doctor"]);
    assert!(doctor.stdout.contains("coordd is the one on the disk"), "{doctor:?}");
    assert!(!doctor.stdout.contains("another coordd-worker"), "{doctor:?}");
    for name in ["coordd", "coordd-worker"] {
        // As an installer does: another file under the same name.
        let (own, next) = (sandbox.at(&format!("bin/{name}")), sandbox.at("bin/next"));
        fs::copy(&own, &next).unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&next).unwrap();
        std::io::Write::write_all(&mut file, b"a later build").unwrap();
        drop(file);
        fs::rename(&next, &own).unwrap();
    }
    let doctor = run(&["doctor"]);
    assert!(doctor.stdout.contains("is not the one on the disk"), "{doctor:?}");
    assert!(
        doctor.stdout.contains("1 agent with a process of another coordd-worker"),
        "{doctor:?}"
    );
    assert_eq!(run(&["daemon", "restart"]).code, 0);
    let doctor = run(&["doctor"]);
    assert!(doctor.stdout.contains("coordd is the one on the disk"), "{doctor:?}");
    assert_eq!(run(&["daemon", "stop"]).code, 0);
}
