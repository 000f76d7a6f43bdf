//! D-1, D-2, D-3, D-10: one daemon, its socket, both codecs, and what bad peers can do to it:
//! nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use proto::error::ErrorCode;
use proto::frame::{self, FRAME_LEN_MAX, PREAMBLE_LEN};
use proto::hello::{Credentials, Hello, PROTOCOL, REVISION};
use proto::request::Request;
use proto::response::Response;
use proto::{Call, ToDaemon};
use serde_json::{Value, json};
use tests::client::{Client, Codec};
use tests::sandbox::program;
use tests::wait::{CONDITION_LIMIT, until};
use tests::{Daemon, Ran, Sandbox};

/// A hello must come within 5 seconds (rel-81); the rest is for a busy machine.
const HELLO_LIMIT: Duration = Duration::from_secs(9);

fn hello(protocol: u32) -> Hello {
    Hello { protocol, program: "tests".into(), agent: None }
}

fn assert_served(daemon: &Daemon) {
    for codec in Codec::ALL {
        assert_eq!(daemon.client_in(codec).ok(Request::Ping {}), Response::Done {});
    }
}

fn mode(path: &std::path::Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn d2_socket_and_folder_are_closed_to_others() {
    let daemon = Daemon::start();
    assert_eq!(mode(&daemon.socket()), 0o600);
    assert_eq!(mode(daemon.socket().parent().unwrap()), 0o700);
    assert_eq!(mode(&daemon.state()), 0o700);
}

/// rel-11: even where the socket is open to all, nobody else gets a byte.
#[test]
fn d2_rel11_another_user_gets_nothing() {
    let daemon = Daemon::start();
    for path in [daemon.root().to_owned(), daemon.at("r"), daemon.at("r/coordd"), daemon.socket()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let ask = format!(
        "printf '{{\"hello\":{{}}}}\\n{{\"call\":{{\"id\":1,\"request\":{{\"ping\":{{}}}}}}}}\\n' | \
         timeout 8 nc -N -U '{}'; echo code $?",
        daemon.socket().display()
    );
    let own = daemon.shell(&ask);
    assert!(own.stdout.contains("\"done\""), "the question itself is right: {own:?}");
    let as_root = if rustix::process::getuid().is_root() { "" } else { "sudo -n " };
    let mut command = daemon.command("/bin/sh");
    let other = format!("{as_root}setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \"$0\"");
    command.args(["-c", &other, &ask]).current_dir("/");
    let other = Ran::of(command, "");
    assert!(other.stdout.starts_with("code "), "not a byte: {other:?}");
    assert!(!other.stdout.contains("124"), "closed at once: {other:?}");
    assert_served(&daemon);
}

#[test]
fn d1_rel22_a_second_daemon_says_so_and_leaves_the_first_alone() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let before = daemon.socket().metadata().unwrap().ino();
    let mut command = daemon.command(program("coordd"));
    command.arg("--foreground");
    let second = Ran::of(command, "");
    assert_eq!(second.code, 0, "{second:?}");
    assert!(second.said().contains("already running"), "{second:?}");
    assert_eq!(client.ok(Request::Ping {}), Response::Done {});
    assert_eq!(daemon.client().welcome().pid, daemon.pid());
    assert_eq!(daemon.socket().metadata().unwrap().ino(), before);
}

/// After a logout that an old daemon outlived the next login has another runtime folder, and the
/// same home.
#[test]
fn d1_rel22_two_runtime_folders_never_serve_one_state_folder() {
    let daemon = Daemon::start();
    let mut command = daemon.command(program("coordd"));
    let other = daemon.at("r2");
    std::fs::create_dir(&other).unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o700)).unwrap();
    command.arg("--foreground").env("XDG_RUNTIME_DIR", &other);
    let second = Ran::of(command, "");
    assert_eq!(second.code, 1, "{second:?}");
    assert!(
        second.said().contains("already running") && second.said().contains("COORDD_STATE_DIR"),
        "{second:?}"
    );
    assert_served(&daemon);
}

#[test]
fn d1_rel23_a_stale_socket_is_replaced() {
    let mut daemon = Daemon::start();
    let before = daemon.socket().metadata().unwrap().ino();
    let boot = daemon.client().welcome().boot.clone();
    daemon.kill9();
    assert_eq!(daemon.socket().metadata().unwrap().ino(), before, "killed, it leaves its socket");
    daemon.restart();
    assert_ne!(daemon.client().welcome().boot, boot);
    assert_served(&daemon);
}

