//! W-13: the one way out of the box, for hosts that the user named.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;
use tests::rehearsal::{bash, call, lead, say, script};
use tests::{Daemon, story};

/// A web server that answers each request with the first line that it was sent.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut buffer = [0; 4096];
            let len = stream.read(&mut buffer).unwrap_or(0);
            let line =
                String::from_utf8_lossy(&buffer[..len]).lines().next().unwrap_or("").to_owned();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{line}",
                line.len()
            );
            let _written = stream.write_all(answer.as_bytes());
        }
    });
    port
}

/// What commands print in a box from which these hosts are reached.
fn printed(hosts: &[String], commands: &[String]) -> Vec<String> {
    let daemon = Daemon::start();
    let steps: Vec<_> = commands
        .iter()
        .map(|command| call("next", &json!([bash(command)])))
        .chain([say("Done.")])
        .collect();
    let mut client = daemon.client();
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!(steps))])));
    new.permissions.sandbox.off = false;
    new.permissions.sandbox.hosts = hosts.to_vec();
    new.prompt = "go".into();
    let lead = format!("{}/lead", client.new_session(new).name);
    client.agent_until(&lead, "has ended its run", |it| it.runs == 1);
    let entries = client.transcript(&lead);
    story::results(&entries).into_iter().map(|it| it.0.to_owned()).collect()
}

fn by_proxy(request: &str) -> String {
    format!(
        "python3 -c \"import http.client as h; c=h.HTTPConnection('127.0.0.1',3128); {request}; print(r.status, r.read())\""
    )
}

/// W-13: an allowed host is reached, plainly and through a tunnel; another is refused at once and named.
#[test]
fn w13_a_named_host_is_reached_and_another_is_named_in_the_answer() {
    let (named, other) = (echo(), echo());
    let get = |to: &str| by_proxy(&format!("c.request('GET','http://{to}/x'); r=c.getresponse()"));
    let tunnel = |port: u16| {
        by_proxy(&format!(
            "c.set_tunnel('127.0.0.1',{port}); c.request('GET','/y'); r=c.getresponse()"
        ))
    };
    let said = printed(
        &[format!("127.0.0.1:{named}")],
        &[
            get(&format!("127.0.0.1:{named}")),
            tunnel(named),
            get(&format!("127.0.0.1:{other}")),
            tunnel(other),
            "git ls-remote https://example.com/x.git".to_owned(),
            get("[::1]:1"),
        ],
    );
    assert!(said[0].contains("200 b'GET /x HTTP/1.1'"), "{}", said[0]);
    assert!(said[1].contains("200 b'GET /y HTTP/1.1'"), "{}", said[1]);
    for at in [2, 3, 4, 5] {
        assert!(!said[at].contains("200 b'"), "{}", said[at]);
        assert!(said[at].contains("No network in the sandbox; host "), "{}", said[at]);
    }
    assert!(said[2].contains(&format!("host 127.0.0.1:{other} was asked for")), "{}", said[2]);
    assert!(said[4].contains("host example.com was asked for"), "{}", said[4]);
}

/// W-13: nonsense in the list is refused before anything starts.
#[test]
fn w13_nonsense_is_no_host() {
    let daemon = Daemon::start();
    let ran = daemon.coordctl(&["new", "--model", "rehearsal", "--host", "http://x"]);
    assert!(ran.code == 2 && ran.stderr.contains("is no host"), "{ran:?}");
}
