use std::path::Path;

use proto::agent::Order;
use proto::entry::Origin;
use proto::message::Body;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::*;
use crate::fake_daemon::{FakeDaemon, PATIENCE};

fn config(folder: &Path) -> LinkConfig {
    LinkConfig {
        socket: folder.join("s"),
        credentials: Some(Credentials {
            agent: "a1".to_owned(),
            incarnation: 3,
            token: "t0ken".to_owned(),
            pid: 7,
        }),
        orphan_limit: None,
        state_dir: Some(folder.to_owned()),
    }
}

/// Runs a test with a link that is kept.
async fn with_link<F: Future>(config: LinkConfig, test: impl FnOnce(Link) -> F) -> F::Output {
    LocalSet::new()
        .run_until(async {
            let link = Link::new(config);
            let kept = tokio::task::spawn_local(link.clone().keep());
            let output = timeout(PATIENCE * 2, test(link)).await.expect("the test hangs");
            kept.abort();
            output
        })
        .await
}

fn send(text: &str) -> Request {
    Request::Send {
        session: String::new(),
        to: "x".to_owned(),
        body: Body::text(text),
        summary: String::new(),
        notify_when_idle: false,
    }
}

#[tokio::test]
async fn d3_both_codecs_carry_hello_calls_reports_and_orders() {
    for other_revision in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let daemon = if other_revision {
            FakeDaemon::of_another_revision(&path)
        } else {
            FakeDaemon::bind(&path)
        };
        with_link(config(folder.path()), async |link| {
            let mut peer = daemon.welcome().await;
            assert_eq!(peer.speaks_lines(), other_revision);
            let credentials = peer.hello.as_ref().unwrap().agent.clone().unwrap();
            assert_eq!((credentials.agent.as_str(), credentials.incarnation), ("a1", 3));
            assert_eq!(credentials.token, "t0ken");
            link.welcomed().await.unwrap();
            let answer = link.call(Request::Ping {}, Some("k1".to_owned()));
            let call = peer.call().await;
            assert_eq!((call.key.as_deref(), &call.request), (Some("k1"), &Request::Ping {}));
            peer.reply(call.id, Response::Done {}).await;
            assert!(matches!(answer.await, Ok(Response::Done {})));
            link.delta("hello");
            peer.until(|it| matches!(it, Report::Delta { text } if text == "hello")).await;
            let orders = link.orders();
            peer.deliver("m1", Origin::User {}, "hi").await;
            orders.mail().await;
            assert_eq!(orders.take_mail()[0].text, "hi");
            peer.order(Order::Stop { reason: "r".to_owned(), keep_run: false }).await;
            orders.process_ends().await;
            assert_eq!(orders.control().stop.as_deref(), Some("r"));
        })
        .await;
    }
}

/// A newer coordd: what may be missed is passed over, an answer that makes no sense is a denial, and the connection goes on.
#[tokio::test]
async fn d3_what_a_newer_coordd_adds_does_not_end_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = FakeDaemon::of_another_revision(&folder.path().join("s"));
    with_link(config(folder.path()), async |link| {
        let mut peer = daemon.welcome().await;
        link.welcomed().await.unwrap();
        let answer = link.call(Request::Ping {}, None);
        let call = peer.call().await;
        peer.send_line(r#"{"order":{"dance":{"steps":3}}}"#).await;
        peer.send_line(&format!(r#"{{"reply":{{"id":{},"outcome":{{"ok":{{"weather":{{}}}}}}}}}}"#, call.id))
            .await;
        let Err(CallError::Denied(denial)) = answer.await else { panic!("it is not understood") };
        assert_eq!(denial.code, ErrorCode::Version);
        peer.send_line(
            r#"{"order":{"deliver":{"message":"m1","origin":{"oracle":{}},"text":"hi","shutdown":false,"mood":1}}}"#,
        )
        .await;
        let orders = link.orders();
        orders.mail().await;
        let delivered = orders.take_mail();
        assert_eq!(delivered[0].text, "hi");
        assert!(matches!(delivered[0].origin, Origin::Outside { verified: false, .. }));
    })
    .await;
}

#[tokio::test]
async fn d6_open_calls_are_repeated_in_order_with_their_keys_after_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    with_link(config(folder.path()), async |link| {
        // Made while there is no daemon at all.
        let first = link.call(send("1"), Some("k1".to_owned()));
        let second = link.call(send("2"), Some("k2".to_owned()));
        link.post(Request::Acknowledge { messages: vec!["m1".to_owned()], run: 1 });
        let daemon = FakeDaemon::bind(&path);
        let mut peer = daemon.welcome().await;
        let calls = [peer.call().await, peer.call().await];
        assert_eq!(calls.each_ref().map(|it| it.key.as_deref()), [Some("k1"), Some("k2")]);
        peer.until_acknowledged(1).await;
        peer.reply(calls[0].id, Response::Done {}).await;
        first.await.unwrap();
        // It dies before it answers the second one; what it answered or nobody waits for any more
        // is not asked again.
        drop(link.call(send("given up"), Some("k3".to_owned())));
        drop(peer);
        let mut peer = daemon.welcome().await;
        let again = peer.call().await;
        assert_eq!((again.key.as_deref(), &again.request), (Some("k2"), &send("2")));
        // A daemon on its way out has decided nothing.
        peer.deny(again.id, ErrorCode::ShuttingDown, "bye").await;
        drop(peer);
        let mut peer = daemon.welcome().await;
        let again = peer.call().await;
        assert_eq!(again.key.as_deref(), Some("k2"));
        peer.deny(again.id, ErrorCode::NotFound, "nobody").await;
        let denied = second.await.unwrap_err();
        assert_eq!(denied.to_string(), "nobody");
    })
    .await;
}

#[tokio::test]
async fn m3_a_message_that_waits_already_is_not_queued_again() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = FakeDaemon::bind(&folder.path().join("s"));
    with_link(config(folder.path()), async |link| {
        let mut peer = daemon.welcome().await;
        for message in ["m1", "m1", "m2"] {
            peer.deliver(message, Origin::User {}, message).await;
        }
        peer.order(Order::Stop { reason: "over".to_owned(), keep_run: false }).await;
        link.orders().process_ends().await;
        let ids: Vec<_> = link.orders().take_mail().into_iter().map(|it| it.message).collect();
        assert_eq!(ids, ["m1", "m2"]);
    })
    .await;
}

