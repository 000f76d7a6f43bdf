//! A model on this machine that plays scripts: what a CLI under test talks to.
//!
//! It is stateless. The newest words of a user (or of the CLI itself) that a script waits for
//! choose the script, and how often the model has answered since then chooses the step. So one
//! conversation can go through several scripts, agents of one process each have their own, and a
//! request that is repeated gets the same answer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use regex::Regex;
use serde_json::{Value, json};

use super::reply::{Format, Reply};
use super::shown::Shown;
use super::{CLI_LIMIT, KEY};
use crate::endpoint;
use crate::sandbox::Sandbox;
use crate::wait;

/// What is said where no script fits: a test that sees it has forgotten one.
const NO_SCRIPT: &str = "There is no script for this.";
/// What is said when a script is used up.
const NO_STEP: &str = "The script is over.";

/// What the model says after the words that it waits for.
///
/// Texts and inputs may hold `{{PATTERN}}`: the last place in the conversation that the pattern
/// fits, or its group 1.
#[derive(Debug, Clone)]
pub struct Script {
    when: String,
    system: Option<String>,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    /// Nothing is answered before this was opened.
    gate: Option<String>,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Say(String),
    /// Says this, and ends only when the gate was opened.
    Begin(String, String),
    Call(Vec<(String, Value)>),
    CutOff(String),
    /// Status, message, and how often.
    Fail(u16, String, usize),
}

impl Script {
    /// For what is said to the model with these words in it.
    pub fn when(words: &str) -> Self {
        Self { when: words.to_owned(), system: None, steps: Vec::new() }
    }

    /// Only where the system prompt has these words in it.
    #[must_use]
    pub fn system(mut self, words: &str) -> Self {
        self.system = Some(words.to_owned());
        self
    }

    /// Says something, and ends its turn.
    #[must_use]
    pub fn say(self, text: &str) -> Self {
        self.step(What::Say(text.to_owned()))
    }

    /// Begins to say something, and goes on when `gate` is opened: in this time it can be
    /// interrupted.
    #[must_use]
    pub fn begin(self, text: &str, gate: &str) -> Self {
        self.step(What::Begin(text.to_owned(), gate.to_owned()))
    }

    /// Calls a tool.
    #[must_use]
    pub fn call(self, tool: &str, input: Value) -> Self {
        self.calls(vec![(tool, input)])
    }

    /// Calls several at once.
    #[must_use]
    pub fn calls(self, calls: Vec<(&str, Value)>) -> Self {
        let calls = calls.into_iter().map(|(tool, input)| (tool.to_owned(), input)).collect();
        self.step(What::Call(calls))
    }

    /// Says something that the limit on output cuts off.
    #[must_use]
    pub fn cut_off(self, text: &str) -> Self {
        self.step(What::CutOff(text.to_owned()))
    }

    /// Fails so often with an HTTP status, then goes on with the next step.
    #[must_use]
    pub fn fail(self, status: u16, message: &str, times: usize) -> Self {
        self.step(What::Fail(status, message.to_owned(), times))
    }

    /// The step before waits until the test opens this gate.
    #[must_use]
    pub fn after(mut self, gate: &str) -> Self {
        self.steps.last_mut().expect("a step to wait").gate = Some(gate.to_owned());
        self
    }

    fn step(mut self, what: What) -> Self {
        self.steps.push(Step { gate: None, what });
        self
    }
}

#[derive(Debug, Default)]
struct State {
    shown: Vec<Shown>,
    open: BTreeSet<String>,
    /// How often a step has failed, by script and step.
    failed: BTreeMap<(usize, usize), usize>,
    is_over: bool,
}

