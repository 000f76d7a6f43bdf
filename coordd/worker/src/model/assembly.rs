//! Puts an answer together from its deltas, whatever dialect they came in.
//!
//! It decides what is kept of a broken answer: its text, its reasoning, and complete tool calls.

use std::mem;

use serde_json::Value;

use super::kept::Kept;
use super::{Answer, Block, Delta, OnDelta, Stop, Usage, call, lenient};

/// Blocks of one answer. Models write a few dozen at most.
const PARTS_MAX: usize = 512;
/// The most bytes of text and tool input in one answer: far above any output limit, and harmless to
/// the process.
const ANSWER_LEN_MAX: usize = 8 * 1024 * 1024;

/// The answer grew past its bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AnswerTooLong;

/// How the stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Whole(Stop),
    Cut,
}

/// What is said of a tool call, as far as one event says it.
#[derive(Debug, Default)]
pub(super) struct CallPiece {
    pub(super) id: String,
    pub(super) name: String,
    /// The input, where it comes as JSON and not as text in pieces.
    pub(super) given: Option<Value>,
    /// What the provider wants back with the call.
    pub(super) kept: Option<Kept>,
}

/// The parts that have come so far, by slot: the place that the dialect gives a part.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    parts: Vec<(u64, Part)>,
    len: usize,
    pub(super) usage: Usage,
    /// Why the answer ended, once that was said.
    pub(super) stop: Option<Stop>,
    /// The same in the provider's words.
    pub(super) why: String,
    /// An event of this dialect has come.
    pub(super) understood: bool,
    /// Letters came in halves.
    pub(super) halves: bool,
}

#[derive(Debug)]
enum Part {
    /// `held` is the half of a letter, until the other half comes.
    Text {
        text: String,
        held: String,
    },
    Reasoning {
        text: String,
        kept: Option<Kept>,
    },
    Tool(Call),
    /// A kind of block that is not known here.
    Other,
}