#[tokio::test]
async fn d7_refused_credentials_end_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = FakeDaemon::bind(&folder.path().join("s"));
    with_link(config(folder.path()), async |link| {
        let open = link.call(Request::Ping {}, None);
        let mut peer = daemon.hello().await;
        let body = ErrorBody::new(ErrorCode::BadCredentials, "of an earlier incarnation");
        peer.send(&proto::FromDaemon::Closing(body)).await;
        assert_eq!(link.gone().await, "of an earlier incarnation");
        assert!(matches!(open.await, Err(CallError::Gone)));
        assert!(link.welcomed().await.is_err());
        assert!(matches!(link.call(Request::Ping {}, None).await, Err(CallError::Gone)));
    })
    .await;
}

#[tokio::test]
async fn d7_an_orphan_ends_itself_when_a_limit_is_set_or_its_folder_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let orphan_limit = Some(Duration::from_millis(100));
    let limited = LinkConfig { orphan_limit, ..config(folder.path()) };
    let reason = with_link(limited, async |link| link.gone().await).await;
    assert_eq!(reason, "coordd has been away for too long");
    let homeless =
        LinkConfig { state_dir: Some(folder.path().join("gone")), ..config(folder.path()) };
    let reason = with_link(homeless, async |link| link.gone().await).await;
    assert_eq!(reason, "the agent's folder no longer exists");
}

#[tokio::test]
async fn m4_what_fits_into_no_frame_is_refused_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = FakeDaemon::bind(&folder.path().join("s"));
    with_link(config(folder.path()), async |link| {
        let huge = link.call(send(&"x".repeat(2 << 20)), None);
        let small = link.call(Request::Ping {}, None);
        let mut peer = daemon.welcome().await;
        let call = peer.call().await;
        assert_eq!(call.request, Request::Ping {});
        peer.reply(call.id, Response::Done {}).await;
        small.await.unwrap();
        let CallError::Denied(body) = huge.await.unwrap_err() else { panic!("not denied") };
        assert_eq!(body.code, ErrorCode::TooLarge);
    })
    .await;
}

/// D-8: a daemon that reads nothing costs reports and nothing else.
#[tokio::test]
async fn d8_a_daemon_that_does_not_read_does_not_stall_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = FakeDaemon::bind(&folder.path().join("s"));
    with_link(config(folder.path()), async |link| {
        let mut peer = daemon.welcome().await;
        link.welcomed().await.unwrap();
        for _ in 0..2_000 {
            link.delta(&"y".repeat(1_000));
            link.report(Report::Delta { text: "z".repeat(10_000) });
            tokio::task::yield_now().await;
        }
        peer.order(Order::Stop { reason: "over".to_owned(), keep_run: false }).await;
        link.orders().process_ends().await;
    })
    .await;
}
