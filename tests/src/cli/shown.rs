//! What a model was shown: one request, read from Anthropic's Messages API or from Gemini's.

use std::collections::BTreeMap;

use serde_json::Value;

/// A request as it arrived, and what can be read in it.
#[derive(Clone, Debug)]
pub struct Shown {
    pub path: String,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    /// The script that answered, by what it waits for; nothing where there was none.
    pub script: Option<String>,
}

/// A message of a conversation, as far as scripts look at it.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) by_model: bool,
    /// What was said in it, not what tools answered.
    pub(super) text: String,
    /// With what tools answered.
    pub(super) all: String,
}

impl Shown {
    /// The system prompt.
    pub fn system(&self) -> String {
        let system = &self.body["system"];
        text_of(if system.is_null() { &self.body["systemInstruction"]["parts"] } else { system })
    }

    /// The names of its tools, in order of the alphabet.
    pub fn tools(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().into_iter().flatten();
        let declared = tools.flat_map(|tool| match tool["functionDeclarations"].as_array() {
            Some(declared) => declared.clone(),
            None => vec![tool.clone()],
        });
        let mut names: Vec<_> =
            declared.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect();
        names.sort();
        names
    }

    /// What the last tool answered.
    pub fn last_tool_result(&self) -> Option<String> {
        let last = blocks(&self.body).into_iter().rev().find(is_result)?;
        Some(text_of(&last["content"]))
    }

    /// All that was said, tools included.
    pub fn all(&self) -> String {
        let said: Vec<_> = self.said().into_iter().map(|it| it.all).collect();
        said.join("\n")
    }

    pub(super) fn said(&self) -> Vec<Said> {
        messages(&self.body).iter().map(said).collect()
    }
}

fn messages(body: &Value) -> &[Value] {
    let messages = body["messages"].as_array().or_else(|| body["contents"].as_array());
    messages.map_or(&[], Vec::as_slice)
}

fn blocks(body: &Value) -> Vec<Value> {
    messages(body).iter().flat_map(blocks_of).collect()
}

fn blocks_of(message: &Value) -> Vec<Value> {
    let content =
        if message["content"].is_null() { &message["parts"] } else { &message["content"] };
    content.as_array().cloned().unwrap_or_else(|| vec![content.clone()])
}

fn said(message: &Value) -> Said {
    let blocks = blocks_of(message);
    let texts: Vec<_> = blocks.iter().filter(|block| !is_result(block)).map(text_of).collect();
    let all: Vec<_> = blocks
        .iter()
        .map(|block| if is_result(block) { answer_of(block) } else { text_of(block) })
        .collect();
    let by_model = matches!(message["role"].as_str(), Some("assistant" | "model"));
    Said { by_model, text: texts.join("\n"), all: all.join("\n") }
}

fn is_result(block: &Value) -> bool {
    block["type"] == "tool_result" || !block["functionResponse"].is_null()
}

fn answer_of(block: &Value) -> String {
    if block["functionResponse"].is_null() {
        text_of(&block["content"])
    } else {
        block["functionResponse"]["response"].to_string()
    }
}

/// The text of a string, a block, or an array of them.
fn text_of(value: &Value) -> String {
    if let Some(parts) = value.as_array() {
        return parts.iter().map(text_of).collect::<Vec<_>>().join("\n");
    }
    value.as_str().or_else(|| value["text"].as_str()).unwrap_or_default().to_owned()
}
