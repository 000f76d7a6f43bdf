//! A sender of numbered messages that can be killed: it notes what was accepted, and when it is
//! started again it goes on with what was not, under the same keys.
//!
//! `sender SOCKET NAME COUNT NOTES RECEIVER...`: so many messages to the lead of each session.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and so does what it is made of"
)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use proto::error::ErrorCode;
use proto::message::{Body, SendResult};
use proto::request::Request;
use proto::response::Response;
use tests::history;
use tests::stubborn::Stubborn;

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [socket, name, count, notes, receivers @ ..] = args.as_slice() else {
        panic!("sender SOCKET NAME COUNT NOTES RECEIVER...");
    };
    let count: u64 = count.parse().unwrap();
    let said = std::fs::read_to_string(notes).unwrap_or_default();
    let mut next: Vec<u64> = receivers
        .iter()
        .map(|receiver| {
            1 + said.lines().filter(|line| line.split(' ').next() == Some(receiver)).count() as u64
        })
        .collect();
    let mut notes = OpenOptions::new().create(true).append(true).open(notes).unwrap();
    let mut client = Stubborn::new(Path::new(socket));
    // One at a time for each receiver: the order is the sender's own promise too.
    while next.iter().any(|it| *it <= count) {
        let open: Vec<_> = (0..receivers.len()).filter(|at| next[*at] <= count).collect();
        let requests: Vec<_> = open
            .iter()
            .map(|&at| {
                let (receiver, number) = (&receivers[at], next[at]);
                let body = Body::text(history::text(name, receiver, number));
                let request = Request::Send {
                    session: receiver.clone(),
                    to: "lead".into(),
                    body,
                    summary: String::new(),
                    notify_when_idle: false,
                };
                (request, Some(format!("{name}-{receiver}-{number}")))
            })
            .collect();
        for (at, answer) in open.into_iter().zip(client.calls(&requests)) {
            match answer {
                Ok(Response::Sent { results }) => {
                    assert!(
                        matches!(results.as_slice(), [SendResult::Accepted { .. }]),
                        "{results:?}"
                    );
                    notes
                        .write_all(format!("{} {}\n", receivers[at], next[at]).as_bytes())
                        .unwrap();
                    next[at] += 1;
                }
                // Said, and tried again: nothing is dropped in silence.
                Err(error) if error.code == ErrorCode::MailboxFull => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
