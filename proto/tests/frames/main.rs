//! The border notices change: what crosses the socket, byte for byte, as it was when its revision
//! began.
//!
//! `revision-N.jsonl` beside this file has one value of each variant of each type that crosses
//! coordd's socket, as a frame and as a line; and what agent processes are given, and leave on the
//! disk, as lines. Its first line says with which version of coordd the revision is first released.
//!
//! - What differs from the file of [`REVISION`] fails. Before that release the file is made anew;
//!   after it, `REVISION` is raised in `proto/src/hello.rs` and another file begins.
//!   `COORDD_TEST_RENEW_FRAMES=1 cargo test -p proto --test frames` writes it, and refuses where
//!   `REVISION` has to be raised.
//! - Programs of different revisions speak in lines. So lines of every earlier revision must be
//!   understood, and nothing that they have may be missing from the lines of today.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is wrong by panicking"
)]

mod sample;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proto::agent::{Bootstrap, RunOutcome};
use proto::entry::Entry;
use proto::hello::REVISION;
use proto::{FromDaemon, ToDaemon, frame, line};
use sample::samples;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What asks for the file to be written.
const RENEW: &str = "COORDD_TEST_RENEW_FRAMES";

/// Fields of earlier revisions' lines that are no longer written: revision, type, path, and why
/// the reader of that field does without. Of each a build of that revision must have a default,
/// or never have read it.
const NO_LONGER_WRITTEN: &[(u32, &str, &str, &str)] = &[];

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    revision: u32,
    /// The version of coordd with which it is released first.
    version: String,
}

/// Any other line of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Golden {
    name: String,
    /// In hexadecimal; none for what never crosses the socket.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    frame: String,
    line: Value,
}

struct File {
    header: Header,
    golden: Vec<Golden>,
}

fn path_of(revision: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/frames/revision-{revision}.jsonl"))
}

fn read(revision: u32) -> Option<File> {
    let text = std::fs::read_to_string(path_of(revision)).ok()?;
    let mut lines = text.lines();
    let header = serde_json::from_str(lines.next().unwrap()).unwrap();
    let golden = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    Some(File { header, golden })
}

fn write(file: &File) {
    let mut text = serde_json::to_string(&file.header).unwrap() + "\n";
    for golden in &file.golden {
        text += &(serde_json::to_string(golden).unwrap() + "\n");
    }
    std::fs::write(path_of(file.header.revision), text).unwrap();
}

/// Numbers of a version, to be compared.
fn numbers(version: &str) -> Vec<u32> {
    version.split(['.', '-']).map_while(|number| number.parse().ok()).collect()
}

/// A type's samples as this build writes them.
fn golden<T: Serialize + DeserializeOwned>(type_name: &str, has_frame: bool) -> Vec<Golden> {
    let write = |sample: sample::Sample<T>| {
        let frame = if has_frame {
            data_encoding::HEXLOWER.encode(&frame::encode(&sample.value).unwrap()[4..])
        } else {
            String::new()
        };
        let line = line::decode(&line::encode(&sample.value).unwrap()).unwrap();
        Golden { name: format!("{type_name}: {}", sample.name), frame, line }
    };
    samples::<T>().into_iter().map(write).collect()
}

fn today() -> Vec<Golden> {
    let mut all = golden::<ToDaemon>("ToDaemon", true);
    all.extend(golden::<FromDaemon>("FromDaemon", true));
    all.extend(golden::<Bootstrap>("Bootstrap", false));
    all.extend(golden::<RunOutcome>("RunOutcome", false));
    all.extend(golden::<Entry>("Entry", false));
    all
}

fn by_name(golden: &[Golden]) -> BTreeMap<&str, &Golden> {
    let map: BTreeMap<_, _> = golden.iter().map(|it| (it.name.as_str(), it)).collect();
    assert_eq!(map.len(), golden.len(), "each name stands for one value");
    map
}

