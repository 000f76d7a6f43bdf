//! Sessions of other programs: ours stand in their list and have a socket each, and messages go to
//! theirs (M-6, M-9, M-10).
//!
//! ```text
//!   reactor ──▶ Order ──▶ run ─┬─▶ registry.rs    who is listed in ~/.claude/sessions
//!                              ├─▶ inbox.rs       what they say to our sockets ──▶ Arrival::Outside ──▶ reactor
//!                              └─▶ outbound.rs    what we say to theirs, after vetting.rs ──▶ Input::Handed ──▶ reactor
//! ```
//!
//! `claude.rs` alone knows the lines, `registry.rs` the files, `place.rs` the folders. Nothing here
//! decides who is heard: that is the core's. The reactor never waits for any of it.

mod claude;
mod inbox;
mod listing;
mod looking;
mod outbound;
mod place;
mod registry;
mod vetting;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use claude::Speaker;
use coordd_core::Input;
use coordd_core::id::{MessageId, SessionId};
use coordd_core::outgoing::Kind;
use inbox::Routes;
use looking::Inbox;
use outbound::Saying;
use place::Place;
use proto::address::Address;
use proto::error::ErrorBody;
use proto::view::PeerView;
use registry::Registry;
use sha2::Digest as _;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::clock;
use crate::failpoint;
use crate::ground::Watch;
use crate::paths::Paths;
use crate::peer::Handle;
use crate::reactor::Arrival;

/// Orders that wait: the core lets so many messages be on their way, and changes of sessions are
/// merged before.
const ORDERS_WAITING_MAX: usize = 2_048;
/// Connections to all inboxes that are looked at; more wait in the kernel's queues.
const CONNECTIONS_MAX: usize = 64;
/// Connections to inboxes that speak coordd's own protocol: it is meant for its socket.
const GREETED_MAX: usize = 32;
/// Messages that are handed out at once, each to another receiver.
const SAYINGS_MAX: usize = 16;
/// Receivers whose order is kept; those that nothing waits for are forgotten beyond it.
const RECEIVERS_MAX: usize = 256;

/// Addresses of one name that a refusal lists.
const NAMED_MAX: usize = 5;

/// A session of ours, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) cwd: String,
    pub(crate) status: &'static str,
    pub(crate) created_ms: u64,
}

/// A message for somebody outside.
#[derive(Debug)]
pub(crate) struct HandOut {
    pub(crate) outgoing: MessageId,
    pub(crate) session: Option<SessionId>,
    pub(crate) name: String,
    pub(crate) bypasses: bool,
    pub(crate) to: String,
    pub(crate) wire_id: String,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// What the reactor wants.
#[derive(Debug)]
pub(crate) enum Order {
    /// A session is there, has changed, or is gone.
    Seen(SessionId, Option<Seen>),
    /// Look whether the sockets and the entries are still there.
    Look,
    /// Say something.
    HandOut(Box<HandOut>),
    /// Answer with these and with all who are listed.
    List(Vec<PeerView>, (Handle, u64)),
    /// Answer that no agent has this name, and which other session has it.
    Unknown(String, ErrorBody, (Handle, u64)),
}

/// The way to the peers. It never blocks.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    orders: mpsc::Sender<Order>,
}

impl Peers {
    /// A handle for orders, and the task that carries them out until the handle is dropped.
    ///
    /// Sessions that are not to be listed have their sockets all the same.
    pub(crate) fn start(
        paths: Arc<Paths>,
        is_listed: bool,
        routes: crate::peer::Routes,
        watch: Arc<Watch>,
    ) -> (Self, JoinHandle<()>) {
        let (orders, queue) = mpsc::channel(ORDERS_WAITING_MAX);
        (Self { orders }, tokio::task::spawn(run((paths, is_listed, watch), routes, queue)))
    }

    /// Whether it was taken.
    pub(crate) fn push(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }
}

/// All that is needed to do it.
struct World {
    paths: Arc<Paths>,
    /// What tells this daemon from others.
    mark: String,
    watch: Arc<Watch>,
    registry: Registry,
    /// Whether sessions of ours are put into the list.
    is_listed: bool,
    place: Option<Place>,
    routes: Routes,
    own: HashMap<SessionId, OwnSession>,
    /// The inbox for answers to the user.
    for_user: Option<Inbox>,
    /// For each receiver a single place, so that what is said to it stays in order.
    turns: HashMap<String, Arc<Semaphore>>,
    sayings: Arc<Semaphore>,
}

/// A session that is listed.
struct OwnSession {
    seen: Seen,
    token: String,
    inbox: Option<Inbox>,
    /// What is wrong with it, as it was said.
    trouble: String,
}