/// Somebody else's listener is not removed, even when no lock tells of it.
#[test]
fn d1_rel23_a_live_socket_is_never_replaced() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.at("r/coordd")).unwrap();
    std::fs::set_permissions(sandbox.at("r/coordd"), std::fs::Permissions::from_mode(0o700))
        .unwrap();
    let listener = UnixListener::bind(sandbox.socket()).unwrap();
    let before = sandbox.socket().metadata().unwrap().ino();
    let mut command = sandbox.command(program("coordd"));
    command.arg("--foreground");
    let ran = Ran::of(command, "");
    assert_ne!(ran.code, 0, "it did not start: {ran:?}");
    assert!(ran.said().contains("coordd.sock"), "it says what is in the way: {ran:?}");
    assert_eq!(sandbox.socket().metadata().unwrap().ino(), before);
    UnixStream::connect(sandbox.socket()).expect("it still listens");
    drop(listener);
}

#[test]
fn d1_an_orderly_end_leaves_no_process() {
    let daemon = Daemon::start();
    assert_served(&daemon);
    daemon.stop_and_leave_nothing();
}

/// What can be asked in one codec can be asked in the other, and is answered alike.
#[test]
fn d3_both_codecs_say_the_same() {
    let daemon = Daemon::start();
    let script = tests::rehearsal::script(&json!([tests::rehearsal::lead(&json!([]))]));
    let made = daemon.client().new_session(daemon.rehearsal("normal", &script));
    let [mut frames, mut lines] = Codec::ALL.map(|codec| daemon.client_in(codec));
    assert_eq!(frames.welcome(), lines.welcome());
    // It comes a moment after the session, and then nothing changes any more.
    until("the scratchpad is there", || lines.show(&made.id).0.scratchpad);
    let questions = || {
        [
            Request::Ping {},
            Request::SessionList {},
            Request::SessionShow { session: made.id.clone() },
            Request::SessionShow { session: "nobody".into() },
            Request::PermissionList { session: String::new() },
            Request::TeamList {},
            Request::Usage { session: String::new() },
            Request::ScratchpadList { session: made.name.clone() },
        ]
    };
    for question in questions() {
        assert_eq!(frames.call(question.clone()), lines.call(question));
    }
}

/// Unknown fields are ignored and missing ones have defaults; ids and keys are the caller's.
#[test]
fn d3_lines_are_read_leniently() {
    let daemon = Daemon::start();
    let mut stream = UnixStream::connect(daemon.socket()).unwrap();
    stream.set_read_timeout(Some(CONDITION_LIMIT)).unwrap();
    let said = "{\"hello\":{\"colour\":\"blue\"}}\r\n\n\
                {\"call\":{\"id\":77,\"priority\":3,\"request\":{\"ping\":{\"loudly\":true}}}}\n";
    stream.write_all(said.as_bytes()).unwrap();
    let lines: Vec<Value> = BufReader::new(stream)
        .lines()
        .take(2)
        .map(|line| serde_json::from_str(&line.expect("a line in time")).unwrap())
        .collect();
    assert_eq!(lines[0]["welcome"]["protocol"], PROTOCOL);
    assert_eq!(lines[1]["reply"], json!({ "id": 77, "outcome": { "ok": { "done": {} } } }));
}

/// The commands that PROTOCOL.md shows are what a person can type.
#[test]
fn d3_the_protocol_document_can_be_typed() {
    let daemon = Daemon::start();
    let document = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/PROTOCOL.md");
    let text = std::fs::read_to_string(document).expect("proto/PROTOCOL.md");
    let blocks: Vec<_> = text
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix("sh\n"))
        .filter(|block| block.contains("nc "))
        .collect();
    assert!(!blocks.is_empty(), "PROTOCOL.md shows how to talk to the socket by hand");
    for block in blocks {
        // What makes it pretty is not the daemon's.
        let block =
            block.split("jq").next().unwrap_or_default().trim_end_matches([' ', '\n', '|', '\\']);
        let mut command = daemon.command("timeout");
        command.args(["20", "sh", "-c", block]);
        let ran = Ran::of(command, "");
        assert_eq!(ran.code, 0, "it ends by itself: {block}\n{ran:?}");
        assert!(ran.stdout.contains("\"welcome\""), "{block}\n{ran:?}");
        assert!(ran.stdout.contains("\"ok\""), "{block}\n{ran:?}");
        assert!(!ran.stdout.contains("\"error\""), "{block}\n{ran:?}");
    }
}