#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    json: String,
    given: Option<Value>,
    closed: bool,
    kept: Option<Kept>,
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
        if !matches!(self.part(slot), Some(Part::Text { .. })) {
            self.push(slot, Part::Text { text: String::new(), held: String::new() })?;
        }
        let halves = self.halves;
        let Some(Part::Text { text: so_far, held }) = self.part(slot) else { return Ok(()) };
        if !halves {
            so_far.push_str(text);
            on_delta(Delta::Text(text));
            return Ok(());
        }
        held.push_str(text);
        if !lenient::ends_in_half(held) {
            let whole = lenient::joined(&mem::take(held));
            so_far.push_str(&whole);
            on_delta(Delta::Text(&whole));
        }
        Ok(())
    }

    /// Adds what is new in a text that a server sends again as a whole.
    pub(super) fn whole_text(
        &mut self,
        slot: u64,
        text: &str,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        let so_far = match self.part(slot) {
            Some(Part::Text { text, .. }) => text.as_str(),
            Some(Part::Reasoning { .. } | Part::Tool(_) | Part::Other) | None => "",
        };
        let new = text.strip_prefix(so_far).map(str::to_owned);
        match new {
            Some(new) => self.text(slot, &new, on_delta),
            // What was streamed stands.
            None => Ok(()),
        }
    }

    /// Adds to what the model thought. `keep` says what goes back to the provider.
    pub(super) fn reasoning(
        &mut self,
        slot: u64,
        text: &str,
        keep: impl FnOnce(Option<Kept>) -> Option<Kept>,
    ) -> Result<(), AnswerTooLong> {
        self.grow(text.len())?;
        if !matches!(self.part(slot), Some(Part::Reasoning { .. })) {
            self.push(slot, Part::Reasoning { text: String::new(), kept: None })?;
        }
        if let Some(Part::Reasoning { text: so_far, kept }) = self.part(slot) {
            so_far.push_str(text);
            *kept = keep(kept.take());
        }
        Ok(())
    }

    /// Starts a tool call.
    pub(super) fn open_tool(
        &mut self,
        slot: u64,
        piece: CallPiece,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        let CallPiece { id, name, given, kept } = piece;
        self.grow(id.len() + name.len())?;
        if !name.is_empty() {
            on_delta(Delta::ToolStarted { name: &name });
        }
        let call = Call { id, name, json: String::new(), given, closed: false, kept };
        self.push(slot, Part::Tool(call))
    }

    /// Adds to the head of a call that has begun: whatever it did not have before.
    pub(super) fn more_of_tool(
        &mut self,
        slot: u64,
        piece: CallPiece,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        self.grow(piece.name.len())?;
        let Some(Part::Tool(call)) = self.part(slot) else { return Ok(()) };
        if call.id.is_empty() {
            call.id = piece.id;
        }
        call.given = piece.given.or(call.given.take());
        call.kept = piece.kept.or(call.kept.take());
        if piece.name.is_empty() || piece.name == call.name {
            return Ok(());
        }
        if piece.name.starts_with(&call.name) {
            // The name as far as it is known, once more.
            call.name = piece.name;
        } else {
            call.name.push_str(&piece.name);
        }
        on_delta(Delta::ToolStarted { name: &call.name });
        Ok(())
    }

    /// Adds a piece of a tool call's input. False where no call has begun at this slot.
    pub(super) fn tool_json(&mut self, slot: u64, piece: &str) -> Result<bool, AnswerTooLong> {
        self.grow(piece.len())?;
        match self.part(slot) {
            Some(Part::Tool(call)) => {
                call.json.push_str(piece);
                Ok(true)
            }
            Some(Part::Text { .. } | Part::Reasoning { .. } | Part::Other) => Ok(true),
            None => Ok(false),
        }
    }

    /// Puts the whole input in the place of its pieces.
    pub(super) fn tool_input(&mut self, slot: u64, whole: &str) -> Result<(), AnswerTooLong> {
        self.grow(whole.len())?;
        if let Some(Part::Tool(call)) = self.part(slot)
            && !whole.is_empty()
        {
            whole.clone_into(&mut call.json);
        }
        Ok(())
    }

    /// Notes a block of a kind that is not known here.
    pub(super) fn other(&mut self, slot: u64) -> Result<(), AnswerTooLong> {
        self.push(slot, Part::Other)
    }

    /// The name and the input, so far, of the call at `slot`.
    pub(super) fn call_at(&mut self, slot: u64) -> Option<(&str, &str, bool)> {
        match self.part(slot) {
            Some(Part::Tool(call)) => Some((&call.name, &call.json, call.given.is_some())),
            Some(Part::Text { .. } | Part::Reasoning { .. } | Part::Other) | None => None,
        }
    }

    pub(super) fn has(&self, slot: u64) -> bool {
        self.parts.iter().any(|(it, _)| *it == slot)
    }

    pub(super) fn last_slot(&self) -> Option<u64> {
        self.parts.last().map(|(slot, _)| *slot)
    }

    /// Marks the part at `slot` as complete.
    pub(super) fn close(&mut self, slot: u64) {
        if let Some(Part::Tool(call)) = self.part(slot) {
            call.closed = true;
        }
    }

    /// No more text comes: what waits for the other half of a letter is given up.
    pub(super) fn settle(&mut self, on_delta: OnDelta<'_>) {
        for (_, part) in &mut self.parts {
            if let Part::Text { text, held } = part
                && !held.is_empty()
            {
                let rest = lenient::joined(&mem::take(held));
                text.push_str(&rest);
                on_delta(Delta::Text(&rest));
            }
        }
    }

    /// Notes why the answer ended.
    pub(super) fn stops(&mut self, stop: Stop, why: &str) {
        self.stop = Some(stop);
        why.clone_into(&mut self.why);
    }

    /// Ends the answer. The stop reason is made to agree with the blocks.
    pub(super) fn finish(self, ending: Ending) -> Answer {
        let keep_incomplete = match ending {
            Ending::Whole(Stop::EndTurn | Stop::ToolUse | Stop::Refusal | Stop::Pause) => true,
            Ending::Whole(Stop::OutputLimit | Stop::WindowFull | Stop::CutOff) | Ending::Cut => {
                false
            }
        };
        let (mut blocks, mut cut_call) = (Vec::new(), None);
        let halves = self.halves;
        for (_, part) in self.parts {
            match part {
                Part::Tool(call) => match call.block(keep_incomplete, halves) {
                    Ok((block, kept)) => {
                        blocks.push(block);
                        blocks.extend(kept.map(Kept::into_block));
                    }
                    Err(name) => cut_call = Some(name),
                },
                Part::Text { text, .. } => {
                    // A block of blanks cannot be sent back: providers refuse it.
                    if !text.trim().is_empty() {
                        blocks.push(Block::Text { text });
                    }
                }
                Part::Reasoning { text, kept } => {
                    let text = if halves { lenient::joined(&text) } else { text };
                    if text.is_empty() && kept.is_none() {
                        continue;
                    }
                    let raw = kept.map_or(Value::Null, Kept::into_json);
                    blocks.push(Block::Reasoning { text, raw });
                }
                Part::Other => {}
            }
        }
        let calls = blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
        let stop = match ending {
            Ending::Whole(Stop::EndTurn | Stop::ToolUse | Stop::Pause) if calls => Stop::ToolUse,
            // Also where a call was announced, and none came.
            Ending::Cut | Ending::Whole(Stop::ToolUse) => Stop::CutOff,
            Ending::Whole(other) => other,
        };
        Answer { blocks, stop, usage: self.usage, why: self.why, cut_call, limit: 0 }
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

impl Call {
    /// The call, or its name where it is not complete.
    fn block(self, keep_incomplete: bool, halves: bool) -> Result<(Block, Option<Kept>), String> {
        let json = if halves { lenient::joined(&self.json) } else { self.json };
        let input = if json.trim().is_empty() {
            if !self.closed && !keep_incomplete && self.given.is_none() {
                return Err(self.name);
            }
            call::input_given(self.given)
        } else {
            match call::input(&json) {
                Ok(input) => input,
                Err(_) if !keep_incomplete => return Err(self.name),
                Err(problem) => call::unreadable(&json, &problem),
            }
        };
        let id = if self.id.is_empty() { made_up_id() } else { self.id };
        Ok((Block::ToolUse { id, name: self.name, input }, self.kept))
    }
}

/// An id for a call that came without one. It must differ from all others of the conversation.
fn made_up_id() -> String {
    format!("call_{:016x}", getrandom::u64().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn open(assembly: &mut Assembly, slot: u64, id: &str, name: &str) {
        let piece = CallPiece { id: id.into(), name: name.into(), ..CallPiece::default() };
        assembly.open_tool(slot, piece, &mut |_| {}).unwrap();
    }

    fn tool(json: &str, closed: bool, ending: Ending) -> Answer {
        let mut assembly = Assembly::default();
        open(&mut assembly, 3, "t1", "Read");
        assert!(assembly.tool_json(3, json).unwrap());
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
        ] {
            let answer = tool(json, closed, ending);
            let cut_call = answer.blocks.is_empty().then(|| "Read".to_owned());
            assert_eq!(answer.cut_call, cut_call, "{json} {closed} {ending:?}");
            assert_eq!((answer.blocks, answer.stop), (blocks, stop), "{json} {closed} {ending:?}");
        }
    }

    /// fM6: what is no JSON reaches the model as what it is.
    #[test]
    fn fm6_an_input_that_is_no_json_is_kept_with_what_is_wrong() {
        for json in ["{oops", "[1]", r#"{"command": "echo hi" "x"}"#] {
            let answer = tool(json, true, Ending::Whole(Stop::ToolUse));
            let Some(Block::ToolUse { input, .. }) = answer.blocks.first() else {
                panic!("no call: {answer:?}")
            };
            assert!(call::problem_of(input).is_some(), "{input}");
        }
    }

    #[test]
    fn the_stop_reason_agrees_with_the_blocks() {
        assert_eq!(tool("{}", true, Ending::Whole(Stop::EndTurn)).stop, Stop::ToolUse);
        let nothing = Assembly::default().finish(Ending::Whole(Stop::ToolUse));
        assert_eq!((nothing.stop, nothing.blocks.len()), (Stop::CutOff, 0));
    }

    #[test]
    fn a_call_without_an_id_gets_one() {
        let mut assembly = Assembly::default();
        open(&mut assembly, 0, "", "A");
        open(&mut assembly, 1, "", "A");
        let answer = assembly.finish(Ending::Whole(Stop::ToolUse));
        let ids: Vec<_> = answer
            .blocks
            .iter()
            .map(|block| match block {
                Block::ToolUse { id, .. } => id.clone(),
                Block::Text { .. } | Block::ToolResult { .. } | Block::Reasoning { .. } => {
                    String::new()
                }
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
