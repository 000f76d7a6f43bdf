//! Two engines and a server made of channels, which loses, doubles and forgets as the test wants.

use proto::bridge::Says;

use super::*;
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

/// Takes what an engine sends; what is not to be lost is stored, confirmed, and delivered to the
/// other.
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
        assert!(words.iter().any(|word| word.contains(want)), "{want}: {words:?}");
    }
}

/// A row of `from` for `to`, as it comes from the server.
fn arrival(from: &Identity, to: &Identity, id: u64, acks: &mpsc::Sender<()>) -> Arrival {
    let place = Place { epoch: 1, id, after: id - 1 };
    let header = Header { kind: Kind::Row, place, made_ms: 1, expires_ms: u64::MAX };
    let says = Says::Words { text: "x".into(), summary: String::new() };
    let row = body::Row {
        to: "s1".into(),
        from: "s9".into(),
        name: "x".into(),
        bypasses: false,
        message: format!("m-{id}"),
        says,
    };
    let bytes = envelope::write(from, to.public(), &header, &serde_json::to_vec(&row).unwrap());
    let (own, from) = (to.public().fingerprint(), from.public().fingerprint());
    Arrival {
        subject: crate::subjects::subject(Kind::Row, &own, &from),
        bytes: bytes.unwrap().into(),
        deliveries: 1,
        ack: Some(Ack::Test(acks.clone())),
    }
}

/// The next report that says of what is wrong what the test wants.
async fn report_that(side: &mut Side, wanted: impl Fn(&str) -> bool) -> String {
    loop {
        if let ToHome::Report(it) = side.home.recv().await.unwrap()
            && wanted(&it.trouble)
        {
            return it.trouble;
        }
    }
}

async fn report_that_knows(side: &mut Side, peers: usize) {
    loop {
        if let ToHome::Report(it) = side.home.recv().await.unwrap()
            && it.peers.len() == peers
        {
            return;
        }
    }
}

