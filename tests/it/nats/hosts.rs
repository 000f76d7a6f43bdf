//! Two hosts: each a daemon in a sandbox of its own, with one session whose lead the test speaks
//! for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proto::bridge::BridgeView;
use proto::message::{Body, MessageState, Receipt, SendResult};
use proto::request::Request;
use proto::response::Response;
use proto::view::{PeerKind, PeerView};
use tests::agents::{Agents, Delivered, FakeAgent};
use tests::nats::{Server, TOKEN};
use tests::wait::until_within;
use tests::{Client, Daemon, Sandbox};

/// For what needs a connection to be made again, or a message to be sent again.
pub(super) const RECOVERY_LIMIT: Duration = Duration::from_mins(1);

/// One of them.
pub(super) struct Host {
    pub(super) daemon: Daemon,
    pub(super) client: Client,
    pub(super) lead: FakeAgent,
    pub(super) session: String,
    pub(super) key: String,
    /// Ids of messages that the lead has read.
    read: BTreeSet<String>,
    run: u32,
}

impl Host {
    /// A host without a bridge, whose daemon is started through a program.
    pub(super) fn start(through: &[String]) -> Self {
        Self::start_in(Sandbox::new(), through)
    }

    /// The same in a sandbox.
    pub(super) fn start_in(mut sandbox: Sandbox, through: &[String]) -> Self {
        let mut agents = Agents::set_up(&mut sandbox);
        let through: Vec<_> = through.iter().map(String::as_str).collect();
        let daemon = Daemon::start_through(sandbox, &through);
        let lead = agents.lead(&daemon, "normal");
        let session = lead.boot.session.clone();
        let client = daemon.client();
        let key = daemon.coordctl(&["bridge", "key"]).stdout.trim().to_owned();
        assert!(key.starts_with("coordd1-"), "{key}");
        Self { daemon, client, lead, session, key, read: BTreeSet::new(), run: 1 }
    }

    /// Sets up the bridge to a server that takes the token.
    pub(super) fn join(&self, server: &Server) {
        self.join_by(&server.url());
    }

    /// The same by another address of it.
    pub(super) fn join_by(&self, url: &str) {
        let token = self.secret("token", TOKEN);
        self.join_with(&[url, "--token-file", &token]);
    }