/// Does what is ordered until the reactor is gone; then nothing of ours is left.
async fn run(
    (paths, is_listed, watch): (Arc<Paths>, bool, Arc<Watch>),
    own: crate::peer::Routes,
    mut orders: mpsc::Receiver<Order>,
) {
    let mark = mark(&paths.state.path());
    let registry = Registry::new(&paths.home, &mark);
    let looked = (Arc::clone(&paths), mark.clone());
    let opened = blocking(move || Place::open(&looked.0, &looked.1)).await;
    let place = match opened {
        Some(Ok(place)) => Some(place),
        Some(Err(wrong)) => {
            let text = format!(
                "other programs cannot write to sessions: there is no folder for their sockets ({wrong})"
            );
            let _told = own.reactor.send(Arrival::Degraded(text)).await;
            None
        }
        None => None,
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (greeted, count) = (Arc::new(Semaphore::new(GREETED_MAX)), Arc::new(AtomicU64::new(0)));
    let reactor = own.reactor.clone();
    let routes = Routes { own, greeted, count, reactor, registry: registry.clone(), places };
    let mut world = World {
        paths,
        mark,
        watch,
        registry,
        is_listed,
        place,
        routes,
        own: HashMap::new(),
        for_user: None,
        turns: HashMap::new(),
        sayings: Arc::new(Semaphore::new(SAYINGS_MAX)),
    };
    world.begin().await;
    while let Some(order) = orders.recv().await {
        match order {
            Order::Seen(session, Some(seen)) => world.show(session, seen).await,
            Order::Seen(session, None) => world.hide(&session).await,
            Order::Look => world.look().await,
            Order::HandOut(it) => world.hand_out(*it),
            Order::List(own, reply) => world.list(own, reply),
            Order::Unknown(name, error, reply) => world.unknown(name, error, reply),
        }
    }
    for session in world.own.keys().cloned().collect::<Vec<_>>() {
        world.hide(&session).await;
    }
    let for_user = world.for_user.take();
    world.end(None, for_user).await;
}

impl World {
    /// Takes away what an earlier daemon of this state left, and what it left alone.
    async fn begin(&mut self) {
        let registry = self.registry.clone();
        let left = blocking(move || registry.clean()).await.unwrap_or_default();
        let Some(place) = &self.place else { return };
        for socket in left.iter().filter(|it| place.is_ours(it)) {
            remove_socket(place, socket);
        }
        self.serve_user().await;
    }

    async fn show(&mut self, session: SessionId, seen: Seen) {
        if let Some(own) = self.own.get_mut(&session) {
            own.seen = seen;
        } else {
            let Ok(token) = token() else { return };
            self.own.insert(session.clone(), OwnSession::new(seen, token));
        }
        if self.serve_own(&session).await && self.is_listed {
            self.list_own(&session).await;
        }
    }

    async fn hide(&mut self, session: &SessionId) {
        let Some(own) = self.own.remove(session) else { return };
        self.end(Some(session), own.inbox).await;
        let (registry, id) = (self.registry.clone(), session.0.clone());
        blocking(move || registry.remove(&id)).await;
    }

    fn hand_out(&mut self, it: HandOut) {
        if self.turns.len() > RECEIVERS_MAX {
            self.turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        let turn = self.turns.entry(it.to.clone()).or_insert_with(|| Arc::new(Semaphore::new(1)));
        let (turn, sayings) = (Arc::clone(turn), Arc::clone(&self.sayings));
        let address = self.place.as_ref().map(|place| place.path(it.session.as_ref()));
        let address = address.map(|path| socket_address(&path)).unwrap_or_default();
        let from = Speaker { address, name: it.name, bypasses: it.bypasses };
        let saying = Saying { from, wire_id: it.wire_id, kind: it.kind, text: it.text };
        let (registry, reactor) = (self.registry.clone(), self.routes.reactor.clone());
        let (to, outgoing) = (it.to, it.outgoing);
        tokio::task::spawn(async move {
            let _turn = turn.acquire().await;
            let _place = sayings.acquire().await;
            failpoint::reach(failpoint::BEFORE_SAYING);
            let said = blocking(move || outbound::say(Path::new(&to), &registry, &saying)).await;
            failpoint::reach(failpoint::AFTER_SAYING);
            let failed = match said {
                Some(Ok(())) => None,
                Some(Err(why)) => Some(why),
                None => Some("it was cut off; it may have the message".to_owned()),
            };
            // Fails only when the reactor has ended.
            let _told = reactor.send(Arrival::Input(Input::Handed { outgoing, failed })).await;
        });
    }

    fn list(&self, own: Vec<PeerView>, (handle, call): (Handle, u64)) {
        let registry = self.registry.clone();
        tokio::task::spawn(async move {
            let others = blocking(move || listing::others(&registry)).await.unwrap_or_default();
            let peers = own.into_iter().chain(others).collect();
            let response = proto::response::Response::Peers { peers };
            handle.reply(call, proto::Outcome::Ok(Box::new(response)));
        });
    }

    fn unknown(&self, name: String, mut error: ErrorBody, (handle, call): (Handle, u64)) {
        let registry = self.registry.clone();
        tokio::task::spawn(async move {
            let found = blocking(move || listing::named(&registry, &name)).await;
            let found = found.into_iter().flatten().take(NAMED_MAX);
            let addresses: Vec<_> = found.map(|it| it.address).collect();
            if !addresses.is_empty() {
                let all = addresses.join(", ");
                error.hint = format!("{}; outside of coordd it is {all}", error.hint);
            }
            handle.reply(call, proto::Outcome::Error(error));
        });
    }
}

async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(act).await.ok()
}

/// Its socket is closed when this is over.
async fn stopped(inbox: JoinHandle<()>) {
    inbox.abort();
    let _cut_off = inbox.await;
}

fn remove_socket(place: &Place, path: &Path) {
    let Some(name) = path.file_name() else { return };
    // One that answers is served by somebody else.
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return;
    }
    let _gone = rustix::fs::unlinkat(place.dir(), name, rustix::fs::AtFlags::empty());
}

/// What tells the daemon of one state folder from that of another.
fn mark(state: &Path) -> String {
    let whole = sha256_hex(state.as_os_str().as_encoded_bytes());
    whole.chars().take(16).collect()
}

/// A fresh secret of 32 digits.
fn token() -> anyhow::Result<String> {
    let random: [u8; 32] = clock::random()?;
    Ok(sha256_hex(&random).chars().take(32).collect())
}

fn sha256_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in sha2::Sha256::digest(bytes) {
        let _fits = write!(text, "{byte:02x}");
    }
    text
}

/// The address of a socket.
pub(crate) fn socket_address(path: &Path) -> String {
    Address::Uds(path.to_string_lossy().into_owned()).to_string()
}
