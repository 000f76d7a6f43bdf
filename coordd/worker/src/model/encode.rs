//! What the encoders of all dialects have in common: how a server wants things spelled, and the ids
//! under which it knows its calls.

use std::collections::BTreeMap;

use super::kept::Kept;
use super::{Block, Request, ToolChoice, ToolSpec, Turn};

/// How a server wants a request. What it refuses by name is learnt, and left out from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a server takes or not")]
pub(super) struct Spelling {
    /// The provider's own address, where only the newest spelling of a request is taken.
    pub(super) official: bool,
    /// `max_completion_tokens` instead of `max_tokens`.
    pub(super) new_limit_name: bool,
    /// Whether the request asks for the usage in a stream.
    pub(super) stream_options: bool,
    /// Whether reasoning goes back.
    pub(super) reasoning: bool,
    /// Whether a tool may be demanded.
    pub(super) tool_choice: bool,
    /// Whether parts are marked for the prompt cache.
    pub(super) cache_marks: bool,
    /// The server's limit of output, where it is lower than what was asked for.
    pub(super) limit: Option<u32>,
}

impl Spelling {
    pub(super) fn new(official: bool) -> Self {
        Self {
            official,
            new_limit_name: official,
            stream_options: true,
            reasoning: true,
            tool_choice: true,
            cache_marks: true,
            limit: None,
        }
    }

    /// The output limit of a request.
    pub(super) fn limit(self, request: &Request) -> u32 {
        let asked = request.max_output_tokens;
        self.limit.map_or(asked, |limit| limit.min(asked))
    }
}

/// Whether a tool is offered: other servers than the provider's own pass over a choice that names
/// its tool, so they are offered that tool alone.
pub(super) fn is_offered(tool: &ToolSpec, request: &Request, spelling: Spelling) -> bool {
    match &request.tool_choice {
        ToolChoice::Tool(name) => spelling.official || tool.name == *name,
        ToolChoice::Auto | ToolChoice::Any => true,
    }
}

/// The ids of calls as their provider gave them.
#[derive(Debug, Default)]
pub(super) struct Ids<'a>(BTreeMap<&'a str, String>);

impl Ids<'_> {
    pub(super) fn of<'b>(&'b self, id: &'b str) -> &'b str {
        self.0.get(id).map_or(id, String::as_str)
    }
}

/// Finds them in the turns of a request.
pub(super) fn ids_of(turns: &[Turn]) -> Ids<'_> {
    let mut ids = BTreeMap::new();
    for turn in turns {
        let mut last: Option<&str> = None;
        for block in &turn.blocks {
            match block {
                Block::ToolUse { id, .. } => last = Some(id),
                Block::Reasoning { raw, .. } => {
                    if let (Some(id), Some(kept)) = (last, Kept::of_call(raw))
                        && !kept.id.is_empty()
                    {
                        ids.insert(id, kept.id);
                    }
                }
                Block::Text { .. } | Block::ToolResult { .. } => {}
            }
        }
    }
    Ids(ids)
}
