//! The client against tiny daemons that do one thing each.

use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

use proto::Reply;
use proto::error::ErrorCode;
use proto::frame::{self, FrameDecoder, PREAMBLE_LEN};
use proto::hello::{PROTOCOL, REVISION};
use proto::line::{self, LineDecoder};

use super::*;
use crate::error::{Exit, Failure};

struct Fake {
    path: PathBuf,
    _folder: tempfile::TempDir,
    serving: JoinHandle<()>,
}

/// A daemon that serves each connection as told, one after the other.
fn fake(connections: Vec<fn(UnixStream)>) -> Fake {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let serving = std::thread::spawn(move || {
        for serve in connections {
            serve(listener.accept().unwrap().0);
        }
    });
    Fake { path, _folder: folder, serving }
}

fn welcome(protocol: u32) -> FromDaemon {
    FromDaemon::Welcome(Welcome { protocol, version: "9.9.9".into(), pid: 1, boot: "b".into() })
}

fn done(id: u64) -> FromDaemon {
    FromDaemon::Reply(Reply { id, outcome: Outcome::Ok(Box::new(Response::Done {})) })
}

fn read_binary(stream: &mut UnixStream) -> (u32, Vec<ToDaemon>) {
    let mut first = [0; PREAMBLE_LEN];
    stream.read_exact(&mut first).unwrap();
    let (mut decoder, mut seen) = (FrameDecoder::default(), Vec::new());
    let mut buf = [0; 4096];
    while seen.len() < 2 {
        let n = stream.read(&mut buf).unwrap();
        decoder.feed(&buf[..n]);
        while let Some(body) = decoder.next_frame().unwrap() {
            seen.push(frame::decode(&body).unwrap());
        }
    }
    (frame::read_preamble(&first).unwrap(), seen)
}

fn of_this_revision(mut stream: UnixStream) {
    let (revision, seen) = read_binary(&mut stream);
    assert_eq!(revision, REVISION);
    assert!(matches!(&seen[0], ToDaemon::Hello(hello) if hello.agent.is_none()));
    let mut bytes = frame::preamble(REVISION).to_vec();
    bytes.extend(frame::encode(&welcome(PROTOCOL)).unwrap());
    // A reply to another call comes first and is not taken for ours.
    bytes.extend(frame::encode(&done(77)).unwrap());
    bytes.extend(frame::encode(&done(1)).unwrap());
    stream.write_all(&bytes).unwrap();
}

#[test]
fn d3_hello_and_request_go_in_one_write_and_are_answered() {
    let daemon = fake(vec![of_this_revision]);
    let (client, response) = Client::open(&daemon.path, &Ask::new(Request::Ping {})).unwrap();
    assert_eq!(response, Response::Done {});
    assert_eq!(client.welcome().version, "9.9.9");
    daemon.serving.join().unwrap();
}

fn of_another_revision(mut stream: UnixStream) {
    let mut first = [0; PREAMBLE_LEN];
    stream.read_exact(&mut first).unwrap();
    stream.write_all(&frame::preamble(REVISION + 1)).unwrap();
}

fn in_lines(mut stream: UnixStream) {
    let (mut decoder, mut seen) = (LineDecoder::default(), Vec::<serde_json::Value>::new());
    let mut buf = [0; 4096];
    while seen.len() < 2 {
        let n = stream.read(&mut buf).unwrap();
        decoder.feed(&buf[..n]);
        while let Some(text) = decoder.next_line().unwrap() {
            seen.push(line::decode(&text).unwrap());
        }
    }
    assert_eq!(seen[1]["call"]["request"], serde_json::json!({"session_list": {}}));
    // A newer daemon's reply, with a field that this build does not know.
    let answer = concat!(
        r#"{"welcome":{"protocol":1,"version":"9.9.9","pid":1,"boot":"b","since":"tomorrow"}}"#,
        "\n",
        r#"{"reply":{"id":1,"outcome":{"ok":{"sessions":{"sessions":[],"more":false}}}}}"#,
        "\n"
    );
    stream.write_all(answer.as_bytes()).unwrap();
}

#[test]
fn d3_another_revision_is_talked_to_in_lines() {
    let daemon = fake(vec![of_another_revision, in_lines]);
    let (_client, response) =
        Client::open(&daemon.path, &Ask::new(Request::SessionList {})).unwrap();
    assert_eq!(response, Response::Sessions { sessions: Vec::new() });
    daemon.serving.join().unwrap();
}