/// Takes what is brought next.
async fn take_one(side: &mut Side) {
    loop {
        if let ToHome::Bring { ticket, .. } = side.home.recv().await.unwrap() {
            let decision = Decision::Taken;
            side.to_engine.send(FromHome::Decided { ticket, decision }).await.unwrap();
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rel75_what_comes_from_a_peer_whose_file_is_damaged_does_not_stay_with_the_server() {
    tokio::task::LocalSet::new().run_until(with_time(Box::pin(damaged()))).await;
}

async fn damaged() {
    let base = tempfile::tempdir().unwrap();
    let mut b = side(base.path(), 2, 1);
    let (a, own) = (identity(1), identity(2));
    let file = format!("from-{}.json", a.public().fingerprint());
    b.folder.write(&file, b"{\"epoch\":").unwrap();
    start(&mut b);
    b.to_engine.send(FromHome::Met { epoch: 1 }).await.unwrap();
    let (acks, mut owed) = mpsc::channel(64);
    for _ in 0..200 {
        b.ends.arrivals.send(arrival(&a, &own, 1, &acks)).await.unwrap();
        owed.recv().await.unwrap();
        while let Ok(it) = b.home.try_recv() {
            assert!(
                !matches!(it, ToHome::Bring { .. }),
                "brought without knowing what came before"
            );
        }
    }
    let said = report_that(&mut b, |it| !it.is_empty()).await;
    assert_eq!(said.matches("nothing is taken from other:").count(), 1, "{said}");
    assert!(said.contains(&file) && said.contains("move it away"), "{said}");
    b.folder.remove(&file).unwrap();
    b.ends.arrivals.send(arrival(&a, &own, 1, &acks)).await.unwrap();
    take_one(&mut b).await;
    owed.recv().await.unwrap();
    report_that(&mut b, str::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn rel75_while_the_disk_cannot_be_written_nothing_more_is_taken() {
    tokio::task::LocalSet::new().run_until(with_time(Box::pin(stuck()))).await;
}

async fn stuck() {
    let base = tempfile::tempdir().unwrap();
    let mut b = side(base.path(), 2, 1);
    let (a, own) = (identity(1), identity(2));
    // Another sender, whose file is written after that of the first.
    let is_later = |it: &Identity| it.public().fingerprint() > a.public().fingerprint();
    let c = (3..=99).map(identity).find(is_later).unwrap();
    Trusted::add(&b.folder, own.public(), c.public(), "third").unwrap();
    start(&mut b);
    b.to_engine.send(FromHome::Met { epoch: 1 }).await.unwrap();
    let (acks, mut owed) = mpsc::channel(64);
    b.ends.arrivals.send(arrival(&a, &own, 1, &acks)).await.unwrap();
    take_one(&mut b).await;
    owed.recv().await.unwrap();
    report_that_knows(&mut b, 2).await;
    // A folder in the file's place: it cannot be replaced.
    let path = b.folder.path_of(&format!("from-{}.json", a.public().fingerprint()));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    b.ends.arrivals.send(arrival(&a, &own, 2, &acks)).await.unwrap();
    b.ends.arrivals.send(arrival(&c, &own, 1, &acks)).await.unwrap();
    // Both are there before the first is decided.
    while b.ends.arrivals.capacity() < crate::wire::ARRIVALS_MAX {
        tokio::task::yield_now().await;
    }
    take_one(&mut b).await;
    take_one(&mut b).await;
    let said = report_that(&mut b, |it| !it.is_empty()).await;
    assert!(
        said.contains("nothing is taken from other machines") && said.contains("free some space")
    );
    let mut waiting = 0;
    while b.ends.arrivals.try_send(arrival(&a, &own, 1, &acks)).is_ok() {
        waiting += 1;
    }
    for _ in 0..5 {
        report_that(&mut b, |it| !it.is_empty()).await;
    }
    assert_eq!(b.ends.arrivals.capacity(), 0, "more was taken");
    assert!(owed.try_recv().is_err(), "acknowledged before it was on disk");
    std::fs::remove_dir(&path).unwrap();
    for _ in 0..waiting + 2 {
        owed.recv().await.unwrap();
    }
    let file = format!("from-{}.json", c.public().fingerprint());
    assert!(b.folder.read(&file).unwrap().is_some(), "acknowledged, and not on disk");
    report_that(&mut b, str::is_empty).await;
}

#[tokio::test]
async fn l1_all_peers_are_told_in_turn_however_little_room_there_is() {
    let base = tempfile::tempdir().unwrap();
    let mut b = side(base.path(), 20, 0);
    let own = identity(20);
    for it in 1..=9 {
        let (key, name) = (identity(it), it.to_string());
        Trusted::add(&b.folder, own.public(), key.public(), &name).unwrap();
    }
    let mut engine = b.engine.take().unwrap();
    // Room for four, and what is due comes sooner than all are told.
    let mut heard = BTreeMap::new();
    let mut fill = vec![0; crate::wire::TO_SEND_MAX - 4];
    for _ in 0..9 {
        for _ in fill.drain(..) {
            let junk = ToSend::Stored { subject: String::new(), bytes: Vec::new() };
            engine.wire.send.try_send(junk).unwrap();
        }
        engine.announce_due = true;
        engine.tick().await;
        let mut told = 0;
        while let Ok(next) = b.ends.send.try_recv() {
            match next {
                ToSend::Now { subject, .. } => {
                    *heard.entry(subject).or_insert(0) += 1;
                    told += 1;
                }
                ToSend::Stored { .. } => fill.push(0),
                ToSend::Row { .. } => panic!("no row was given"),
            }
        }
        assert_eq!(told, 4);
        while b.home.try_recv().is_ok() {}
    }
    assert_eq!(heard.values().collect::<Vec<_>>(), [&4; 9], "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn rel75_a_row_that_came_often_is_brought_until_it_has_ended_many_processes() {
    tokio::task::LocalSet::new().run_until(with_time(Box::pin(often()))).await;
}

async fn often() {
    let base = tempfile::tempdir().unwrap();
    let (a, own) = (identity(1), identity(2));
    let (acks, mut owed) = mpsc::channel(64);
    let come = |id| Arrival { deliveries: 1_000, ..arrival(&a, &own, id, &acks) };
    // However often the server has delivered one, that alone refuses nothing.
    let mut b = side(base.path(), 2, 1);
    start(&mut b);
    b.to_engine.send(FromHome::Met { epoch: 1 }).await.unwrap();
    b.ends.arrivals.send(come(1)).await.unwrap();
    take_one(&mut b).await;
    owed.recv().await.unwrap();
    for life in 0.. {
        let mut b = side(base.path(), 2, 1);
        start(&mut b);
        b.to_engine.send(FromHome::Met { epoch: 1 }).await.unwrap();
        b.ends.arrivals.send(come(2)).await.unwrap();
        // It is brought, and that is the end of this process; or it is refused, and acknowledged.
        let is_brought = loop {
            match b.home.recv().await.unwrap() {
                ToHome::Bring { .. } => break true,
                ToHome::Report(it) if !it.letters.is_empty() => break false,
                ToHome::Report(_) | ToHome::Told { .. } => {}
            }
        };
        if !is_brought {
            assert_eq!(life, 20);
            owed.recv().await.unwrap();
            break;
        }
        assert!(owed.try_recv().is_err());
    }
}
