//! rel-26, rel-82, rel-83, rel-87, case G8: what is read from outside, with the saved corpus of the
//! fuzz targets and with arbitrary bytes. `tests/fuzz` lets `cargo fuzz` look further; what it
//! finds goes into the corpus.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proto::request::Request;
use proto::response::Response;
use tests::fuzz::{TARGETS, Target};
use tests::{Client, Daemon};

/// For one input: all that reads is linear.
const INPUT_LIMIT: Duration = Duration::from_secs(5);

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(&folder).expect("a corpus").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{} has {} files", folder.display(), paths.len());
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn run(name: &str, target: Target, bytes: &[u8]) {
    let begun = Instant::now();
    target(bytes);
    assert!(
        begun.elapsed() < INPUT_LIMIT,
        "{name}: {:?} for {} bytes",
        begun.elapsed(),
        bytes.len()
    );
}

#[test]
fn rel82_the_corpus_is_read_without_a_fall() {
    for (name, target) in TARGETS {
        for bytes in corpus(name) {
            run(name, target, &bytes);
            // Cut off, doubled, and with a bit flipped here and there.
            for at in (0..bytes.len()).step_by(bytes.len() / 16 + 1) {
                run(name, target, &bytes[..at]);
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                run(name, target, &flipped);
            }
            run(name, target, &[bytes.clone(), bytes].concat());
        }
    }
}

/// rel-26: large, deep, and with lengths that lie.
#[test]
fn rel26_nothing_takes_longer_than_its_length() {
    // The longest body of a message.
    let large = 1 << 18;
    let inputs = [
        vec![b'['; large],
        b"{\"a\":".repeat(large / 5),
        vec![b'"'; large],
        vec![0xff; large],
        vec![0; large],
        b"<result>&amp;]]>".repeat(large / 16),
        [u32::MAX.to_be_bytes().as_slice(), &[7; 100]].concat(),
        b"{}\n".repeat(large / 3),
    ];
    for (name, target) in TARGETS {
        for bytes in &inputs {
            run(name, target, bytes);
        }
    }
}

/// Bytes that are more likely to get somewhere: pieces of what is read, and noise.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "{\"hello\":{}}\n",
        "{\"call\":{\"id\":1,\"request\":{\"ping\":{}}}}\n",
        "\"id\":",
        "{",
        "}",
        "[",
        "]",
        "null",
        "1e999",
        "\"\\ud800\"",
        "</task-notification>",
        "<task-notification>",
        "&lt;",
        "]]>",
        "<!--",
        "\u{202e}",
        "\u{0}",
        "\r\n",
        "\u{fffe}",
        "\"name\":\"alpha\",",
        "\"members\":[",
        "\"seq\":1,\"at_ms\":2,\"run\":1,",
        "\"text\":{\"text\":\"x\"}",
    ]);
    let piece = prop_oneof![words.prop_map(|it| it.as_bytes().to_vec()), vec(any::<u8>(), 0..9)];
    vec(piece, 0..40).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rel82_any_bytes_are_read_without_a_fall(bytes in pieces()) {
        for (_, target) in TARGETS {
            target(&bytes);
        }
    }

    /// With a right length before it, so that the body is looked at.
    #[test]
    fn rel82_any_frame_body_is_read_without_a_fall(body in vec(any::<u8>(), 0..200)) {
        let len = u32::try_from(body.len()).unwrap();
        tests::fuzz::frame(&[len.to_be_bytes().as_slice(), &body].concat());
    }
}

/// The same against the daemon: a thousand connections that bring rubbish, and it serves on.
#[test]
fn rel82_a_thousand_rubbish_connections_change_nothing() {
    let daemon = Daemon::start();
    let mut bystander: Client = daemon.client();
    let rubbish: Vec<_> =
        ["frame", "line", "entry", "notification"].into_iter().flat_map(corpus).collect();
    for (round, bytes) in rubbish.iter().cycle().take(1_000).enumerate() {
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        let greeting: &[u8] = if round % 2 == 0 { b"{\"hello\":{}}\n" } else { b"" };
        let _refused = stream.write_all(greeting).and_then(|()| stream.write_all(bytes));
    }
    assert_eq!(bystander.ok(Request::Ping {}), Response::Done {});
    assert!(!daemon.log_text().contains("panicked"));
    drop(bystander);
    daemon.stop_and_leave_nothing();
}
