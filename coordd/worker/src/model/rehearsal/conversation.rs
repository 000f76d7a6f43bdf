//! What was said so far, read from the body of a request: tools, turns, workers and their runs.
//!
//! It reads leniently: what it does not know is not its business.

use std::collections::BTreeMap;

use proto::notification::{self, Told};
use regex::Regex;
use serde_json::Value;

/// A conversation as the script sees it.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) model: String,
    pub(super) tools: Vec<String>,
    /// The assistant's turns, waiting ones included.
    pub(super) turns: usize,
    /// What the assistant said in those of its turns that call no tool, and in the others nothing.
    pub(super) said: Vec<String>,
    /// All text of the first user turn.
    pub(super) prompt: String,
    /// The size of the request, for made-up usage.
    pub(super) len: usize,
    /// What the agent was told: the system prompt, then its user texts, in order.
    told: Vec<String>,
    /// Everything that was said, in order.
    texts: Vec<String>,
    last_tool_result: Option<String>,
    agents: BTreeMap<String, AgentSeen>,
}

/// A worker that this conversation has to do with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AgentSeen {
    pub(super) id: String,
    /// Where its newest run was started.
    started_at: usize,
    pub(super) ended: Option<RunEnded>,
}

/// The last notification of a worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunEnded {
    at: usize,
    pub(super) status: String,
    pub(super) result: String,
}

impl Conversation {
    /// Reads the body of a Messages request.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let messages = body.get("messages").and_then(Value::as_array).ok_or("no `messages`")?;
        let mut reader = Reader::default();
        let it = &mut reader.conversation;
        it.len = body.to_string().len();
        body.get("model").and_then(Value::as_str).unwrap_or_default().clone_into(&mut it.model);
        let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
        it.tools = tools.filter_map(|tool| text_at(tool, "name")).map(str::to_owned).collect();
        let system = body.get("system").map(text_of).unwrap_or_default();
        it.told.push(system.clone());
        it.texts.push(system);
        for message in messages {
            reader.message(message);
        }
        Ok(reader.conversation)
    }

    /// The worker of that name.
    pub(super) fn agent(&self, name: &str) -> Option<&AgentSeen> {
        self.agents.get(name)
    }

    /// Whether the newest run of the worker has come to its end, whatever end.
    pub(super) fn has_ended(&self, name: &str) -> bool {
        self.agent(name)
            .is_some_and(|agent| agent.ended.as_ref().is_some_and(|end| end.at > agent.started_at))
    }

    /// The last `label: path` line that the agent was told.
    pub(super) fn told(&self, label: &str) -> Option<String> {
        let lines = self.told.iter().rev().flat_map(|text| text.lines().rev());
        lines.map(|line| line.trim_start_matches([' ', '\t', '-', '*'])).find_map(|line| {
            let path = line.strip_prefix(label)?.strip_prefix(':')?;
            let path = path.trim().trim_matches('`');
            (!path.is_empty()).then(|| path.to_owned())
        })
    }

    pub(super) fn last_tool_result(&self) -> Option<&str> {
        self.last_tool_result.as_deref()
    }

    /// The last match in all that was said: group 1 where the pattern has one.
    pub(super) fn last_match(&self, pattern: &Regex) -> Option<String> {
        self.texts.iter().rev().find_map(|text| {
            let found = pattern.captures_iter(text).last()?;
            found.get(1).or_else(|| found.get(0)).map(|it| it.as_str().to_owned())
        })
    }
}

/// Goes through the messages once, in order.
#[derive(Default)]
struct Reader {
    conversation: Conversation,
    /// What has been said is counted, so that a start and an end can be put in order.
    at: usize,
    user_turns: usize,
    /// Calls that wait for their result: what each was about.
    calls: BTreeMap<String, Started>,
}

/// A call that may start a run.
enum Started {
    Agent { name: String },
    Message { to: String },
}