/// What is not as it was, one line each.
fn differences(was: &[Golden], is: &[Golden]) -> Vec<String> {
    let (was, is) = (by_name(was), by_name(is));
    let mut all = Vec::new();
    for (name, golden) in &was {
        match is.get(name) {
            None => all.push(format!("gone     {name}")),
            Some(now) if now != golden => {
                all.push(format!("changed  {name}\n  was {}\n  is  {}", golden.line, now.line));
            }
            Some(_) => {}
        }
    }
    all.extend(
        is.keys().filter(|name| !was.contains_key(*name)).map(|name| format!("new      {name}")),
    );
    all
}

/// What is to be done about types that are not as they were.
#[derive(Debug, PartialEq)]
enum Verdict {
    Same,
    /// Nobody has a build of this revision: its file is made anew.
    Renew,
    /// Builds of this revision are in use.
    Raise,
}

fn verdict(header: Option<&Header>, version: &str, is_different: bool) -> Verdict {
    match header {
        Some(_) if !is_different => Verdict::Same,
        Some(header) if numbers(version) > numbers(&header.version) => Verdict::Raise,
        None | Some(_) => Verdict::Renew,
    }
}

#[test]
fn d3_whatever_crosses_the_socket_is_as_its_revision_has_it() {
    let version = env!("CARGO_PKG_VERSION");
    let (before, is) = (read(REVISION), today());
    let was = before.as_ref().map_or(&[][..], |file| &file.golden);
    let different = differences(was, &is);
    let header = before.as_ref().map(|file| file.header.clone());
    let next = REVISION + 1;
    match verdict(header.as_ref(), version, !different.is_empty()) {
        Verdict::Same => assert_eq!(header.unwrap().revision, REVISION),
        Verdict::Renew if std::env::var_os(RENEW).is_some() => {
            let header =
                header.unwrap_or(Header { revision: REVISION, version: version.to_owned() });
            write(&File { header, golden: is });
        }
        Verdict::Renew => panic!(
            "{}\n\nTypes that cross the socket are not as revision-{REVISION}.jsonl has them. No build of revision {REVISION} was \
             released: if the change is meant, `{RENEW}=1 cargo test -p proto --test frames` renews the file.",
            different.join("\n")
        ),
        Verdict::Raise => panic!(
            "{}\n\nTypes that cross the socket have changed, and revision {REVISION} was released with coordd {}: raise REVISION \
             in proto/src/hello.rs to {next}, then `{RENEW}=1 cargo test -p proto --test frames` begins revision-{next}.jsonl.",
            different.join("\n"),
            header.unwrap().version
        ),
    }
}

#[test]
fn d3_a_change_under_a_released_revision_is_not_renewed() {
    let header = Header { revision: 7, version: "0.9.1".to_owned() };
    let verdict = |version, is_different| verdict(Some(&header), version, is_different);
    assert_eq!(verdict("0.9.1", true), Verdict::Renew);
    assert_eq!(verdict("0.9.0", true), Verdict::Renew);
    assert_eq!(verdict("0.10.0", true), Verdict::Raise);
    assert_eq!(verdict("0.9.2-dev", true), Verdict::Raise);
    assert_eq!(verdict("0.10.0", false), Verdict::Same);
}

/// Reads a value, and writes it again.
fn again<T: Serialize + DeserializeOwned>(golden: &Golden) -> Result<Value, String> {
    let bytes = serde_json::to_vec(&golden.line).unwrap();
    let value: T = line::decode(&bytes).map_err(|error| error.to_string())?;
    Ok(line::decode(&line::encode(&value).unwrap()).unwrap())
}

fn again_by_name(golden: &Golden) -> Result<Value, String> {
    match golden.name.split(':').next().unwrap() {
        "ToDaemon" => again::<ToDaemon>(golden),
        "FromDaemon" => again::<FromDaemon>(golden),
        "Bootstrap" => again::<Bootstrap>(golden),
        "RunOutcome" => again::<RunOutcome>(golden),
        "Entry" => again::<Entry>(golden),
        other => panic!("{other} is no type that this test knows"),
    }
}