fn too_new(mut stream: UnixStream) {
    read_binary(&mut stream);
    let mut bytes = frame::preamble(REVISION).to_vec();
    bytes.extend(frame::encode(&welcome(PROTOCOL + 1)).unwrap());
    stream.write_all(&bytes).unwrap();
}

fn refuses(mut stream: UnixStream) {
    read_binary(&mut stream);
    let mut bytes = frame::preamble(REVISION).to_vec();
    let body = ErrorBody::new(ErrorCode::Version, "coordd is too old").hint("update coordd");
    bytes.extend(frame::encode(&FromDaemon::Closing(body)).unwrap());
    stream.write_all(&bytes).unwrap();
}

#[test]
fn d3_k6_skew_says_which_side_to_update() {
    let daemon = fake(vec![too_new, refuses]);
    let error = Client::open(&daemon.path, &Ask::new(Request::Ping {})).unwrap_err();
    assert!(Failure::from(error).hint.contains("update coordctl"));
    let error = Client::open(&daemon.path, &Ask::new(Request::Ping {})).unwrap_err();
    assert_eq!(Failure::from(error).hint, "update coordd");
    daemon.serving.join().unwrap();
}

fn accepts_and_says_nothing(mut stream: UnixStream) {
    // Until the client gives up.
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
}

#[test]
fn k5_d10_a_daemon_that_says_nothing_is_reported() {
    let daemon = fake(vec![accepts_and_says_nothing]);
    let begun = Instant::now();
    let error = Client::open(&daemon.path, &Ask::new(Request::SessionList {})).unwrap_err();
    assert!(matches!(error, ClientError::Silent { .. }), "{error}");
    assert!(begun.elapsed() >= ANSWER_LIMIT && begun.elapsed() < ANSWER_LIMIT * 2);
    let failure = Failure::from(error);
    assert_eq!(failure.exit, Exit::NoDaemon);
    assert!(failure.hint.contains("daemon restart"));
    daemon.serving.join().unwrap();
}

fn hangs_up(mut stream: UnixStream) {
    read_binary(&mut stream);
    let mut bytes = frame::preamble(REVISION).to_vec();
    bytes.extend(frame::encode(&welcome(PROTOCOL)).unwrap());
    stream.write_all(&bytes).unwrap();
}

#[test]
fn a_lost_connection_is_told_from_no_daemon() {
    let daemon = fake(vec![hangs_up]);
    let error = Client::open(&daemon.path, &Ask::new(Request::Ping {})).unwrap_err();
    assert!(matches!(error, ClientError::Lost), "{error}");
    let path = daemon.path.clone();
    daemon.serving.join().unwrap();
    // The socket is still there, and nobody listens.
    let error = Client::open(&path, &Ask::new(Request::Ping {})).unwrap_err();
    assert!(matches!(error, ClientError::NoDaemon { .. }), "{error}");
    let error = Client::open(Path::new("/nonexistent/s"), &Ask::new(Request::Ping {})).unwrap_err();
    assert!(matches!(error, ClientError::NoDaemon { .. }), "{error}");
}

#[test]
fn what_is_no_socket_gets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    std::fs::write(&path, "").unwrap();
    let error = Client::open(&path, &Ask::new(Request::Ping {})).unwrap_err();
    assert!(matches!(error, ClientError::Foreign { .. }), "{error}");
    assert!(Failure::from(error).hint.contains("nothing was sent"));
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

fn pushes(mut stream: UnixStream) {
    of_this_revision(stream.try_clone().unwrap());
    let event = proto::event::Event::SessionRemoved {};
    let numbered = Numbered { seq: 4, at_ms: 1, session: "s".into(), event };
    stream.write_all(&frame::encode(&FromDaemon::Event(Box::new(numbered))).unwrap()).unwrap();
}

#[test]
fn events_come_after_the_reply_and_an_end_is_noticed() {
    let daemon = fake(vec![pushes]);
    let request = Request::Subscribe { session: String::new(), after: None };
    let (mut client, _) = Client::open(&daemon.path, &Ask::new(request)).unwrap();
    let Pushed::Event(event) = client.next_pushed(None).unwrap() else { panic!("no event") };
    assert_eq!(event.seq, 4);
    assert!(matches!(client.next_pushed(None), Err(ClientError::Lost)));
    daemon.serving.join().unwrap();
}

