//! A connection over an in-memory pipe, with the test as the reactor.

use coordd_core::Input;
use proto::hello::{REVISION, Welcome};
use proto::request::Request;
use proto::response::Response;
use proto::{Outcome, Reply};
use tokio::io::{AsyncBufReadExt as _, BufReader, duplex};

use super::*;

/// A served connection: our end of the pipe, and what the reactor would get.
fn served() -> (tokio::io::DuplexStream, mpsc::Receiver<Arrival>, tokio::task::JoinHandle<()>) {
    let (ours, theirs) = duplex(1 << 16);
    let (reactor, arrivals) = mpsc::channel(8);
    let hub = Hub::for_tests();
    let (from, to) = tokio::io::split(theirs);
    let (turn_out, turned_out) = oneshot::channel();
    let routes = Routes { reactor, hub, tmp: Arc::new(PathBuf::from("/tmp")) };
    let task = tokio::task::spawn(async move {
        serve(Other { peer: PeerId(1), pid: None }, from, to, routes, turned_out).await;
        drop(turn_out);
    });
    (ours, arrivals, task)
}

async fn line(stream: &mut BufReader<tokio::io::DuplexStream>) -> serde_json::Value {
    let mut text = String::new();
    stream.read_line(&mut text).await.unwrap();
    serde_json::from_str(&text).unwrap_or(serde_json::Value::Null)
}

#[tokio::test]
async fn d3_json_lines_by_hand() {
    let (mut ours, mut arrivals, task) = served();
    ours.write_all(b"{\"hello\":{}}\n{\"call\":{\"id\":7,\"request\":{\"ping\":{}}}}\n")
        .await
        .unwrap();
    let Some(Arrival::Opened { handle, credentials: None, .. }) = arrivals.recv().await else {
        panic!("no hello")
    };
    let welcome = Welcome { protocol: 1, version: "x".into(), pid: 1, boot: "b".into() };
    assert!(handle.tell(FromDaemon::Welcome(welcome)));
    let Some(Arrival::Call { call, .. }) = arrivals.recv().await else { panic!("no call") };
    assert_eq!(call.request, Request::Ping {});
    assert!(handle.tell(FromDaemon::Reply(Reply {
        id: 7,
        outcome: Outcome::Ok(Box::new(Response::Done {}))
    })));
    drop(handle);
    let mut ours = BufReader::new(ours);
    assert_eq!(line(&mut ours).await["welcome"]["boot"], "b");
    assert_eq!(
        line(&mut ours).await,
        serde_json::json!({"reply": {"id": 7, "outcome": {"ok": {"done": {}}}}})
    );
    drop(ours);
    assert!(matches!(arrivals.recv().await, Some(Arrival::Closed { .. })));
    task.await.unwrap();
}

#[tokio::test]
async fn d3_frames_after_a_preamble() {
    let (mut ours, mut arrivals, _task) = served();
    ours.write_all(&frame::preamble(REVISION)).await.unwrap();
    let hello = Hello { protocol: 1, program: "test".into(), agent: None };
    ours.write_all(&frame::encode(&ToDaemon::Hello(hello)).unwrap()).await.unwrap();
    let mut answer = [0; frame::PREAMBLE_LEN];
    ours.read_exact(&mut answer).await.unwrap();
    assert_eq!(frame::read_preamble(&answer), Some(REVISION));
    assert!(matches!(arrivals.recv().await, Some(Arrival::Opened { .. })));
}

#[tokio::test]
async fn d3_another_revision_is_told_ours_and_let_go() {
    let (mut ours, mut arrivals, task) = served();
    ours.write_all(&frame::preamble(REVISION + 1)).await.unwrap();
    let mut answer = Vec::new();
    ours.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, frame::preamble(REVISION));
    task.await.unwrap();
    assert!(arrivals.recv().await.is_none());
}

