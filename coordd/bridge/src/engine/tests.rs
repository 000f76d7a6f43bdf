//! Two engines and a server made of channels, which loses, doubles and forgets as the test wants.

use super::*;
use crate::body::Says;
use crate::home::Decision;
use crate::keys::tests::identity;
use crate::wire::{Arrival, Ends, wire};

struct Side {
    engine: Option<Engine>,
    ends: Ends,
    home: mpsc::Receiver<ToHome>,
    to_engine: mpsc::Sender<FromHome>,
    from_home: Option<mpsc::Receiver<FromHome>>,
    fingerprint: Fingerprint,
    folder: Folder,
}

fn side(base: &std::path::Path, number: u8, other: u8) -> Side {
    let own = identity(number);
    let folder = Folder::open(&base.join(number.to_string())).unwrap();
    if other != 0 {
        Trusted::add(&folder, own.public(), identity(other).public(), "other").unwrap();
    }
    let (wire, ends) = wire();
    let (to_home, home) = mpsc::channel(64);
    let (to_engine, from_home) = mpsc::channel(64);
    let fingerprint = own.public().fingerprint();
    let parts = Parts {
        own,
        folder: folder.clone(),
        trusted: Trusted::read(&folder).unwrap(),
        wire,
        home: to_home,
        server: "nats://test".into(),
        machine: format!("machine-{number}"),
    };
    let engine = Some(Engine::new(parts));
    Side { engine, ends, home, to_engine, from_home: Some(from_home), fingerprint, folder }
}

fn row(id: u64, to: &Fingerprint) -> FromHome {
    let says = Says::Words { text: format!("words {id}"), summary: String::new() };
    let row = body::Row {
        to: "s1".into(),
        from: "s9".into(),
        name: "x".into(),
        bypasses: false,
        message: format!("m-{id}"),
        says,
    };
    FromHome::Row { to: to.clone(), id, expires_ms: u64::MAX, row: Box::new(row) }
}

/// Takes what an engine sends; what is not to be lost is stored, confirmed, and delivered to the other.
async fn carry_from(
    from: &mut Side,
    to: &mut Side,
    lose: &mut impl FnMut() -> bool,
    acks: &mpsc::Sender<()>,
) -> bool {
    let Ok(next) = from.ends.send.try_recv() else { return false };
    let (subject, bytes, ack) = match next {
        ToSend::Row { subject, bytes, to, id, copy, .. } => {
            from.ends.sent.send(Sent { to, id, copy, is_stored: true }).await.unwrap();
            (subject, bytes, true)
        }
        ToSend::Stored { subject, bytes } => (subject, bytes, true),
        ToSend::Now { subject, bytes } => (subject, bytes, false),
    };
    if !lose() {
        let ack = ack.then(|| Ack::Test(acks.clone()));
        let arrival = Arrival { subject, bytes: bytes.into(), deliveries: 1, ack };
        to.ends.arrivals.send(arrival).await.unwrap();
    }
    true
}

async fn with_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(10), what).await.expect("it comes to an end")
}

fn start(side: &mut Side) {
    let (engine, home) = (side.engine.take().unwrap(), side.from_home.take().unwrap());
    tokio::task::spawn_local(engine.run(home));
}

#[tokio::test(start_paused = true)]
async fn m7_rel72_a_server_that_loses_a_quarter_of_everything_loses_nothing_for_good() {
    let local = tokio::task::LocalSet::new();
    local.run_until(with_time(Box::pin(lossy(40)))).await;
}