#[test]
fn only_changes_carry_a_key() {
    assert_eq!(Ask::new(Request::Ping {}).call(1).key, None);
    let stop = || Ask::new(Request::SessionStop { session: "s".into() });
    let (one, other) = (stop(), stop());
    assert_eq!(one.call(1).key.unwrap().len(), 32);
    assert_eq!(one.call(1).key, one.call(2).key);
    assert_ne!(one.call(1).key, other.call(1).key);
}

/// Answers in lines, as a daemon whose revision is this much more than ours, or less.
fn in_another_age(first: &mut UnixStream, revision: u32) {
    let mut preamble = [0; PREAMBLE_LEN];
    first.read_exact(&mut preamble).unwrap();
    first.write_all(&frame::preamble(revision)).unwrap();
}

fn older(mut stream: UnixStream) {
    in_another_age(&mut stream, REVISION - 1);
}

fn newer(mut stream: UnixStream) {
    in_another_age(&mut stream, REVISION + 1);
}

fn answers_in_lines(mut stream: UnixStream, lines: &[&str]) {
    let welcome = r#"{"welcome":{"protocol":1,"version":"9.9.9","pid":1,"boot":"b"}}"#;
    let all = [&[welcome], lines].concat().join("\n") + "\n";
    stream.write_all(all.as_bytes()).unwrap();
    // Until the client has read it.
    let _closed = stream.read_to_end(&mut Vec::new());
}

fn does_not_know_it(stream: UnixStream) {
    answers_in_lines(
        stream,
        &[
            r#"{"reply":{"id":1,"outcome":{"error":{"code":"malformed","message":"unknown variant","hint":""}}}}"#,
        ],
    );
}

fn knows_more(stream: UnixStream) {
    answers_in_lines(stream, &[r#"{"reply":{"id":1,"outcome":{"ok":{"weather":{}}}}}"#]);
}

#[test]
fn d3_what_cannot_be_between_two_ages_names_the_side_to_update() {
    let ask = || Ask::new(Request::Ping {});
    for (age, answer, wanted) in [
        (older as fn(UnixStream), does_not_know_it as fn(UnixStream), "update coordd"),
        (newer, does_not_know_it, "update coordctl"),
        (older, knows_more, "update coordd"),
        (newer, knows_more, "update coordctl"),
    ] {
        let daemon = fake(vec![age, answer]);
        let failure = Failure::from(Client::open(&daemon.path, &ask()).unwrap_err());
        assert!(failure.hint.contains(wanted), "{wanted}: {failure:?}");
        assert!(failure.message.contains("9.9.9"), "{failure:?}");
        assert_eq!(failure.exit, Exit::Failed);
        daemon.serving.join().unwrap();
    }
}

fn has_news(stream: UnixStream) {
    answers_in_lines(
        stream,
        &[
            r#"{"event":{"seq":3,"at_ms":1,"session":"s","event":{"weather":{"sky":"blue"}}}}"#,
            r#"{"order":{"dance":{}}}"#,
            r#"{"reply":{"id":9,"outcome":{"ok":{"weather":{}}}}}"#,
            r#"{"reply":{"id":1,"outcome":{"ok":{"done":{}}}}}"#,
            r#"{"event":{"seq":0,"at_ms":1,"session":"s","event":{"weather":{"sky":"blue"}}}}"#,
            r#"{"event":{"seq":4,"at_ms":1,"session":"s","event":{"session_removed":{}}}}"#,
        ],
    );
}

#[test]
fn d3_events_of_an_unknown_kind_are_a_gap_and_end_nothing() {
    let daemon = fake(vec![newer, has_news]);
    let request = Request::Subscribe { session: String::new(), after: None };
    let (mut client, _) = Client::open(&daemon.path, &Ask::new(request)).unwrap();
    let mut next = || {
        let Pushed::Event(event) = client.next_pushed(Some(ANSWER_LIMIT)).unwrap() else {
            panic!("no event")
        };
        (event.seq, event.event)
    };
    assert_eq!(next(), (3, proto::event::Event::Gap { missed: Some(1) }));
    assert_eq!(next(), (4, proto::event::Event::SessionRemoved {}));
    drop(client);
    daemon.serving.join().unwrap();
}
