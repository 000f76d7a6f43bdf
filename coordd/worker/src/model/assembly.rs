//! Puts an answer together from its deltas, whatever dialect they came in.
//!
//! It decides what is kept of a broken answer: its text, and complete tool calls.

use serde_json::{Map, Value};

use super::{Answer, Block, Delta, OnDelta, Stop, Usage};

/// Blocks of one answer. Models write a few dozen at most.
const PARTS_MAX: usize = 512;
/// The most bytes of text and tool input in one answer: far above any output limit, and harmless to
/// the process.
const ANSWER_LEN_MAX: usize = 8 * 1024 * 1024;

/// The field that carries tool input which is not a JSON object. No tool knows it, so the tool's
/// own check tells the model what is wrong.
const UNPARSED: &str = "unparsed_arguments";

/// The answer grew past its bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AnswerTooLong;

/// How the stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Whole(Stop),
    Cut,
}

/// The parts that have come so far, by slot: the place that the dialect gives a part.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    parts: Vec<(u64, Part)>,
    len: usize,
    pub(super) usage: Usage,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Tool { id: String, name: String, json: String, given: Option<Value>, closed: bool },
}

impl Assembly {
    /// Adds text to the part at `slot`, which is made if it is new.
    pub(super) fn text(
        &mut self,
        slot: u64,
        text: &str,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        on_delta(Delta::Text(text));
        if let Some(Part::Text(so_far)) = self.part(slot) {
            so_far.push_str(text);
            return Ok(());
        }
        self.push(slot, Part::Text(text.to_owned()))
    }

    /// Starts a tool call. `given` is the input where it comes whole.
    pub(super) fn open_tool(
        &mut self,
        slot: u64,
        id: String,
        name: String,
        given: Option<Value>,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        self.grow(id.len() + name.len())?;
        on_delta(Delta::ToolStarted { name: &name });
        let id = if id.is_empty() { made_up_id() } else { id };
        self.push(slot, Part::Tool { id, name, json: String::new(), given, closed: false })
    }

    /// Adds a piece of a tool call's input. A slot that holds no tool call is passed over: it is a
    /// kind of block that is not known here.
    pub(super) fn tool_json(&mut self, slot: u64, piece: &str) -> Result<(), AnswerTooLong> {
        self.grow(piece.len())?;
        if let Some(Part::Tool { json, .. }) = self.part(slot) {
            json.push_str(piece);
        }
        Ok(())
    }

    /// Marks the part at `slot` as complete.
    pub(super) fn close(&mut self, slot: u64) {
        if let Some(Part::Tool { closed, .. }) = self.part(slot) {
            *closed = true;
        }
    }

    /// Ends the answer. The stop reason is made to agree with the blocks.
    pub(super) fn finish(self, ending: Ending) -> Answer {
        let keep_incomplete = match ending {
            Ending::Whole(Stop::EndTurn | Stop::ToolUse | Stop::Refusal) => true,
            Ending::Whole(Stop::OutputLimit | Stop::CutOff) | Ending::Cut => false,
        };
        let blocks: Vec<Block> =
            self.parts.into_iter().filter_map(|(_, part)| block(part, keep_incomplete)).collect();
        let calls = blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
        let stop = match ending {
            Ending::Cut => Stop::CutOff,
            Ending::Whole(Stop::EndTurn | Stop::ToolUse) if calls => Stop::ToolUse,
            Ending::Whole(Stop::EndTurn | Stop::ToolUse) => Stop::EndTurn,
            Ending::Whole(other) => other,
        };
        Answer { blocks, stop, usage: self.usage }
    }

    fn part(&mut self, slot: u64) -> Option<&mut Part> {
        self.parts.iter_mut().rev().find(|(it, _)| *it == slot).map(|(_, part)| part)
    }

    fn push(&mut self, slot: u64, part: Part) -> Result<(), AnswerTooLong> {
        if self.parts.len() >= PARTS_MAX {
            return Err(AnswerTooLong);
        }
        self.parts.push((slot, part));
        Ok(())
    }

    fn grow(&mut self, by: usize) -> Result<(), AnswerTooLong> {
        self.len = self.len.saturating_add(by);
        if self.len > ANSWER_LEN_MAX { Err(AnswerTooLong) } else { Ok(()) }
    }
}

