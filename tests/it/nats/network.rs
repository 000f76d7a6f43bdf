//! Two hosts and a server, each in a network namespace of its own: links that fall, lose and delay.
//! Needs root.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use proto::message::MessageState;
use tests::nats::{Server, TOKEN};

use super::hosts::{Host, introduce};

/// Not `netem`, which few kernels of small machines have.
const SLOW_AND_LOSSY: [&str; 13] = [
    "tc", "qdisc", "add", "dev", "v", "root", "tbf", "rate", "256kbit", "burst", "4kb", "latency",
    "100ms",
];

/// A namespace. It is there for as long as the process in it.
struct Namespace {
    holder: Child,
}

impl Namespace {
    fn new() -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "unshare", "--net", "sleep", "1000000"]);
        let holder = command.stdin(Stdio::null()).spawn().expect("unshare runs");
        let it = Self { holder };
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", it.holder.id());
        tests::wait::until_true("the namespace is there (it needs root)", || {
            std::fs::read_link(&theirs).is_ok_and(|it| it != own)
        });
        it.run(&["ip", "link", "set", "lo", "up"]);
        it
    }

    fn through(&self) -> Vec<String> {
        let net = format!("--net=/proc/{}/ns/net", self.holder.id());
        ["nsenter".to_owned(), net].to_vec()
    }

    fn run(&self, arguments: &[&str]) -> String {
        let through = self.through();
        let ran = Command::new(&through[0]).args(&through[1..]).args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{arguments:?}: {errors}");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _gone = self.holder.kill();
        let _reaped = self.holder.wait();
    }
}

/// Joins a host to the hub as network `number`.
fn join(hub: &Namespace, host: &Namespace, number: u8) {
    let (hub_end, hub_pid) = (format!("h{number}"), hub.holder.id().to_string());
    host.run(&[
        "ip", "link", "add", "v", "type", "veth", "peer", "name", &hub_end, "netns", &hub_pid,
    ]);
    let address = |end: u8| format!("10.77.{number}.{end}/24");
    host.run(&["ip", "addr", "add", &address(2), "dev", "v"]);
    host.run(&["ip", "link", "set", "v", "up"]);
    hub.run(&["ip", "addr", "add", &address(1), "dev", &hub_end]);
    hub.run(&["ip", "link", "set", &hub_end, "up"]);
}

fn join_server(host: &Host, port: &str, number: u8) {
    host.join_by(&format!("nats://10.77.{number}.1:{port}"));
}

#[test]
fn m7_rel74_partitions_loss_and_delay_between_two_hosts() {
    let (hub, net_a, net_b) = (Namespace::new(), Namespace::new(), Namespace::new());
    join(&hub, &net_a, 1);
    join(&hub, &net_b, 2);
    let folder = tempfile::Builder::new().prefix("cn.").tempdir_in("/tmp").unwrap();
    let config =
        format!("ping_interval: \"1s\"\nping_max: 2\nauthorization {{ token: \"{TOKEN}\" }}");
    let server = Server::start_with(folder.path(), &hub.through(), "0.0.0.0", &config);
    let port = server.address().rsplit(':').next().unwrap().to_owned();
    let (mut a, mut b) = (Host::start(&net_a.through()), Host::start(&net_b.through()));
    join_server(&a, &port, 1);
    join_server(&b, &port, 2);
    introduce(&mut a, &mut b);
    let (to_b, _) = (a.address(), b.address());
    let mut next = 0;
    let mut say = |a: &mut Host, count: usize| -> Vec<String> {
        (0..count)
            .map(|_| {
                next += 1;
                a.send(&to_b, &format!("number {next}."))
            })
            .collect()
    };
    // Slow, and with a queue that is too short for a burst: what does not fit is lost.
    for net in [&net_a, &net_b] {
        net.run(&SLOW_AND_LOSSY);
    }
    let mut ids = say(&mut a, 30);
    // The receiver's link falls, then the sender's too; both come back in the other order.
    net_b.run(&["ip", "link", "set", "v", "down"]);
    ids.extend(say(&mut a, 10));
    net_a.run(&["ip", "link", "set", "v", "down"]);
    ids.extend(say(&mut a, 10));
    net_b.run(&["ip", "link", "set", "v", "up"]);
    assert!(a.status().rows >= 20, "{:?}", a.status());
    net_a.run(&["ip", "link", "set", "v", "up"]);
    ids.extend(say(&mut a, 10));
    for number in 1..=ids.len() {
        let got = b.read(Duration::from_mins(2)).pop().expect("it comes");
        assert!(got.text.contains(&format!("number {number}.")), "{number}: {got:?}");
    }
    for id in &ids {
        a.wait_for(id, MessageState::Consumed);
    }
    let counted = net_a.run(&["tc", "-s", "qdisc", "show", "dev", "v"]);
    let dropped = counted.split("dropped ").nth(1).and_then(|part| part.split(',').next());
    assert_ne!(dropped, Some("0"), "nothing was lost on the way: {counted}");
    b.lead.assert_nothing_comes();
}
