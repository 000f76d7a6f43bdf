//! What passed between a CLI and its driver, made fit to be kept: dummies for all that names
//! a machine or a moment, and none of the texts of its makers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

/// In place of a text of the makers.
const CUT: &str = "(cut)";

/// No text that a test wrote is longer, and few of the makers' sentences are shorter.
pub const TEXT_LEN_MAX: usize = 80;

/// Lists and objects of what one installation offers, or counts. They are the makers' words, and
/// nobody reads them.
const OFFERS: [&str; 13] = [
    "account",
    "agents",
    "available_output_styles",
    "capabilities",
    "commands",
    "memory_paths",
    "model_usage_since_last_result",
    "models",
    "plugins",
    "skills",
    "slash_commands",
    "subagent_stats",
    "terminal_slash_commands",
];

/// Numbers and texts that are different each time.
const MOMENTS: [&str; 13] = [
    "costUSD",
    "end_time",
    "finished_at",
    "nameSince",
    "pid",
    "procStart",
    "startedAt",
    "statusUpdatedAt",
    "total_cost_usd",
    "updatedAt",
    "verifiedPeerPid",
    "verifiedPeerProcStart",
    "verified_pid",
];

/// Ids that are known by their place only.
const IDS: [&str; 4] = ["hold_id", "ref", "run_id", "task_id"];

/// Kinds of ids, as the pattern of [`Cleaner`] names them.
const KINDS: [&str; 10] = [
    "uuid",
    "call",
    "message",
    "digest",
    "token",
    "chain",
    "agent",
    "process",
    "reference",
    "machine",
];

/// An id that is so long is the same wherever it stands.
const ID_LEN_MIN: usize = 8;

/// Where recordings are kept.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/cli")
}