/// K6: each side is told which one to update.
#[test]
fn d3_k6_another_protocol_version_is_told_which_side_to_update() {
    let daemon = Daemon::start();
    for codec in Codec::ALL {
        let too_new = Client::greet(&daemon.socket(), codec, hello(PROTOCOL + 1)).unwrap_err();
        assert_eq!(too_new.code, ErrorCode::Version);
        let said = format!("{} {}", too_new.message, too_new.hint);
        assert!(said.contains("update coordd"), "{said}");
        let too_old = Client::greet(&daemon.socket(), codec, hello(0)).unwrap_err();
        assert_eq!(too_old.code, ErrorCode::Version);
        let said = format!("{} {}", too_old.message, too_old.hint);
        assert!(said.contains("update the client"), "{said}");
    }
    assert_served(&daemon);
}

/// Another revision of the binary codec gets the daemon's own and comes back with lines.
#[test]
fn d3_k6_another_revision_learns_ours_and_is_closed() {
    let daemon = Daemon::start();
    let mut stream = UnixStream::connect(daemon.socket()).unwrap();
    stream.set_read_timeout(Some(CONDITION_LIMIT)).unwrap();
    stream.write_all(&frame::preamble(REVISION + 7)).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it is closed");
    let first = answer.first_chunk::<PREAMBLE_LEN>().expect("a preamble");
    assert_eq!(frame::read_preamble(first), Some(REVISION));
}

#[test]
fn d3_the_first_word_is_a_hello() {
    let daemon = Daemon::start();
    for codec in Codec::ALL {
        let mut client = Client::open(&daemon.socket(), codec);
        client.send(&ToDaemon::Call(Call { id: 1, key: None, request: Request::DaemonStatus {} }));
        let reason = client.closed_within(CONDITION_LIMIT).expect("a reason");
        assert_eq!(reason.code, ErrorCode::NoHello, "{reason:?}");
    }
    assert_served(&daemon);
}

#[test]
fn d2_rel91_wrong_credentials_are_refused() {
    let daemon = Daemon::start();
    let agent = Credentials {
        agent: "a0123456789abcdef".into(),
        incarnation: 1,
        token: "0".repeat(64),
        pid: std::process::id(),
    };
    for codec in Codec::ALL {
        let reason = Client::connect_as(&daemon.socket(), codec, agent.clone()).unwrap_err();
        assert_eq!(reason.code, ErrorCode::BadCredentials);
    }
}

/// rel-81, rel-82, rel-83: each of these ends its own connection, with a reason, and touches
/// nothing else.
#[test]
fn d10_rel82_bad_bytes_end_their_connection_only() {
    let daemon = Daemon::start();
    let mut bystander = daemon.client();
    let hello_line = b"{\"hello\":{}}\n".as_slice();
    let deep = format!("{{\"call\":{{\"id\":1,\"x\":{}", "[".repeat(100_000));
    let long = vec![b'x'; FRAME_LEN_MAX + 2];
    let bad_utf8 = b"{\"call\":{\"id\":1,\"key\":\"\xff\xfe\",\"request\":{\"ping\":{}}}}\n";
    let cases: [(&str, Codec, Vec<u8>, ErrorCode); 9] = [
        ("garbage", Codec::Lines, b"GET / HTTP/1.1\r\n\r\n".to_vec(), ErrorCode::Malformed),
        ("no JSON", Codec::Lines, [hello_line, b"{]\n"].concat(), ErrorCode::Malformed),
        ("unknown", Codec::Lines, [hello_line, b"{\"dance\":{}}\n"].concat(), ErrorCode::Malformed),
        ("deep", Codec::Lines, [hello_line, deep.as_bytes(), b"\n"].concat(), ErrorCode::Malformed),
        ("UTF-8", Codec::Lines, [hello_line, bad_utf8].concat(), ErrorCode::Malformed),
        ("long line", Codec::Lines, [hello_line, &long].concat(), ErrorCode::TooLarge),
        ("huge frame", Codec::Frames, u32::MAX.to_be_bytes().to_vec(), ErrorCode::TooLarge),
        ("garbage frame", Codec::Frames, [[0, 0, 0, 4], [255; 4]].concat(), ErrorCode::Malformed),
        (
            "trailing",
            Codec::Frames,
            {
                let mut bytes = frame::encode(&ToDaemon::Hello(hello(PROTOCOL))).unwrap();
                let len = u32::try_from(bytes.len() - 4 + 1).unwrap();
                bytes[..4].copy_from_slice(&len.to_be_bytes());
                bytes.push(0);
                bytes
            },
            ErrorCode::Malformed,
        ),
    ];
    for (what, codec, bytes, code) in cases {
        let mut client = Client::open(&daemon.socket(), codec);
        client.send_raw(&bytes);
        let reason = client.closed_within(CONDITION_LIMIT);
        let reason = reason.unwrap_or_else(|| panic!("{what}: closed without a reason"));
        assert_eq!(reason.code, code, "{what}: {reason:?}");
        assert!(!reason.message.is_empty(), "{what}");
        assert_eq!(bystander.ok(Request::Ping {}), Response::Done {}, "{what}");
    }
    assert_served(&daemon);
}

