//! Reasoning that models without a field for it write into their text: `<think>…</think>` before the
//! answer. It is kept apart like other reasoning (fT36).

use std::mem;

use super::OnDelta;
use super::assembly::{AnswerTooLong, Assembly};
use super::kept::Kept;

const OPEN: [&str; 2] = ["<think>", "<thinking>"];
const CLOSE: [&str; 2] = ["</think>", "</thinking>"];

/// Where in the text an answer is.
#[derive(Debug, Default)]
enum Place {
    /// Nothing but blanks has come, or the beginning of the mark.
    #[default]
    Start,
    Inside,
    /// After the closing mark, where blanks belong to the mark.
    Behind,
    Outside,
}

/// Tells reasoning from text as both come in.
#[derive(Debug, Default)]
pub(super) struct Think {
    place: Place,
    /// What may be a part of a mark.
    held: String,
    thought: bool,
}

impl Think {
    /// Takes the next piece of text.
    pub(super) fn take(
        &mut self,
        text: &str,
        assembly: &mut Assembly,
        text_slot: u64,
        reasoning_slot: u64,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        if matches!(self.place, Place::Outside) {
            return assembly.text(text_slot, text, on_delta);
        }
        if matches!(self.place, Place::Behind) {
            let text = text.trim_start();
            if !text.is_empty() {
                self.place = Place::Outside;
            }
            return assembly.text(text_slot, text, on_delta);
        }
        self.held.push_str(text);
        if matches!(self.place, Place::Start) {
            let said = self.held.trim_start();
            if let Some(mark) = OPEN.iter().find(|mark| said.starts_with(**mark)) {
                self.held = said.strip_prefix(mark).unwrap_or_default().to_owned();
                (self.place, self.thought) = (Place::Inside, true);
            } else if OPEN.iter().any(|mark| mark.starts_with(said)) {
                return Ok(());
            } else {
                self.place = Place::Outside;
                return assembly.text(text_slot, &mem::take(&mut self.held), on_delta);
            }
        }
        let found = CLOSE.iter().find_map(|mark| self.held.split_once(mark));
        if let Some((inside, behind)) = found {
            let (inside, behind) = (inside.to_owned(), behind.to_owned());
            self.place = Place::Behind;
            self.held.clear();
            add(&inside, assembly, reasoning_slot)?;
            return self.take(&behind, assembly, text_slot, reasoning_slot, on_delta);
        }
        let keep = CLOSE.iter().map(|mark| begun(&self.held, mark)).max().unwrap_or(0);
        let held = self.held.split_off(self.held.len().saturating_sub(keep));
        let sure = mem::replace(&mut self.held, held);
        add(&sure, assembly, reasoning_slot)
    }

    /// No more text comes: what was held back is what it seems to be.
    pub(super) fn end(
        &mut self,
        assembly: &mut Assembly,
        text_slot: u64,
        reasoning_slot: u64,
        on_delta: OnDelta<'_>,
    ) -> Result<(), AnswerTooLong> {
        let held = mem::take(&mut self.held);
        match mem::replace(&mut self.place, Place::Outside) {
            Place::Inside => add(&held, assembly, reasoning_slot),
            Place::Start | Place::Behind | Place::Outside => {
                assembly.text(text_slot, &held, on_delta)
            }
        }
    }

    pub(super) fn has_thought(&self) -> bool {
        self.thought
    }
}

/// The length of the longest beginning of `mark` that `text` ends with.
fn begun(text: &str, mark: &str) -> usize {
    let ends = |length: &usize| mark.get(..*length).is_some_and(|begin| text.ends_with(begin));
    (1..mark.len()).rev().find(ends).unwrap_or(0)
}

fn add(text: &str, assembly: &mut Assembly, slot: u64) -> Result<(), AnswerTooLong> {
    if text.is_empty() {
        return Ok(());
    }
    assembly.reasoning(slot, text, |kept| {
        let so_far = match kept {
            Some(Kept::ThinkTag(text)) => text,
            Some(
                Kept::Chat(_)
                | Kept::ChatParts(_)
                | Kept::Messages(_)
                | Kept::Responses(_)
                | Kept::Call(_),
            )
            | None => String::new(),
        };
        Some(Kept::ThinkTag(so_far + text))
    })
}

#[cfg(test)]
mod tests {
    use super::super::assembly::Ending;
    use super::super::{Block, Stop};
    use super::*;

    fn split(text: &str, size: usize) -> (String, String) {
        let (mut think, mut assembly) = (Think::default(), Assembly::default());
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            let piece: String = piece.iter().collect();
            think.take(&piece, &mut assembly, 1, 0, &mut |_| {}).unwrap();
        }
        think.end(&mut assembly, 1, 0, &mut |_| {}).unwrap();
        let answer = assembly.finish(Ending::Whole(Stop::EndTurn));
        let (mut thought, mut said) = (String::new(), String::new());
        for block in answer.blocks {
            match block {
                Block::Text { text } => said.push_str(&text),
                Block::Reasoning { text, .. } => thought.push_str(&text),
                Block::ToolUse { .. } | Block::ToolResult { .. } => panic!("no such block"),
            }
        }
        (thought, said)
    }

    #[test]
    fn ft36_what_stands_between_the_marks_is_no_answer() {
        for (text, thought, said) in [
            ("<think>hm</think>\n\nYes.", "hm", "Yes."),
            ("\n<think>\na < b </thi </think>Yes.", "\na < b </thi ", "Yes."),
            ("<thinking>hm</thinking>Yes.", "hm", "Yes."),
            ("<think>never ends", "never ends", ""),
            ("<thin air", "", "<thin air"),
            ("<thi", "", "<thi"),
            ("Write <think> into it.", "", "Write <think> into it."),
            ("No marks.", "", "No marks."),
        ] {
            for size in [1, 2, 5, 100] {
                assert_eq!(split(text, size), (thought.into(), said.into()), "{text} {size}");
            }
        }
    }
}