#[derive(Debug)]
struct Shared {
    scripts: Vec<Script>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The model. It ends with the test.
#[derive(Debug)]
pub struct Model {
    port: u16,
    shared: Arc<Shared>,
}

impl Model {
    /// Starts one. Everything that is started in the sandbox from now on asks it, and leaves the
    /// network alone.
    pub fn start(sandbox: &mut Sandbox, scripts: Vec<Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { scripts, state, changed });
        let for_all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&for_all);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        let model = Self { port, shared };
        let url = model.url();
        for (name, value) in [
            ("ANTHROPIC_BASE_URL", url.as_str()),
            ("ANTHROPIC_API_KEY", KEY),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("GOOGLE_GEMINI_BASE_URL", url.as_str()),
            ("GEMINI_API_KEY", KEY),
            ("TERM", "xterm-256color"),
        ] {
            sandbox.set(name, value);
        }
        model
    }

    /// As `ANTHROPIC_BASE_URL` has it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Lets the steps go on that wait at this gate.
    pub fn open(&self, gate: &str) {
        self.shared.state.lock().unwrap().open.insert(gate.to_owned());
        self.shared.changed.notify_all();
    }

    /// What it was shown so far, in order of arrival.
    pub fn shown(&self) -> Vec<Shown> {
        self.shared.state.lock().unwrap().shown.clone()
    }

    /// The same of the conversations in which the script that waits for these words answered.
    pub fn shown_to(&self, when: &str) -> Vec<Shown> {
        self.shown().into_iter().filter(|it| it.script.as_deref() == Some(when)).collect()
    }

    /// Waits until it was shown something of which this is true.
    pub fn wait_for(&self, what: &str, fits: impl Fn(&Shown) -> bool) -> Shown {
        wait::until_within(CLI_LIMIT, what, || self.shown().into_iter().find(&fits))
    }

    /// Fails where something was asked that no script was written for.
    pub fn assert_all_scripted(&self) {
        let forgotten: Vec<_> = self.shown().into_iter().filter(|it| it.script.is_none()).collect();
        assert!(forgotten.is_empty(), "without a script: {forgotten:#?}");
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // Who waits at a gate stops waiting. The state is not used after a panic in a thread of it.
        if let Ok(mut state) = self.shared.state.lock() {
            state.is_over = true;
        }
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// The script and its step that a request is for.
    fn place(&self, shown: &Shown) -> Option<(usize, usize)> {
        let system = shown.system();
        let mut answers = 0;
        for said in shown.said().iter().rev() {
            if said.by_model {
                answers += 1;
                continue;
            }
            let fits = |it: &Script| {
                said.text.contains(&it.when)
                    && it.system.as_ref().is_none_or(|words| system.contains(words))
            };
            if let Some(script) = self.scripts.iter().position(fits) {
                return Some((script, self.step(script, answers)));
            }
        }
        None
    }

    /// Steps that failed often enough count as answered, though the conversation does not show
    /// them.
    fn step(&self, script: usize, answers: usize) -> usize {
        let state = self.state.lock().unwrap();
        let mut left = answers;
        for (at, step) in self.scripts[script].steps.iter().enumerate() {
            let is_over = match &step.what {
                What::Fail(_, _, times) => state.failed.get(&(script, at)) == Some(times),
                _ if left > 0 => {
                    left -= 1;
                    true
                }
                _ => false,
            };
            if !is_over {
                return at;
            }
        }
        self.scripts[script].steps.len()
    }

    /// Keeps what was shown, waits at the gate, and says what to answer.
    fn reply(&self, mut shown: Shown) -> Reply {
        let place = self.place(&shown);
        shown.script = place.map(|(script, _)| self.scripts[script].when.clone());
        let all = format!("{}\n{}", shown.system(), shown.all());
        self.state.lock().unwrap().shown.push(shown);
        let Some((script, at)) = place else { return Reply::say(NO_SCRIPT) };
        let Some(step) = self.scripts[script].steps.get(at) else { return Reply::say(NO_STEP) };
        if let Some(gate) = &step.gate {
            self.wait_at(gate);
        }
        match &step.what {
            What::Say(text) => Reply::say(&filled(text, &all)),
            What::Begin(text, gate) => Reply::Begin(filled(text, &all), gate.clone()),
            What::CutOff(text) => Reply::CutOff(filled(text, &all)),
            What::Call(calls) => {
                let fill = |(tool, input): &(String, Value)| (tool.clone(), filled_in(input, &all));
                Reply::Call(calls.iter().map(fill).collect())
            }
            What::Fail(status, message, _) => {
                *self.state.lock().unwrap().failed.entry((script, at)).or_default() += 1;
                Reply::Fail(*status, message.clone())
            }
        }
    }

    fn wait_at(&self, gate: &str) {
        let deadline = Instant::now() + CLI_LIMIT;
        let mut state = self.state.lock().unwrap();
        while !state.open.contains(gate) && !state.is_over && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

/// The text with each `{{PATTERN}}` filled in.
fn filled(text: &str, all: &str) -> String {
    let mut parts = text.split("{{");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (pattern, rest) = part.split_once("}}").expect("`{{` has its `}}`");
        let pattern = Regex::new(pattern).expect("a pattern");
        let found = pattern.captures_iter(all).last();
        let found = found.and_then(|it| it.get(1).or_else(|| it.get(0)));
        out.push_str(found.map_or("(nothing fits the pattern)", |it| it.as_str()));
        out.push_str(rest);
    }
    out
}

fn filled_in(value: &Value, all: &str) -> Value {
    match value {
        Value::String(text) => json!(filled(text, all)),
        Value::Array(items) => items.iter().map(|it| filled_in(it, all)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, it)| (name.clone(), filled_in(it, all))).collect()
        }
        other => other.clone(),
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    let Some(seen) = endpoint::read(&stream) else { return };
    let path = seen.path.split('?').next().unwrap_or_default().to_owned();
    let format = match path.as_str() {
        it if it.ends_with("/v1/messages") => Format::Anthropic,
        it if it.ends_with(":streamGenerateContent") => Format::Gemini,
        it if it.ends_with(":generateContent") => Format::GeminiWhole,
        it => {
            // It is asked whether it is there, or how many tokens something has.
            let body = if it.ends_with("/count_tokens") {
                json!({ "input_tokens": 100 })
            } else {
                json!({})
            };
            let _closed = stream.write_all(&json_answer(200, &body));
            return;
        }
    };
    let shown = Shown { path: seen.path, headers: seen.headers, body: seen.body, script: None };
    let whole = shown.body["stream"] != true && format == Format::Anthropic;
    let format = if whole { Format::AnthropicWhole } else { format };
    let reply = shared.reply(shown);
    let _closed = answer(&mut stream, shared, format, &reply);
}

fn answer(
    stream: &mut impl Write,
    shared: &Shared,
    format: Format,
    reply: &Reply,
) -> std::io::Result<()> {
    if let Reply::Fail(status, message) = reply {
        return stream.write_all(&json_answer(*status, &format.error(*status, message)));
    }
    let (first, rest) = format.events(reply);
    if format.is_whole() {
        return stream.write_all(&json_answer(200, &first[0].1));
    }
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    )?;
    write_events(stream, &first)?;
    if let Reply::Begin(_, gate) = reply {
        shared.wait_at(gate);
    }
    write_events(stream, &rest)
}

fn write_events(stream: &mut impl Write, events: &[(String, Value)]) -> std::io::Result<()> {
    for (name, event) in events {
        if !name.is_empty() {
            writeln!(stream, "event: {name}")?;
        }
        write!(stream, "data: {event}\n\n")?;
    }
    stream.flush()
}

fn json_answer(status: u16, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
