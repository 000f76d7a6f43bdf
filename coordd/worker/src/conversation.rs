//! The conversation, rebuilt from transcript entries and from nothing else.
//!
//! ```text
//!   Input, ToolResult --> a turn of the user     Text, ToolCall ... Turn --> a turn of the assistant
//!
//!   Asks --model--> CallsOpen --results--> Asks        where the run goes on follows from the entries alone,
//!        \--------> Answered                           so that a restarted process goes on where it was
//! ```
//!
//! Live and after a restart the entries go through the same [`Conversation::push`], so both give
//! the same turns. It does no I/O and decides nothing about runs.

use std::collections::{BTreeMap, BTreeSet};

use proto::entry::{Entry, Origin, What};
use proto::notification::{RunStatus, Usage};
use serde_json::Value;

use crate::instructions::{self, Told};
use crate::model::{Block, Role, Turn};

/// A call that waits for its result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) input: Value,
}

/// What comes next in an open run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The model is to be asked.
    Asks,
    /// Tool calls wait for their results.
    CallsOpen,
    /// The model answered without calling a tool.
    Answered,
    /// The model's answer broke off, and nothing followed.
    AnswerBroken,
}

/// How far the last run has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunSoFar {
    /// Its number; 0 before the first.
    pub(crate) run: u32,
    /// How it ended, with the reason.
    pub(crate) ended: Option<(RunStatus, String)>,
    /// Model calls.
    pub(crate) turns: u32,
    /// The sum over its model calls.
    pub(crate) usage: Usage,
    /// Wall time between its first and last entry.
    pub(crate) lasted_ms: u64,
    /// When its first entry was made.
    pub(crate) began_ms: u64,
}

/// The conversation so far.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    turns: Vec<Turn>,
    /// Messages that are in the conversation, with their run (M-3).
    messages: BTreeMap<String, u32>,
    call_ids: BTreeSet<String>,
    open_calls: Vec<OpenCall>,
    /// Whether the last answer is whole.
    answer_whole: bool,
    has_input: bool,
    /// Instructions of files that were told.
    instructions: Told,
    /// The input of the last run, with the ids of its messages.
    inputs: Vec<(Option<String>, String)>,
    /// What the model said in this run since its last tool round (W-15).
    last_text: String,
    /// A round has ended since, so that the next text begins anew.
    is_after_round: bool,
    so_far: RunSoFar,
    /// What all its runs cost.
    spent_micro_usd: u64,
}

impl Conversation {
    /// Takes the next entry in.
    pub(crate) fn push(&mut self, entry: &Entry) {
        self.count(entry);
        match &entry.what {
            What::Input { origin, message, text } => {
                if matches!(origin, Origin::System {}) {
                    instructions::note_told(text, &mut self.instructions);
                }
                self.has_input = true;
                self.answer_whole = false;
                self.inputs.push((message.clone(), text.clone()));
                if let Some(message) = message {
                    self.messages.insert(message.clone(), entry.run);
                }
                self.add(Role::User, Block::Text { text: text.clone() });
            }
            What::Text { text } => self.push_text(text),
            What::ToolCall { call, tool, input } => {
                self.answer_whole = false;
                self.call_ids.insert(call.clone());
                let input = input.0.clone();
                let open = OpenCall { id: call.clone(), tool: tool.clone(), input: input.clone() };
                self.open_calls.push(open);
                let block = Block::ToolUse { id: call.clone(), name: tool.clone(), input };
                self.add(Role::Assistant, block);
            }
            What::Reasoning { text, raw } => {
                self.answer_whole = false;
                let block = Block::Reasoning { text: text.clone(), raw: raw.0.clone() };
                self.add(Role::Assistant, block);
            }
            What::ToolResult { call, text, is_error } => self.push_result(call, text, *is_error),
            What::Turn { .. } => self.answer_whole = true,
            What::RunEnded { .. } => {}
        }
    }