fn block(part: Part, keep_incomplete: bool) -> Option<Block> {
    match part {
        // A block of blanks cannot be sent back: providers refuse it.
        Part::Text(text) => (!text.trim().is_empty()).then_some(Block::Text { text }),
        Part::Tool { id, name, json, given, closed } => {
            let input = if json.trim().is_empty() {
                (closed || keep_incomplete)
                    .then(|| given.filter(Value::is_object).unwrap_or_else(empty_object))
            } else {
                match serde_json::from_str::<Value>(&json) {
                    Ok(input) if input.is_object() => Some(input),
                    Ok(_) | Err(_) if keep_incomplete => {
                        Some(Value::Object(Map::from_iter([(UNPARSED.to_owned(), json.into())])))
                    }
                    Ok(_) | Err(_) => None,
                }
            };
            input.map(|input| Block::ToolUse { id, name, input })
        }
    }
}

fn empty_object() -> Value {
    Value::Object(Map::new())
}

/// An id for a call that came without one. It must differ from all others of the conversation.
fn made_up_id() -> String {
    format!("call_{:016x}", getrandom::u64().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(json: &str, closed: bool, ending: Ending) -> Answer {
        let mut assembly = Assembly::default();
        let mut ignore = |_: Delta<'_>| {};
        assembly.open_tool(3, "t1".into(), "Read".into(), None, &mut ignore).unwrap();
        assembly.tool_json(3, json).unwrap();
        if closed {
            assembly.close(3);
        }
        assembly.finish(ending)
    }

    fn call(input: Value) -> Vec<Block> {
        vec![Block::ToolUse { id: "t1".into(), name: "Read".into(), input }]
    }

    /// W-9: what a cut answer is worth.
    #[test]
    fn incomplete_tool_calls_are_dropped_only_where_the_answer_is_broken() {
        let whole = Ending::Whole(Stop::ToolUse);
        let limit = Ending::Whole(Stop::OutputLimit);
        for (json, closed, ending, blocks, stop) in [
            (r#"{"a":1}"#, true, whole, call(json!({"a": 1})), Stop::ToolUse),
            (r#"{"a":1}"#, false, Ending::Cut, call(json!({"a": 1})), Stop::CutOff),
            (r#"{"a":"#, false, Ending::Cut, vec![], Stop::CutOff),
            (r#"{"a":"#, false, limit, vec![], Stop::OutputLimit),
            ("", false, Ending::Cut, vec![], Stop::CutOff),
            ("", true, Ending::Cut, call(json!({})), Stop::CutOff),
            ("", false, whole, call(json!({})), Stop::ToolUse),
            ("{oops", true, whole, call(json!({"unparsed_arguments": "{oops"})), Stop::ToolUse),
            ("[1]", true, whole, call(json!({"unparsed_arguments": "[1]"})), Stop::ToolUse),
        ] {
            let answer = tool(json, closed, ending);
            assert_eq!((answer.blocks, answer.stop), (blocks, stop), "{json} {closed} {ending:?}");
        }
    }

    #[test]
    fn the_stop_reason_agrees_with_the_blocks() {
        assert_eq!(tool("{}", true, Ending::Whole(Stop::EndTurn)).stop, Stop::ToolUse);
        let nothing = Assembly::default().finish(Ending::Whole(Stop::ToolUse));
        assert_eq!((nothing.stop, nothing.blocks.len()), (Stop::EndTurn, 0));
    }

    #[test]
    fn a_call_without_an_id_gets_one() {
        let mut assembly = Assembly::default();
        assembly.open_tool(0, String::new(), "A".into(), None, &mut |_| {}).unwrap();
        assembly.open_tool(1, String::new(), "A".into(), None, &mut |_| {}).unwrap();
        let answer = assembly.finish(Ending::Whole(Stop::ToolUse));
        let ids: Vec<_> = answer
            .blocks
            .iter()
            .map(|block| match block {
                Block::ToolUse { id, .. } => id.clone(),
                Block::Text { .. } | Block::ToolResult { .. } => String::new(),
            })
            .collect();
        assert!(ids[0].starts_with("call_") && ids[0] != ids[1], "{ids:?}");
    }

    /// D-8: all that comes from outside has a bound.
    #[test]
    fn an_endless_answer_is_stopped() {
        let mut assembly = Assembly::default();
        let piece = "x".repeat(1024 * 1024);
        let taken = (0..100).take_while(|_| assembly.text(0, &piece, &mut |_| {}).is_ok()).count();
        assert_eq!(taken, 8);
        let mut assembly = Assembly::default();
        let taken = (0..10_000).take_while(|n| assembly.text(*n, "x", &mut |_| {}).is_ok()).count();
        assert_eq!(taken, PARTS_MAX);
    }
}
