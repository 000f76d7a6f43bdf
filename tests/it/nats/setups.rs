//! The set-ups of `coordd/BRIDGE.md`, word by word: one server with the permissions that stand
//! there, leaf nodes, and a tunnel.

use nkeys::KeyPair;
use tests::forwarder::{Forwarder, Way};
use tests::nats::{Server, TOKEN};

use super::hosts::{Host, folder, introduce, talk};
use super::secured::authorities;

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../coordd/BRIDGE.md");
    std::fs::read_to_string(path).unwrap()
}

/// What stands between two texts of the document.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from:?} in BRIDGE.md"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to:?} in BRIDGE.md")).0
}

/// A machine's fingerprint and key at the server.
struct Machine {
    host: Host,
    fingerprint: String,
    pair: KeyPair,
}

fn machine() -> Machine {
    let host = Host::start(&[]);
    // Whoever trusts the key is told its fingerprint.
    let other = tests::Daemon::start();
    let said = other.coordctl(&["bridge", "trust", &host.key, "--name", "x"]).stdout;
    let fingerprint = between(&said, "fingerprint is ", "\n").to_owned();
    Machine { host, fingerprint, pair: KeyPair::new_user() }
}

#[test]
fn m7_one_server_with_the_permissions_of_the_document() {
    let folder = folder();
    authorities(folder.path());
    let document = document();
    let block = between(&document, "### One server", "## ");
    let tls =
        between(block, "tls {", "}").replace("srv.", &format!("{}/srv.", folder.path().display()));
    let user = between(block, "users: [", "\n] }");
    let mut all = [machine(), machine()];
    let users = all.each_ref().map(|it| {
        user.replace("UA…", &it.pair.public_key()).replace("FINGERPRINT", &it.fingerprint)
    });
    let config = format!("tls {{ {tls} }}\nauthorization {{ users: [ {} ] }}", users.concat());
    let server = Server::start_with(&folder.path().join("server"), &[], "127.0.0.1", &config);
    let url = server.url().replace("nats:", "tls:");
    let ca = folder.path().join("ca.crt");
    let join = |host: &Host, pair: &KeyPair| {
        let seed = host.secret("seed", &pair.seed().unwrap());
        host.join_with(&[&url, "--ca", ca.to_str().unwrap(), "--nkey-file", &seed]);
    };
    for it in &all {
        join(&it.host, &it.pair);
    }
    let [a, b] = &mut all;
    introduce(&mut a.host, &mut b.host);
    talk(&mut a.host, &mut b.host);
    // A machine with the credentials of another can neither speak under its own name nor fetch
    // anything.
    let c = Host::start(&[]);
    join(&c, &a.pair);
    c.says("does not allow this user enough");
    c.trust(&b.host, "bee");
    b.host.trust(&c, "cee");
    b.host.allow("cee", &[]);
    c.says("does not allow this user enough");
    let log = std::fs::read_to_string(folder.path().join("server/log")).unwrap();
    assert!(log.contains("Subscription Violation"), "{log}");
    let known = b.host.status().peers;
    assert!(known.iter().any(|it| it.name == "cee" && it.heard_ms == 0), "{known:?}");
    talk(&mut a.host, &mut b.host);
}

/// A leaf with or without a store of its own; each host speaks to another server.
fn leaf(leaf_store: Option<&str>) {
    let folder = folder();
    let token = format!("authorization {{ token: \"{TOKEN}\" }}");
    let at = |name: &str| folder.path().join(name);
    let config = format!(
        "{token}\nleafnodes {{ listen: \"127.0.0.1:-1\", authorization {{ user: leaf, password: word }} }}"
    );
    let hub = Server::start_as(&at("hub"), &[], "127.0.0.1", &config, Some("domain: hub"));
    let link = Forwarder::to(&format!("127.0.0.1:{}", hub.leaves()));
    let remote = link.url().replace("nats://", "nats://leaf:word@");
    let config =
        format!("{token}\nleafnodes {{ reconnect: \"1s\", remotes: [ {{ url: \"{remote}\" }} ] }}");
    let laptop = Server::start_as(&at("laptop"), &[], "127.0.0.1", &config, leaf_store);
    let (mut a, mut b) = (Host::start(&[]), Host::start(&[]));
    let join = |host: &Host, server: &Server| {
        let token = host.secret("token", TOKEN);
        let url = server.url();
        host.join_with(&[&url, "--token-file", &token, "--domain", "hub"]);
    };
    join(&a, &laptop);
    join(&b, &hub);
    introduce(&mut a, &mut b);
    talk(&mut a, &mut b);
    // While the hub cannot be reached, messages wait in the sender's daemon.
    let to_b = a.address();
    link.turn(Way::Broken);
    let id = a.send(&to_b, "said on the way");
    b.lead.assert_nothing_comes();
    link.turn(Way::Open { delay: std::time::Duration::ZERO });
    assert!(b.read_one().text.contains("said on the way"));
    a.wait_for(&id, proto::message::MessageState::Consumed);
}

#[test]
fn m7_a_leaf_node_without_jetstream() {
    leaf(None);
}

#[test]
fn m7_a_leaf_node_with_a_store_of_its_own() {
    leaf(Some("domain: laptop"));
}

/// A server on the loopback of one machine, and of the other machine a port that is carried there:
/// all that `ssh -L` gives.
#[test]
fn m7_a_server_behind_a_tunnel_that_falls() {
    let (_folder, server) = super::hosts::server();
    let tunnel = Forwarder::to(&server.address());
    let (mut a, mut b) = (Host::start(&[]), Host::start(&[]));
    a.join_by(&tunnel.url());
    b.join(&server);
    introduce(&mut a, &mut b);
    talk(&mut a, &mut b);
    let to_b = a.address();
    tunnel.turn(Way::Broken);
    a.says("not reachable");
    let id = a.send(&to_b, "while it is down");
    tunnel.turn(Way::Open { delay: std::time::Duration::ZERO });
    assert!(b.read_one().text.contains("while it is down"));
    a.wait_for(&id, proto::message::MessageState::Consumed);
}