/// Half a frame and the end, in the middle of everything: what was whole before it counts.
#[test]
fn d10_half_a_message_is_forgotten() {
    let daemon = Daemon::start();
    let [frames, lines] =
        [frame::encode(&ToDaemon::Hello(hello(PROTOCOL))).unwrap(), b"{\"hello\":{}}\n".to_vec()];
    for (codec, hello, half) in [
        (Codec::Frames, frames, [0, 0, 1, 0, 7].as_slice()),
        (Codec::Lines, lines, b"{\"call\":{\"id\":1,"),
    ] {
        let mut client = Client::open(&daemon.socket(), codec);
        client.send_raw(&hello);
        client.send_raw(half);
        client.finish_sending();
        client.closed_within(CONDITION_LIMIT);
    }
    assert_served(&daemon);
}

/// rel-81: whoever connects and says nothing is closed after 5 seconds, and keeps nobody from being
/// served.
#[test]
fn d10_rel81_silent_connections_are_closed_and_keep_nobody_out() {
    let daemon = Daemon::start();
    let begun = Instant::now();
    let mut silent = Client::open(&daemon.socket(), Codec::Lines);
    let mut half = Client::open(&daemon.socket(), Codec::Lines);
    half.send_raw(b"{\"hel");
    let _crowd: Vec<_> = (0..60).map(|_| UnixStream::connect(daemon.socket()).unwrap()).collect();
    // There may be no place at once, but soon.
    until("a client is served beside the silent ones", || {
        let stream = UnixStream::connect(daemon.socket()).ok()?;
        drop(stream);
        Client::greet(&daemon.socket(), Codec::Lines, hello(PROTOCOL)).ok()
    });
    for client in [&mut silent, &mut half] {
        if let Some(reason) = client.closed_within(HELLO_LIMIT) {
            assert!([ErrorCode::NoHello, ErrorCode::Limit].contains(&reason.code), "{reason:?}");
        }
    }
    assert!(begun.elapsed() < HELLO_LIMIT);
    assert_served(&daemon);
}

/// A peer that never reads costs only itself (D-8).
#[test]
fn d8_a_peer_that_does_not_read_stalls_nobody() {
    const ASKED_MAX: u32 = 200_000;
    let daemon = Daemon::start();
    let mut deaf = UnixStream::connect(daemon.socket()).unwrap();
    deaf.write_all(b"{\"hello\":{}}\n").unwrap();
    deaf.set_nonblocking(true).unwrap();
    let question = b"{\"call\":{\"id\":1,\"request\":{\"daemon_status\":{}}}}\n";
    // Until nobody takes any more of it, or it is closed.
    let asked = (0..ASKED_MAX).take_while(|_| deaf.write(question).is_ok()).count();
    assert!(
        asked < ASKED_MAX as usize,
        "all of it was taken: nothing bounds what is queued for it"
    );
    assert_served(&daemon);
}