#[tokio::test]
async fn d10_rel82_what_is_no_message_ends_the_connection_with_one_error() {
    for (bytes, code) in [
        (&b"garbage\n"[..], "malformed"),
        (b"\0\0\0\0\0\0\0\0\0\0\0\0", "malformed"),
        (b"{\"call\":{\"id\":1,\"request\":{\"ping\":{}}}}\n", "no_hello"),
        (b"{\"hello\":{\"protocol\":99}}\n", "version"),
        (b"{\"hello\":{\"program\":\"\xff\"}}\n", "malformed"),
        (b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n", "malformed"),
    ] {
        let (mut ours, mut arrivals, task) = served();
        ours.write_all(bytes).await.unwrap();
        let mut ours = BufReader::new(ours);
        assert_eq!(line(&mut ours).await["closing"]["code"], code, "{bytes:?}");
        task.await.unwrap();
        assert!(arrivals.recv().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn rel81_no_hello_in_time() {
    let (ours, _arrivals, task) = served();
    let mut ours = BufReader::new(ours);
    assert_eq!(line(&mut ours).await["closing"]["code"], "no_hello");
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rel81_a_message_that_never_ends() {
    let (mut ours, mut arrivals, task) = served();
    ours.write_all(b"{\"hello\":{}}\n{\"call\":").await.unwrap();
    assert!(matches!(arrivals.recv().await, Some(Arrival::Opened { .. })));
    let begun = Instant::now();
    let mut ours = BufReader::new(ours);
    assert_eq!(line(&mut ours).await["closing"]["code"], "malformed");
    assert_eq!(begun.elapsed().as_secs(), limits::MESSAGE_TIME_MAX.as_secs());
    task.await.unwrap();
}

#[tokio::test]
async fn w4_only_agents_report() {
    let (mut ours, mut arrivals, task) = served();
    ours.write_all(b"{\"hello\":{}}\n{\"report\":{\"delta\":{\"text\":\"x\"}}}\n").await.unwrap();
    assert!(matches!(arrivals.recv().await, Some(Arrival::Opened { .. })));
    let mut ours = BufReader::new(ours);
    assert_eq!(line(&mut ours).await["closing"]["code"], "forbidden");
    task.await.unwrap();
    assert!(!matches!(arrivals.recv().await, Some(Arrival::Input(Input::Tick))));
}

#[tokio::test]
async fn d3_a_request_from_the_future_is_answered_and_the_connection_goes_on() {
    let (mut ours, mut arrivals, _task) = served();
    let lines = "{\"hello\":{}}\n{\"call\":{\"id\":4,\"request\":{\"teleport\":{}}}}\n{\"call\":{\"id\":5,\"request\":{\"ping\":{}}}}\n";
    ours.write_all(lines.as_bytes()).await.unwrap();
    assert!(matches!(arrivals.recv().await, Some(Arrival::Opened { .. })));
    // Not answered here: the welcome comes first, and that is the reactor's.
    let Some(Arrival::Refused { call: 4, error, .. }) = arrivals.recv().await else {
        panic!("not refused")
    };
    assert_eq!(error.code, ErrorCode::Malformed);
    let Some(Arrival::Call { call, .. }) = arrivals.recv().await else { panic!("no call") };
    assert_eq!(call.id, 5);
}

#[tokio::test]
async fn d3_a_report_from_the_future_is_passed_over_and_the_connection_goes_on() {
    let (mut ours, mut arrivals, _task) = served();
    let lines = "{\"hello\":{}}\n{\"report\":{\"mood\":{\"good\":true}}}\n{\"call\":{\"id\":5,\"request\":{\"ping\":{}}}}\n";
    ours.write_all(lines.as_bytes()).await.unwrap();
    assert!(matches!(arrivals.recv().await, Some(Arrival::Opened { .. })));
    let Some(Arrival::Call { call, .. }) = arrivals.recv().await else { panic!("no call") };
    assert_eq!(call.id, 5);
}

#[tokio::test]
async fn d10_what_was_answered_before_the_garbage_is_still_sent() {
    let (mut ours, mut arrivals, _task) = served();
    ours.write_all(b"{\"hello\":{}}\n{\"call\":{\"id\":1,\"request\":{\"ping\":{}}}}\n")
        .await
        .unwrap();
    let Some(Arrival::Opened { handle, .. }) = arrivals.recv().await else { panic!("no hello") };
    assert!(matches!(arrivals.recv().await, Some(Arrival::Call { .. })));
    assert!(handle.tell(FromDaemon::Reply(Reply {
        id: 1,
        outcome: Outcome::Ok(Box::new(Response::Done {}))
    })));
    drop(handle);
    ours.write_all(b"garbage\n").await.unwrap();
    let mut ours = BufReader::new(ours);
    assert_eq!(line(&mut ours).await["reply"]["id"], 1);
    assert_eq!(line(&mut ours).await["closing"]["code"], "malformed");
}
