//! Nothing left to give: a full disk (rel-44) and no descriptors (rel-45). Said, survived,
//! recovered from.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use proto::Outcome;
use proto::error::ErrorCode;
use proto::event::Event;
use proto::message::{Body, SendResult};
use proto::request::{NewAgent, Request};
use proto::response::Response;
use tests::agents::Agents;
use tests::wait::{until, until_within};
use tests::{Client, Daemon, Sandbox};

/// The daemon looks once a second whether there is space again.
const RECOVERY_LIMIT: Duration = Duration::from_secs(5);

/// A small disk in a mount namespace of its own, for the state folder. It is gone with the process
/// that holds it.
struct SmallDisk {
    holder: Child,
    path: PathBuf,
    through: Vec<String>,
}

impl SmallDisk {
    fn mount(sandbox: &Sandbox, size: &str) -> Self {
        let root = rustix::process::getuid().is_root();
        let mut command = sandbox.command("unshare");
        command.args(if root { ["--mount"].as_slice() } else { &["--map-root-user", "--mount"] });
        let script =
            "mount -t tmpfs -o mode=700,size=$1 coordd \"$0\" && touch \"$0/.mounted\" && exec cat";
        let mounted = sandbox.state();
        fs::create_dir(&mounted).unwrap();
        command.args(["sh", "-c", script]).arg(&mounted).arg(size);
        let holder = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = holder.id();
        let path = PathBuf::from(format!("/proc/{pid}/root{}", mounted.display()));
        until("the disk is mounted", || path.join(".mounted").exists().then_some(()));
        let mut through = vec!["nsenter".to_owned(), format!("--mount=/proc/{pid}/ns/mnt")];
        if !root {
            through
                .extend([format!("--user=/proc/{pid}/ns/user"), "--preserve-credentials".into()]);
        }
        Self { holder, path, through }
    }

    fn start(&self, sandbox: Sandbox) -> Daemon {
        let through: Vec<_> = self.through.iter().map(String::as_str).collect();
        Daemon::start_through(sandbox, &through)
    }