async fn lossy(count: u64) {
    let base = tempfile::tempdir().unwrap();
    let (mut a, mut b) = (side(base.path(), 1, 2), side(base.path(), 2, 1));
    start(&mut a);
    start(&mut b);
    let (acks, _owed) = mpsc::channel(64);
    for side in [&a, &b] {
        side.to_engine.send(FromHome::Met { epoch: 1 }).await.unwrap();
    }
    for id in 1..=count {
        a.to_engine.send(row(id, &b.fingerprint)).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut luck = 0_u32;
    let mut lose = move || {
        luck = luck.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        luck & 0x3_0000 == 0
    };
    let (mut got, mut told) = (Vec::new(), BTreeSet::new());
    while told.len() < usize::try_from(count).unwrap() {
        let mut idle = !carry_from(&mut a, &mut b, &mut lose, &acks).await;
        idle &= !carry_from(&mut b, &mut a, &mut lose, &acks).await;
        while let Ok(it) = b.home.try_recv() {
            if let ToHome::Bring { ticket, row, .. } = it {
                got.push(row.message);
                let decision = Decision::Taken;
                b.to_engine.send(FromHome::Decided { ticket, decision }).await.unwrap();
            }
        }
        while let Ok(it) = a.home.try_recv() {
            if let ToHome::Told { id, fate } = it {
                assert_eq!(fate, Fate::Taken);
                assert!(told.insert(id), "{id} was told twice");
            }
        }
        if idle {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let want: Vec<_> = (1..=count).map(|id| format!("m-{id}")).collect();
    assert_eq!(got, want, "once, and in order");
}

#[tokio::test(start_paused = true)]
async fn rel18_a_replay_after_a_restart_is_known_and_acknowledged_only_once_that_is_on_disk() {
    tokio::task::LocalSet::new().run_until(with_time(Box::pin(replayed()))).await;
}

async fn replayed() {
    let base = tempfile::tempdir().unwrap();
    let (mut a, mut b) = (side(base.path(), 1, 2), side(base.path(), 2, 1));
    start(&mut a);
    start(&mut b);
    for side in [&a, &b] {
        side.to_engine.send(FromHome::Met { epoch: 1 }).await.unwrap();
    }
    a.to_engine.send(row(7, &b.fingerprint)).await.unwrap();
    let (subject, bytes) = loop {
        if let ToSend::Row { subject, bytes, .. } = a.ends.send.recv().await.unwrap() {
            break (subject, bytes::Bytes::from(bytes));
        }
    };
    let (acks, mut owed) = mpsc::channel(64);
    let arrival = || Arrival {
        subject: subject.clone(),
        bytes: bytes.clone(),
        deliveries: 1,
        ack: Some(Ack::Test(acks.clone())),
    };
    b.ends.arrivals.send(arrival()).await.unwrap();
    let ticket = loop {
        if let ToHome::Bring { ticket, from, row, .. } = b.home.recv().await.unwrap() {
            assert_eq!((from, row.message.as_str()), (a.fingerprint.clone(), "m-7"));
            break ticket;
        }
    };
    assert!(owed.try_recv().is_err(), "acknowledged before it was decided");
    let file = format!("from-{}.json", a.fingerprint);
    assert_eq!(b.folder.read(&file).unwrap(), None);
    let decision = Decision::Taken;
    b.to_engine.send(FromHome::Decided { ticket, decision }).await.unwrap();
    owed.recv().await.unwrap();
    assert!(b.folder.read(&file).unwrap().is_some(), "acknowledged before it was on disk");

    // Another life of the process. The whole stream is played again.
    let mut again = side(base.path(), 2, 0);
    start(&mut again);
    again.to_engine.send(FromHome::Met { epoch: 5 }).await.unwrap();
    for _ in 0..3 {
        again.ends.arrivals.send(arrival()).await.unwrap();
        owed.recv().await.unwrap();
    }
    while let Ok(it) = again.home.try_recv() {
        assert!(!matches!(it, ToHome::Bring { .. }), "brought a second time");
    }
}

#[tokio::test(start_paused = true)]
async fn m7_what_is_forged_or_from_nobody_known_is_counted_and_not_brought() {
    tokio::task::LocalSet::new().run_until(with_time(Box::pin(hostile()))).await;
}

async fn hostile() {
    let base = tempfile::tempdir().unwrap();
    let mut b = side(base.path(), 2, 1);
    start(&mut b);
    b.to_engine.send(FromHome::Met { epoch: 1 }).await.unwrap();
    let (a, b_key, c) = (identity(1), identity(2), identity(3));
    let (own, from_a, from_c) =
        (b.fingerprint.clone(), a.public().fingerprint(), c.public().fingerprint());
    let place = Place { epoch: 1, id: 1, after: 0 };
    let header = Header { kind: Kind::Row, place, made_ms: 1, expires_ms: u64::MAX };
    let good = envelope::write(&a, b_key.public(), &header, b"{}").unwrap();
    let mut altered = good.clone();
    let last = altered.len() - 1;
    altered[last] ^= 1;
    let stranger = envelope::write(&c, b_key.public(), &header, b"{}").unwrap();
    let row = |from: &Fingerprint| crate::subjects::subject(Kind::Row, &own, from);
    let oversized = vec![0; envelope::ENVELOPE_LEN_MAX + 1];
    let (acks, mut owed) = mpsc::channel(64);
    let sent = [
        (row(&from_a), altered),
        (row(&from_c), stranger),
        (row(&from_c), good),
        (row(&from_a), oversized),
        (row(&from_a), b"garbage".to_vec()),
    ];
    for (subject, bytes) in sent {
        let ack = Some(Ack::Test(acks.clone()));
        let arrival = Arrival { subject, bytes: bytes.into(), deliveries: 1, ack };
        b.ends.arrivals.send(arrival).await.unwrap();
        owed.recv().await.unwrap();
    }
    let refused = loop {
        match b.home.recv().await.unwrap() {
            ToHome::Report(it) if it.refused.len() == 5 => break it.refused,
            ToHome::Report(_) => {}
            other @ (ToHome::Told { .. } | ToHome::Bring { .. }) => panic!("{other:?}"),
        }
    };
    let words: Vec<_> = refused.iter().map(|it| it.0.as_str()).collect();
    for want in ["signature", "not trusted", "subject of another", "longer than", "not an envelope"]
    {
        assert!(words.iter().any(|it| it.contains(want)), "{want}: {words:?}");
    }
}
