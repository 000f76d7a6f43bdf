//! One call of the model: what is sent, how the answer streams in, and what of it is kept.

use proto::entry::What;
use proto::json::Json;
use proto::notification::Usage;
use tokio::time::Instant;

use super::halt::Halt;
use super::kit::Kit;
use super::native::{Run, until};
use crate::model::{
    Answer, Block, Delta, ModelError, Request, ToolChoice, belongs_to_call, under_its_own_id,
};

/// Longest answer of the model. Every model on offer allows as much; a longer file is written in
/// pieces.
const OUTPUT_TOKENS_MAX: u32 = 16_000;
/// For models that are too small to call a tool by themselves: a tool's name, or `any`.
const FIRST_TOOL_VARIABLE: &str = "COORDD_FIRST_TOOL";

/// How asking the model went.
pub(super) enum Asked {
    Answered(Answer),
    /// There is no answer; what had arrived of the last one.
    Failed(ModelError, String),
    /// The run is to end, or its time is up. What had arrived of the answer.
    Halted(String),
}

impl Run<'_> {
    /// Asks and waits, but not beyond a stop or the deadline.
    pub(super) async fn answer(
        &mut self,
        kit: &Kit,
        deadline: Option<Instant>,
    ) -> Result<Asked, Halt> {
        let client = match self.agent.client() {
            Ok(client) => client,
            Err(error) => return Ok(Asked::Failed(error, String::new())),
        };
        let agent = &*self.agent;
        let context = kit.user_context(&agent.boot);
        let request = Request {
            system: kit.system.clone(),
            turns: agent.memory.conversation().turns(context.as_deref()),
            tools: kit.specs.clone(),
            tool_choice: self.tool_choice(kit),
            max_output_tokens: OUTPUT_TOKENS_MAX,
        };
        let clock = &self.clock;
        agent.activity("thinking", clock.elapsed_ms());
        let (mut partial, mut waited) = (String::new(), false);
        let mut on_delta = |delta: Delta<'_>| match delta {
            Delta::Text(text) => {
                if std::mem::take(&mut waited) {
                    agent.activity("thinking", clock.elapsed_ms());
                }
                partial.push_str(text);
                agent.link.delta(text);
            }
            Delta::ToolStarted { .. } => {}
            Delta::Waiting { for_ms, why } => {
                waited = true;
                partial.clear();
                let doing = format!("waiting {}: {why}", time_words(for_ms));
                agent.activity(&doing, clock.elapsed_ms());
            }
        };
        let answer = tokio::select! {
            biased;
            () = agent.orders.run_ends() => None,
            () = until(deadline) => None,
            answer = client.answer(&request, &mut on_delta) => Some(answer),
        };
        Ok(match answer {
            Some(Ok(answer)) => Asked::Answered(answer),
            Some(Err(error)) => Asked::Failed(error, partial),
            None => Asked::Halted(partial),
        })
    }

    /// What the first answer of a run must call, where the environment says so.
    fn tool_choice(&self, kit: &Kit) -> ToolChoice {
        let wanted = self.agent.boot.env.get(FIRST_TOOL_VARIABLE).map_or("", String::as_str);
        if self.agent.memory.conversation().so_far().turns > 0 {
            ToolChoice::Auto
        } else if wanted == "any" {
            ToolChoice::Any
        } else if kit.specs.iter().any(|spec| spec.name == wanted) {
            ToolChoice::Tool(wanted.to_owned())
        } else {
            ToolChoice::Auto
        }
    }

    /// The entries of an answer, with the mark that it is whole.
    pub(super) fn entries(&self, answer: Answer, began: Instant, with_calls: bool) -> Vec<What> {
        let (mut what, mut ids) = (Vec::new(), Vec::new());
        let conversation = self.agent.memory.conversation();
        let mut blocks = answer.blocks.into_iter().peekable();
        while let Some(block) = blocks.next() {
            let about_call = blocks.next_if(is_about_call);
            match block {
                Block::Text { text } if text.trim().is_empty() => {}
                Block::Text { text } => what.push(What::Text { text }),
                Block::ToolUse { id, name, input } if with_calls => {
                    let call = conversation.fresh_call_id(&id, &ids);
                    let is_known = conversation.has_call(&id) || ids.contains(&id);
                    let kept = kept_of_call(about_call, (call != id && !is_known).then_some(&id));
                    ids.push(call.clone());
                    what.push(What::ToolCall { call, tool: name, input: Json(input) });
                    what.extend(kept);
                }
                Block::Reasoning { text, raw } => {
                    what.push(What::Reasoning { text, raw: Json(raw) });
                }
                Block::ToolUse { .. } | Block::ToolResult { .. } => {}
            }
        }
        let usage = Usage {
            input_tokens: answer.usage.input,
            output_tokens: answer.usage.output,
            cache_read_tokens: answer.usage.cache_read,
            cache_write_tokens: answer.usage.cache_write,
            tool_uses: ids.len() as u64,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            cost_micro_usd: 0,
        };
        what.push(What::Turn { usage });
        what
    }
}

fn is_about_call(block: &Block) -> bool {
    matches!(block, Block::Reasoning { raw, .. } if belongs_to_call(raw))
}

/// What is kept of a call: what its provider attached, and its id there, where it has another one here.
fn kept_of_call(about: Option<Block>, id: Option<&String>) -> Option<What> {
    let raw = match about {
        Some(Block::Reasoning { raw, .. }) => Some(raw),
        Some(Block::Text { .. } | Block::ToolUse { .. } | Block::ToolResult { .. }) | None => None,
    };
    let raw = match id {
        Some(id) => under_its_own_id(raw.as_ref(), id),
        None => raw?,
    };
    Some(What::Reasoning { text: String::new(), raw: Json(raw) })
}

/// A time span for people.
pub(super) fn time_words(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        10_000..120_000 => format!("{} s", ms / 1_000),
        _ => format!("{} minutes", ms / 60_000),
    }
}