    /// To the last byte.
    fn fill(&self) {
        let mut file = File::create(self.path.join("filler")).unwrap();
        for piece in [vec![1; 64 * 1024], vec![1; 512]] {
            loop {
                match file.write_all(&piece) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn free(&self) {
        fs::remove_file(self.path.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _reaped = self.holder.wait();
    }
}

fn degraded(client: &mut Client) -> Vec<String> {
    match client.ok(Request::DaemonStatus {}) {
        Response::Daemon { daemon } => daemon.degraded,
        other => panic!("{other:?}"),
    }
}

/// Sends to `session/agent`.
fn send(client: &mut Client, to: &str, text: &str) -> Result<(), ErrorCode> {
    let (session, to) = to.split_once('/').unwrap();
    let (session, to, body) = (session.into(), to.into(), Body::Text { text: text.into() });
    match client.call(Request::Send {
        session,
        to,
        body,
        summary: String::new(),
        notify_when_idle: false,
    }) {
        Outcome::Ok(response) => {
            let Response::Sent { results } = *response else { panic!("{response:?}") };
            assert!(matches!(results.as_slice(), [SendResult::Accepted { .. }]), "{results:?}");
            Ok(())
        }
        Outcome::Error(error) => Err(error.code),
    }
}

/// Sends until it is refused, and checks for what reason. Returns what was accepted.
fn send_until_full(client: &mut Client, to: &str, accepted: &mut Vec<String>) {
    for _ in 0..500 {
        let text = format!("message {} {}", accepted.len(), "x".repeat(3_000));
        match send(client, to, &text) {
            Ok(()) => accepted.push(text),
            Err(code) => return assert_eq!(code, ErrorCode::DiskFull),
        }
    }
    panic!("a full disk takes everything");
}

/// rel-44, A30. The stand-ins' processes and the test are in other mount namespaces than the
/// daemon: what is asked goes through the socket alone.
#[test]
fn rel44_a_full_disk_refuses_what_grows_and_nothing_else() {
    let mut sandbox = Sandbox::new();
    let disk = SmallDisk::mount(&sandbox, "16m");
    let mut agents = Agents::set_up(&mut sandbox);
    let mut daemon = disk.start(sandbox);
    let mut client = daemon.client();
    client.subscribe("");
    let mut lead = agents.lead(&daemon, "coordinator");
    let mut w = agents.worker(&daemon, &mut lead, "w");
    let mut idle = agents.worker(&daemon, &mut lead, "idle");
    let session = lead.boot.session.clone();
    let to = format!("{session}/w");
    assert_eq!(degraded(&mut client), Vec::<String>::new());
    assert_eq!(fs::metadata(disk.path.join("reserve")).unwrap().len(), 4 << 20);

    disk.fill();
    let mut accepted = Vec::new();
    send_until_full(&mut client, &to, &mut accepted);
    // What fitted only by what was kept for it was accepted, and is handed over.
    let mut got: Vec<_> = accepted.iter().map(|_| w.deliver()).collect();
    assert!(!disk.path.join("reserve").exists());
    client.event("that the disk is full", |event| match event {
        Event::Warning { text } if text.contains("full") => Some(()),
        _ => None,
    });
    assert!(degraded(&mut client).iter().any(|it| it.contains("full")));
    let doctor = daemon.coordctl(&["doctor"]);
    assert!(doctor.code != 0 && doctor.stdout.contains("is full"), "{doctor:?}");
    let new = daemon.rehearsal("normal", &serde_json::json!({ "agents": [] }));
    for growing in [
        Request::SessionNew { session: Box::new(new) },
        Request::Prompt { session: session.clone(), agent: None, text: "no".into() },
    ] {
        assert_eq!(client.denied(growing).code, ErrorCode::DiskFull);
    }
    let another =
        Box::new(NewAgent { name: "b".into(), prompt: "p".into(), ..NewAgent::default() });
    assert_eq!(
        lead.client.denied(Request::AgentSpawn { agent: another }).code,
        ErrorCode::DiskFull
    );

    // Reading, acknowledging, ending and stopping go on.
    assert_eq!(client.sessions().len(), 1);
    let first = got.remove(0);
    w.acknowledge(&[&first.message], 1);
    idle.complete(1, "done on a full disk");
    let note = lead.deliver();
    assert!(note.text.contains("done on a full disk"), "{note:?}");
    lead.acknowledge(&[&note.message], 1);
    let stop = client.start_call(Request::AgentStop { agent: format!("{session}/idle") }, None);
    assert!(matches!(client.reply(stop), Outcome::Ok(_)));

    disk.free();
    let mut later = daemon.client();
    until_within(RECOVERY_LIMIT, "there is space again", || send(&mut later, &to, "after").ok());
    assert_eq!(degraded(&mut client), Vec::<String>::new());
    client.event("that there is space", |event| match event {
        Event::Warning { text } if text.contains("space on the disk again") => Some(()),
        _ => None,
    });
    assert_eq!(fs::metadata(disk.path.join("reserve")).unwrap().len(), 4 << 20);

    // Nothing that was accepted is lost, and a start on a full disk has what was kept for it.
    disk.fill();
    daemon.kill9();
    daemon.restart();
    w.reconnect(&daemon);
    for text in accepted.iter().skip(1).map(String::as_str).chain(["after"]) {
        let again = w.deliver();
        assert!(again.text.contains(text), "{text:.20}: {again:?}");
    }
    w.assert_nothing_comes();
    disk.free();
    until_within(RECOVERY_LIMIT, "there is space again", || {
        send(&mut daemon.client(), &to, "at last").ok()
    });
}

fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// rel-45: with no descriptor left it neither dies nor spins, and serves again as soon as there are
/// some.
#[test]
fn rel45_without_descriptors_it_rests_and_recovers() {
    const LOOK: Duration = Duration::from_secs(2);
    let daemon = Daemon::start_through(Sandbox::new(), &["prlimit", "--nofile=48:48"]);
    let mut bystander = daemon.client();
    let hello = b"{\"hello\":{}}\n";
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        stream.write_all(hello).unwrap();
        crowd.push(stream);
    }
    until("it has none left", || daemon.log_text().contains("accepting failed").then_some(()));
    let (before, begun) = (cpu_ticks(daemon.pid()), Instant::now());
    let mut asked = 0;
    while begun.elapsed() < LOOK {
        assert_eq!(bystander.ok(Request::Ping {}), Response::Done {});
        asked += 1;
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let used_ms = (cpu_ticks(daemon.pid()) - before) * 10;
    assert!(used_ms < 600, "it used {used_ms} ms of {LOOK:?} and answered {asked} times");
    drop(crowd);
    until("others are served", || {
        (daemon.client().ok(Request::Ping {}) == Response::Done {}).then_some(())
    });
    drop(bystander);
    daemon.stop_and_leave_nothing();
}