/// Reads a recording.
pub fn read(version: &str, name: &str) -> Vec<Value> {
    let path = folder().join(version).join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Replaces what must not be kept. One for all lines of a recording, so that what was equal stays
/// equal.
#[derive(Debug)]
pub(super) struct Cleaner {
    sandbox: Vec<(String, &'static str)>,
    ids: Regex,
    times: Regex,
    known: BTreeMap<String, String>,
    /// How many there are of each kind.
    counts: BTreeMap<&'static str, usize>,
}

impl Cleaner {
    pub(super) fn new(sandbox: &Path, url: &str) -> Self {
        let path = sandbox.to_str().expect("a path of a test").to_owned();
        let as_name: String =
            path.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
        let sandbox =
            vec![(path, "/sandbox"), (as_name, "-sandbox"), (url.to_owned(), "http://model")]
                .into_iter()
                .filter(|(what, _)| !what.is_empty())
                .collect();
        Self {
            sandbox,
            ids: Regex::new(concat!(
                r"\b(?:(?<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})|(?<call>toolu_test\d{20})",
                r"|(?<message>msg_test\d{20})|(?<digest>[0-9a-f]{64})|(?<token>[0-9a-f]{32})",
                r"|(?<chain>[0-9a-f]{24})|(?<agent>a[0-9a-f]{16})|(?<process>\d+)(?:\.sock|\.json)",
                r"|\[(?<reference>[0-9a-f]{6})\]|linux:(?<machine>[^:]*:pid:\[\d+\]))"
            ))
            .expect("a pattern"),
            times: Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z").expect("a pattern"),
            known: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => json!(self.text(text)),
            Value::Array(items) => items.iter().map(|it| self.value(it)).collect(),
            Value::Object(fields) => Value::Object(self.object(fields)),
            other => other.clone(),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>) -> Map<String, Value> {
        let mut clean = Map::new();
        // In one order, whatever the order in which they came.
        let mut sorted: Vec<_> = fields.iter().collect();
        sorted.sort_by_key(|(name, _)| *name);
        for (name, value) in sorted {
            let value = match value {
                Value::Array(_) if OFFERS.contains(&name.as_str()) => json!([]),
                Value::Object(_) if OFFERS.contains(&name.as_str()) => json!({}),
                Value::Number(it) if is_moment(name) && it.is_f64() => json!(0.5),
                Value::Number(_) if is_moment(name) => json!(1),
                Value::String(_) if is_moment(name) => json!("1"),
                Value::String(_) if is_of_makers(name, fields) => json!(CUT),
                Value::String(id) if IDS.contains(&name.as_str()) => json!(self.id("id", id)),
                other => self.value(other),
            };
            clean.insert(self.text(name), value);
        }
        clean
    }

    fn text(&mut self, text: &str) -> String {
        let mut clean = text.to_owned();
        for (what, by) in &self.sandbox {
            clean = clean.replace(what, by);
        }
        // Short ones are told by what stands around them.
        for (id, by) in self.known.iter().filter(|(id, _)| id.len() >= ID_LEN_MIN) {
            clean = clean.replace(id, by);
        }
        if !may_stay(&clean) {
            return CUT.to_owned();
        }
        let ids = self.ids.clone();
        let clean = ids.replace_all(&clean, |found: &Captures<'_>| {
            let kind = KINDS.iter().find_map(|kind| Some((*kind, found.name(kind)?.as_str())));
            let (kind, id) = kind.expect("one of them");
            found[0].replace(id, &self.id(kind, id))
        });
        self.times.replace_all(&clean, "2026-01-01T00:00:00.000Z").into_owned()
    }

    /// The dummy for an id: of the same shape, numbered in the order of appearance.
    fn id(&mut self, kind: &'static str, id: &str) -> String {
        if let Some(known) = self.known.get(id) {
            return known.clone();
        }
        // A dummy that comes by again is one already.
        if self.known.values().any(|it| it == id) {
            return id.to_owned();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let dummy = match kind {
            "uuid" => format!("00000000-0000-4000-8000-{count:012}"),
            "call" => format!("toolu_{count:024}"),
            "message" => format!("msg_{count:024}"),
            "digest" => format!("{count:064}"),
            "token" => format!("{count:032}"),
            "chain" => format!("{count:024}"),
            "agent" => format!("a{count:016}"),
            "process" => format!("{}", 1000 + *count),
            "machine" => format!("machine:pid:[{count}]"),
            "reference" => format!("{count:06}"),
            _ => format!("{kind}-{count}"),
        };
        self.known.insert(id.to_owned(), dummy.clone());
        dummy
    }
}

/// What a program says about itself and its makers.
fn is_of_makers(name: &str, fields: &Map<String, Value>) -> bool {
    fields.contains_key("websiteUrl") && ["description", "title", "websiteUrl"].contains(&name)
}

/// Whether a text can be kept, for its length or its kind: a path, or what goes over a socket.
pub fn may_stay(text: &str) -> bool {
    text.len() <= TEXT_LEN_MAX
        || text.starts_with("/sandbox/")
        || text.starts_with("<cross-session-message ")
}

fn is_moment(name: &str) -> bool {
    name.ends_with("_ms") || name.ends_with("Ms") || MOMENTS.contains(&name)
}

/// What the lines of a recording look like: for each kind of line, the names of all that stands in
/// it.
pub fn shapes(lines: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let mut shapes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut of_shell = BTreeSet::new();
    for line in lines {
        let (way, line) = line.as_object().and_then(|it| it.iter().next()).expect("a way");
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let of_response = line["response"]["subtype"].as_str().unwrap_or_default();
        let kind = format!("{way} {}/{}{of_response}", word("type"), word("subtype"));
        // What takes a while is told to go on, which depends on the machine.
        if line["task_type"] == "local_bash" {
            of_shell.insert(word("task_id"));
        }
        // And so does how much of an answer there was when it was interrupted.
        if line["aborted"] == true
            || kind.contains("tool_progress")
            || of_shell.contains(&word("task_id"))
        {
            continue;
        }
        names(line, String::new(), shapes.entry(kind).or_default());
    }
    shapes
}

fn names(value: &Value, place: String, found: &mut BTreeSet<String>) {
    match value {
        // Its names are those of models.
        Value::Object(_) if place.ends_with("modelUsage") => {
            found.insert(place);
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                names(value, format!("{place}.{name}"), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                names(item, format!("{place}[]"), found);
            }
        }
        _ => {
            found.insert(place);
        }
    }
}