    fn count(&mut self, entry: &Entry) {
        if entry.run != self.so_far.run {
            self.so_far = RunSoFar { run: entry.run, began_ms: entry.at_ms, ..RunSoFar::default() };
            self.last_text.clear();
            self.inputs.clear();
        }
        let so_far = &mut self.so_far;
        so_far.lasted_ms = entry.at_ms.saturating_sub(so_far.began_ms);
        match &entry.what {
            What::Turn { usage } => {
                // What a turn cost may be told after it.
                so_far.turns += u32::from(!usage.is_cost_alone());
                self.spent_micro_usd = self.spent_micro_usd.saturating_add(usage.cost_micro_usd);
                so_far.usage.add(usage);
            }
            What::RunEnded { status, reason } => so_far.ended = Some((*status, reason.clone())),
            What::Input { .. }
            | What::Text { .. }
            | What::ToolCall { .. }
            | What::Reasoning { .. }
            | What::ToolResult { .. } => {}
        }
    }

    fn push_text(&mut self, text: &str) {
        self.answer_whole = false;
        // Providers refuse blank text.
        if text.trim().is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_after_round) {
            self.last_text.clear();
        } else if !self.last_text.is_empty() {
            self.last_text.push_str("\n\n");
        }
        self.last_text.push_str(text);
        self.add(Role::Assistant, Block::Text { text: text.to_owned() });
    }

    /// Results are put in the order of their calls, not of their arrival.
    fn push_result(&mut self, call: &str, text: &str, is_error: bool) {
        let Some(at) = self.open_calls.iter().position(|it| it.id == call) else { return };
        self.open_calls.remove(at);
        self.answer_whole = false;
        self.is_after_round = true;
        let block = Block::ToolResult { id: call.to_owned(), text: text.to_owned(), is_error };
        self.add(Role::User, block);
        let [.., asked, answered] = self.turns.as_mut_slice() else { return };
        let place = |block: &Block| match block {
            Block::ToolResult { id, .. } => asked
                .blocks
                .iter()
                .position(|block| matches!(block, Block::ToolUse { id: asked, .. } if asked == id)),
            Block::Text { .. } | Block::ToolUse { .. } | Block::Reasoning { .. } => None,
        };
        answered.blocks.sort_by_key(|block| place(block).unwrap_or(usize::MAX));
    }

    fn add(&mut self, role: Role, block: Block) {
        match self.turns.last_mut() {
            Some(turn) if turn.role == role => turn.blocks.push(block),
            Some(_) | None => self.turns.push(Turn { role, blocks: vec![block] }),
        }
    }

    /// The turns of a request; `context` goes before everything that was said.
    pub(crate) fn turns(&self, context: Option<&str>) -> Vec<Turn> {
        let mut turns = self.turns.clone();
        if let (Some(context), Some(first)) = (context, turns.first_mut()) {
            first.blocks.insert(0, Block::Text { text: context.to_owned() });
        }
        turns
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.turns.last() {
            _ if !self.open_calls.is_empty() => Standing::CallsOpen,
            // An answer may hold nothing at all.
            _ if self.answer_whole => Standing::Answered,
            Some(turn) if turn.role == Role::Assistant => Standing::AnswerBroken,
            Some(_) | None => Standing::Asks,
        }
    }

    /// Calls without a result, in order.
    pub(crate) fn open_calls(&self) -> &[OpenCall] {
        &self.open_calls
    }

    /// The run that a message is part of, if it is in the conversation.
    pub(crate) fn run_of(&self, message: &str) -> Option<u32> {
        self.messages.get(message).copied()
    }

    /// Whether anything has been said to the agent.
    pub(crate) fn has_input(&self) -> bool {
        self.has_input
    }

    /// Instructions of files that the model was told.
    pub(crate) fn instructions(&self) -> &Told {
        &self.instructions
    }

    /// What came in during the last run, in order.
    pub(crate) fn inputs(&self) -> &[(Option<String>, String)] {
        &self.inputs
    }

    /// What the model said in this run after its last tool round: an answer that was cut off and went on, or that a message came
    /// into, is one answer.
    pub(crate) fn last_text(&self) -> &str {
        &self.last_text
    }

    /// The cost so far, where a runtime estimates it.
    pub(crate) fn spent_micro_usd(&self) -> u64 {
        self.spent_micro_usd
    }

    pub(crate) fn so_far(&self) -> &RunSoFar {
        &self.so_far
    }

    /// The run that has begun and not ended.
    pub(crate) fn open_run(&self) -> Option<u32> {
        (self.so_far.run > 0 && self.so_far.ended.is_none()).then_some(self.so_far.run)
    }

    /// Whether a call has this id.
    pub(crate) fn has_call(&self, id: &str) -> bool {
        self.call_ids.contains(id)
    }

    /// An id for a call: the model's own if it is valid and new, else one of ours.
    pub(crate) fn fresh_call_id(&self, wanted: &str, taken: &[String]) -> String {
        /// Ids are also keys of requests, which hold 128 bytes.
        const CALL_ID_LEN_MAX: usize = 100;
        let is_new = |id: &str| !self.call_ids.contains(id) && taken.iter().all(|it| it != id);
        let valid = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
        let fit =
            !wanted.is_empty() && wanted.len() <= CALL_ID_LEN_MAX && wanted.bytes().all(valid);
        if fit && is_new(wanted) {
            return wanted.to_owned();
        }
        let mut number = self.call_ids.len() + taken.len() + 1;
        // Each number is tried once, and only finitely many are taken.
        loop {
            let id = format!("call-{number}");
            if is_new(&id) {
                return id;
            }
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::json::Json;
    use serde_json::json;

    use super::*;

    fn conversation(whats: Vec<(u32, What)>) -> Conversation {
        let mut conversation = Conversation::default();
        for (seq, (run, what)) in (1..).zip(whats) {
            conversation.push(&Entry { seq, at_ms: seq * 100, run, what });
        }
        conversation
    }

    fn input(text: &str) -> What {
        What::Input {
            origin: Origin::User {},
            message: Some(format!("m-{text}")),
            text: text.into(),
        }
    }

    fn text(text: &str) -> What {
        What::Text { text: text.into() }
    }

    fn call(id: &str) -> What {
        What::ToolCall { call: id.into(), tool: "Read".into(), input: Json(json!({ "p": id })) }
    }

    fn result(id: &str) -> What {
        What::ToolResult { call: id.into(), text: format!("r-{id}"), is_error: false }
    }

    fn turn() -> What {
        let usage = Usage { output_tokens: 10, tool_uses: 1, ..Usage::default() };
        What::Turn { usage }
    }

    fn shape(conversation: &Conversation) -> String {
        let block = |it: &Block| match it {
            Block::Text { text } => text.clone(),
            Block::ToolUse { id, .. } => format!("!{id}"),
            Block::ToolResult { id, .. } => format!("={id}"),
            Block::Reasoning { text, .. } => format!("~{text}"),
        };
        let turn = |it: &Turn| {
            let blocks: Vec<_> = it.blocks.iter().map(block).collect();
            format!("{}({})", if it.role == Role::User { "U" } else { "A" }, blocks.join(" "))
        };
        conversation.turns(None).iter().map(turn).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn entries_become_turns_and_results_stand_in_the_order_of_their_calls() {
        let it = conversation(vec![
            (1, input("go")),
            (1, text("look")),
            (1, call("a")),
            (1, call("b")),
            (1, turn()),
            (1, result("b")),
            (1, result("a")),
            (1, input("also")),
            (1, text("done")),
            (1, text("  \n")),
            (1, turn()),
        ]);
        assert_eq!(shape(&it), "U(go) A(look !a !b) U(=a =b also) A(done)");
        assert_eq!((it.standing(), it.last_text()), (Standing::Answered, "done"));
        assert_eq!((it.so_far().turns, it.so_far().usage.output_tokens), (2, 20));
        assert_eq!((it.so_far().lasted_ms, it.open_run()), (1_000, Some(1)));
        assert_eq!((it.run_of("m-also"), it.run_of("m-x")), (Some(1), None));
    }

    /// fT36: what was thought is no report.
    #[test]
    fn ft36_reasoning_is_a_part_of_the_turn_and_of_no_report() {
        let thought =
            |text: &str| What::Reasoning { text: text.into(), raw: Json(json!({ "chat": {} })) };
        let it = conversation(vec![
            (1, input("go")),
            (1, thought("hm")),
            (1, text("look")),
            (1, call("a")),
            (1, turn()),
            (1, result("a")),
            (1, thought("so")),
            (1, text("done")),
            (1, turn()),
        ]);
        assert_eq!(shape(&it), "U(go) A(~hm look !a) U(=a) A(~so done)");
        assert_eq!((it.standing(), it.last_text()), (Standing::Answered, "done"));
        let broken = conversation(vec![(1, input("go")), (1, thought("hm"))]);
        assert_eq!(broken.standing(), Standing::AnswerBroken);
    }

    #[test]
    fn where_a_run_stands_follows_from_its_entries() {
        let start = || vec![(1, input("go"))];
        let with = |more: Vec<What>| {
            let mut all = start();
            all.extend(more.into_iter().map(|it| (1, it)));
            conversation(all)
        };
        assert_eq!(Conversation::default().standing(), Standing::Asks);
        assert_eq!(with(vec![]).standing(), Standing::Asks);
        assert_eq!(with(vec![text("a")]).standing(), Standing::AnswerBroken);
        assert_eq!(with(vec![text("a"), turn()]).standing(), Standing::Answered);
        assert_eq!(with(vec![turn()]).standing(), Standing::Answered);
        let calling = with(vec![text("a"), call("x"), call("y"), turn(), result("x")]);
        assert_eq!(calling.standing(), Standing::CallsOpen);
        assert_eq!(calling.open_calls()[0].id, "y");
        let half = with(vec![call("x")]);
        assert_eq!(half.standing(), Standing::CallsOpen);
        assert_eq!(with(vec![call("x"), turn(), result("x")]).standing(), Standing::Asks);
        assert_eq!(with(vec![turn(), input("more")]).standing(), Standing::Asks);
    }

    #[test]
    fn w5_a_new_run_keeps_the_context_and_counts_anew() {
        let ended = What::RunEnded { status: RunStatus::Killed, reason: "by the user".into() };
        let mut whats = vec![(1, input("go")), (1, text("one")), (1, turn()), (1, ended)];
        assert_eq!(conversation(whats.clone()).open_run(), None);
        whats.push((2, input("again")));
        let it = conversation(whats);
        assert_eq!(shape(&it), "U(go) A(one) U(again)");
        assert_eq!((it.open_run(), it.so_far().turns, it.last_text()), (Some(2), 0, ""));
    }

    #[test]
    fn c3_the_context_goes_before_everything_and_is_not_kept() {
        let it = conversation(vec![(1, input("go"))]);
        let turns = it.turns(Some("ctx"));
        assert_eq!(turns[0].blocks[0], Block::Text { text: "ctx".into() });
        assert_eq!(shape(&it), "U(go)");
    }

    #[test]
    fn call_ids_are_unique_in_the_transcript() {
        let it = conversation(vec![(1, call("a")), (1, turn()), (1, result("a"))]);
        assert_eq!(it.fresh_call_id("b", &[]), "b");
        assert_eq!(it.fresh_call_id("a", &[]), "call-2");
        assert_eq!(it.fresh_call_id("b", &["b".into()]), "call-3");
        for unfit in ["", "a b", &"x".repeat(101)] {
            assert_eq!(it.fresh_call_id(unfit, &[]), "call-2");
        }
    }

    /// A result whose call is unknown would make the provider refuse the whole conversation.
    #[test]
    fn a_result_without_a_call_is_left_out() {
        let it = conversation(vec![(1, input("go")), (1, result("ghost"))]);
        assert_eq!(shape(&it), "U(go)");
    }

    /// W-15, fR2: the outcome is all that was said after the last tool round, whatever came in between.
    #[test]
    fn w15_fr2_all_that_was_said_after_the_last_round_counts() {
        let mut it = Conversation::default();
        let mut push = |run: u32, what: What| {
            it.push(&Entry { seq: 1, at_ms: 1, run, what });
            it.last_text().to_owned()
        };
        push(1, input("task"));
        push(1, text("I look."));
        push(1, call("c"));
        assert_eq!(push(1, result("c")), "I look.", "until something else is said");
        assert_eq!(push(1, text("The first half")), "The first half");
        push(1, input("go on"));
        assert_eq!(push(1, text("and the second.")), "The first half\n\nand the second.");
        push(1, input("thank you"));
        let all = "The first half\n\nand the second.\n\nYou are welcome.";
        assert_eq!(push(1, text("You are welcome.")), all);
        assert_eq!(push(2, input("another")), "");
        assert_eq!(push(2, text("New.")), "New.");
    }
}