    /// A file that others cannot read.
    pub(super) fn secret(&self, name: &str, text: &str) -> String {
        let path = self.daemon.write(name, text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Sets it up with these arguments.
    pub(super) fn join_with(&self, arguments: &[&str]) {
        let ran = self.daemon.coordctl(&[&["bridge", "add"], arguments].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
    }

    /// Trusts another host under this name.
    pub(super) fn trust(&self, other: &Self, name: &str) {
        let ran = self.daemon.coordctl(&["bridge", "trust", &other.key, "--name", name]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }

    /// Lets its session and that host's write to each other, once the bridge knows the name.
    pub(super) fn allow(&self, name: &str, more: &[&str]) {
        let arguments = [&["bridge", "allow", &self.session, name], more].concat();
        until_within(RECOVERY_LIMIT, "the bridge knows the peer", || {
            (self.daemon.coordctl(&arguments).code == 0).then_some(())
        });
    }

    pub(super) fn status(&mut self) -> BridgeView {
        match self.client.ok(Request::BridgeStatus {}) {
            Response::Bridge { bridge } => bridge,
            other => panic!("{other:?}"),
        }
    }

    /// What a person reads about an address.
    pub(super) fn why(&self, address: &str) -> String {
        let ran = self.daemon.coordctl(&["bridge", "status", address]);
        ran.stdout.lines().last().unwrap_or_default().to_owned()
    }

    /// Its bridge process, which is to run.
    pub(super) fn bridge(&self) -> tests::processes::Process {
        until_within(RECOVERY_LIMIT, "a bridge runs", || {
            let all = self.daemon.processes();
            all.into_iter().find(|it| it.command.ends_with("coordd-bridge"))
        })
    }

    /// Waits until a person who asks reads this.
    pub(super) fn says(&self, want: &str) {
        let mut last = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until_within(RECOVERY_LIMIT, want, || {
                last = self.daemon.coordctl(&["bridge", "status"]).said();
                last.contains(want).then_some(())
            });
        }));
        assert!(found.is_ok(), "{want:?} is not said: {last}");
    }

    /// Sessions on other machines that can be seen.
    pub(super) fn far(&mut self) -> Vec<PeerView> {
        match self.client.ok(Request::PeerList {}) {
            Response::Peers { peers } => {
                peers.into_iter().filter(|peer| peer.kind == PeerKind::Bridge).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// The address of the one session on another machine, once it is seen.
    pub(super) fn address(&mut self) -> String {
        until_within(RECOVERY_LIMIT, "a session on another machine is seen", || {
            self.far().first().map(|it| it.address.clone())
        })
    }

    /// Its lead writes. None where it is not accepted.
    pub(super) fn try_send(&mut self, to: &str, text: &str) -> Option<String> {
        match self.lead.client.call(send(to, text)) {
            proto::Outcome::Ok(response) => match *response {
                Response::Sent { mut results } => match results.remove(0) {
                    SendResult::Accepted { id, .. } => Some(id),
                    SendResult::Refused { reason, .. } => panic!("{reason}"),
                },
                other => panic!("{other:?}"),
            },
            proto::Outcome::Error(_) => None,
        }
    }

    pub(super) fn send(&mut self, to: &str, text: &str) -> String {
        self.try_send(to, text).expect("it is accepted")
    }

    pub(super) fn receipt(&mut self, id: &str) -> Receipt {
        match self.client.ok(Request::Receipt { message: id.into() }) {
            Response::Receipt { receipt } => receipt,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn wait_for(&mut self, id: &str, state: MessageState) -> Receipt {
        until_within(RECOVERY_LIMIT, &format!("{id} is {state:?}"), || {
            let receipt = self.receipt(id);
            (receipt.state == state).then_some(receipt)
        })
    }

    /// Reads what has come, within a time, and says so. What is handed over again was read before.
    pub(super) fn read(&mut self, within: Duration) -> Vec<Delivered> {
        let mut got = Vec::new();
        let deadline = Instant::now() + within;
        while let Some(order) =
            self.lead.client.order_within(deadline.saturating_duration_since(Instant::now()))
        {
            let proto::agent::Order::Deliver { message, origin, text, shutdown } = order else {
                panic!("{order:?}")
            };
            self.lead.acknowledge(&[&message], self.run);
            if self.read.insert(message.clone()) {
                got.push(Delivered { message, origin, text, shutdown });
                break;
            }
        }
        got
    }

    /// The next message that its lead reads.
    pub(super) fn read_one(&mut self) -> Delivered {
        self.read(RECOVERY_LIMIT).pop().expect("something comes")
    }

    /// After a restart of the daemon.
    pub(super) fn meet_again(&mut self) {
        self.lead.reconnect(&self.daemon);
        self.client = self.daemon.client();
    }
}

pub(super) fn send(to: &str, text: &str) -> Request {
    Request::Send {
        session: String::new(),
        to: to.into(),
        body: Body::text(text),
        summary: String::new(),
        notify_when_idle: false,
    }
}

/// Two hosts that know each other, and whose sessions may write to each other.
pub(super) fn pair(server: &Server) -> (Host, Host) {
    let (mut a, mut b) = (Host::start(&[]), Host::start(&[]));
    a.join(server);
    b.join(server);
    introduce(&mut a, &mut b);
    (a, b)
}

/// One message there and one back, each read and known to be.
pub(super) fn talk(a: &mut Host, b: &mut Host) {
    let (to_b, to_a) = (a.address(), b.address());
    let id = a.send(&to_b, "there?");
    assert!(b.read_one().text.contains("there?"));
    a.wait_for(&id, MessageState::Consumed);
    let id = b.send(&to_a, "here");
    assert!(a.read_one().text.contains("here"));
    b.wait_for(&id, MessageState::Consumed);
}

/// A server in a folder of its own.
pub(super) fn server() -> (tempfile::TempDir, Server) {
    let folder = folder();
    let server = Server::start(&folder.path().join("server"));
    (folder, server)
}

/// A folder that goes with the test.
pub(super) fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("cn.").tempdir_in("/tmp").unwrap()
}

/// Keys are told by hand, and each user allows it.
pub(super) fn introduce(a: &mut Host, b: &mut Host) {
    a.trust(b, "bee");
    b.trust(a, "ay");
    a.allow("bee", &[]);
    b.allow("ay", &[]);
}