impl Reader {
    fn message(&mut self, message: &Value) {
        let is_user = text_at(message, "role") == Some("user");
        let content = message.get("content").unwrap_or(&Value::Null);
        let plain = [content.clone()];
        let blocks = content.as_array().map_or(plain.as_slice(), Vec::as_slice);
        if is_user {
            self.user_turns += 1;
            for block in blocks {
                self.user_block(block);
            }
        } else {
            self.assistant_turn(blocks);
        }
    }

    fn assistant_turn(&mut self, blocks: &[Value]) {
        let mut text = String::new();
        let mut calls = false;
        for block in blocks {
            self.at += 1;
            if text_at(block, "type") == Some("tool_use") {
                calls = true;
                self.call(block);
            } else {
                text.push_str(&text_of(block));
            }
        }
        self.conversation.turns += 1;
        self.conversation.said.push(if calls { String::new() } else { text.clone() });
        self.conversation.texts.push(text);
    }

    fn call(&mut self, block: &Value) {
        let input = block.get("input").unwrap_or(&Value::Null);
        let field = |name| text_at(input, name).unwrap_or_default().to_owned();
        let started = match text_at(block, "name") {
            Some("Agent") => Started::Agent { name: field("name") },
            // Only plain words make a worker run; the structured kinds do not.
            Some("SendMessage") if text_at(input, "message").is_some() => {
                Started::Message { to: field("to") }
            }
            Some(_) | None => return,
        };
        self.calls.insert(text_at(block, "id").unwrap_or_default().to_owned(), started);
    }

    fn user_block(&mut self, block: &Value) {
        self.at += 1;
        let is_result = text_at(block, "type") == Some("tool_result");
        let text =
            text_of(if is_result { block.get("content").unwrap_or(&Value::Null) } else { block });
        if is_result {
            let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
            let id = text_at(block, "tool_use_id").unwrap_or_default();
            match self.calls.remove(id) {
                Some(started) if !failed => self.started(&started, &text),
                Some(_) | None => {}
            }
            self.conversation.last_tool_result = Some(text.clone());
        } else {
            for told in notification::find(&text) {
                self.ended(told);
            }
            if self.user_turns == 1 {
                self.conversation.prompt.push_str(&text);
                self.conversation.prompt.push('\n');
            }
            self.conversation.told.push(text.clone());
        }
        self.conversation.texts.push(text);
    }

    fn started(&mut self, started: &Started, result: &str) {
        let at = self.at;
        match started {
            Started::Agent { name } => {
                let Some(id) = line_of(result, "agent_id") else { return };
                let name = line_of(result, "name").unwrap_or(name);
                let agent = self.conversation.agents.entry(name.to_owned()).or_default();
                id.clone_into(&mut agent.id);
                agent.started_at = at;
            }
            Started::Message { to } => {
                let mut agents = self.conversation.agents.iter_mut();
                if let Some((_, agent)) = agents.find(|(name, it)| *name == to || it.id == *to) {
                    agent.started_at = at;
                }
            }
        }
    }

    fn ended(&mut self, told: Told) {
        let agents = &self.conversation.agents;
        let known = agents.iter().find(|(_, agent)| agent.id == told.task_id);
        let known = known.map(|(name, _)| name.clone());
        let Some(name) = known.or_else(|| told.summary.split('"').nth(1).map(str::to_owned)) else {
            return;
        };
        let agent = self.conversation.agents.entry(name).or_default();
        if agent.id.is_empty() {
            agent.id = told.task_id;
        }
        let status = told.status.as_str().to_owned();
        agent.ended = Some(RunEnded { at: self.at, status, result: told.result });
    }
}

/// The text of a content value: a string, a text block, or an array of them.
fn text_of(value: &Value) -> String {
    if let Some(parts) = value.as_array() {
        return parts.iter().map(text_of).collect::<Vec<_>>().join("\n");
    }
    value.as_str().or_else(|| text_at(value, "text")).unwrap_or_default().to_owned()
}

fn text_at<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// The rest of the first line `label: …`.
fn line_of<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(label)?.strip_prefix(':').map(str::trim))
}