/// Where `is` has not all that `was` has, as paths of fields.
fn missing(was: &Value, is: &Value, path: &str, into: &mut Vec<String>) {
    match (was, is) {
        (Value::Object(was), Value::Object(is)) => {
            for (name, value) in was {
                let path = format!("{path}/{name}");
                match is.get(name) {
                    Some(now) => missing(value, now, &path, into),
                    None => into.push(path),
                }
            }
        }
        (Value::Array(was), Value::Array(is)) if was.len() == is.len() => {
            for (value, now) in was.iter().zip(is) {
                missing(value, now, path, into);
            }
        }
        _ if was != is => into.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn d3_lines_of_every_earlier_revision_are_understood_and_keep_what_they_have() {
    let mut problems = Vec::new();
    for revision in 1..REVISION {
        let file =
            read(revision).unwrap_or_else(|| panic!("revision-{revision}.jsonl is not there"));
        assert!(file.golden.len() > 100, "revision {revision}");
        for golden in &file.golden {
            let mut paths = Vec::new();
            match again_by_name(golden) {
                Ok(is) => missing(&golden.line, &is, "", &mut paths),
                Err(reason) => {
                    problems.push(format!("revision {revision}, {}: {reason}", golden.name));
                }
            }
            let type_name = golden.name.split(':').next().unwrap();
            paths.retain(|path| {
                !NO_LONGER_WRITTEN
                    .iter()
                    .any(|it| (it.0, it.1, it.2) == (revision, type_name, path.as_str()))
            });
            problems.extend(
                paths.iter().map(|path| {
                    format!("revision {revision}, {}: {path} is not there", golden.name)
                }),
            );
        }
    }
    assert!(
        problems.is_empty(),
        "{}\n\nPrograms of those revisions speak to this one in lines. A new field needs #[serde(default)], a renamed one an alias \
         and the old name where it is written, and a variant stays.",
        problems.join("\n")
    );
    assert!(
        !path_of(REVISION + 1).exists(),
        "REVISION was raised and taken back: its file has to go"
    );
}

/// The values are made for frames and lines alike: what is written reads back.
#[test]
fn d3_what_is_written_in_either_codec_reads_back() {
    fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>() {
        for sample in samples::<T>() {
            let frame = frame::encode(&sample.value).unwrap();
            assert_eq!(
                frame::decode::<T>(&frame[4..]).as_ref(),
                Ok(&sample.value),
                "{}",
                sample.name
            );
            let line = line::encode(&sample.value).unwrap();
            assert_eq!(line::decode::<T>(&line).as_ref(), Ok(&sample.value), "{}", sample.name);
        }
    }
    check::<ToDaemon>();
    check::<FromDaemon>();
}

/// What makes the values makes one for each variant, at any depth, and sees what a person would
/// not.
#[test]
fn d3_each_variant_at_any_depth_has_its_value() {
    #[derive(Deserialize, PartialEq, Debug)]
    enum Inner {
        One(u8),
        Two { last: Option<Last> },
    }
    #[derive(Deserialize, PartialEq, Debug)]
    enum Last {
        A,
        B(Vec<String>),
    }
    #[derive(Deserialize, PartialEq, Debug)]
    enum Outer {
        Plain,
        Deep { number: u32, inner: Inner },
    }
    let made: Vec<_> = samples::<Outer>().into_iter().map(|sample| sample.value).collect();
    let deep = |inner| Outer::Deep { number: 70_001, inner };
    let expected = [
        Outer::Plain,
        deep(Inner::One(2)),
        deep(Inner::Two { last: Some(Last::A) }),
        deep(Inner::Two { last: None }),
        deep(Inner::Two { last: Some(Last::B(vec!["2".to_owned()])) }),
    ];
    for value in &expected {
        assert!(made.contains(value), "{value:?} is not among {made:?}");
    }
    assert_eq!(made.len(), expected.len());
}
