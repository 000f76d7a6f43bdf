//! How `run` and `wait` end, for people and for scripts: the same words, codes and JSON in both.

use proto::agent::Provider;
use proto::view::{AgentView, PermissionView, SessionView};
use serde::Serialize;

use crate::question::card;
use crate::terminal::line;
use crate::{format, output};

/// How many open questions are listed; a session may have hundreds.
const LISTED_MAX: usize = 10;
/// Columns of what a question is about where it is only listed.
const ABOUT_COLUMNS: usize = 60;

/// Why the showing of a job, or the waiting for it, is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    Idle,
    NeedsInput,
    TimedOut,
}

/// A script that is built in says what it is and does nothing: that is no job that was done (fA17).
pub(crate) fn nothing_done(session: &SessionView, agents: &[AgentView]) -> Option<String> {
    let model = session.model.as_ref()?;
    let is_bare = model.provider == Provider::Rehearsal && model.rehearsal_file.is_none();
    let has_acted = agents.iter().any(|agent| agent.usage.tool_uses > 0);
    (is_bare && !has_acted).then(|| {
        "nothing was done: the model `rehearsal` only says what it is. Give a real one with --model, or a script with \
         --model rehearsal:FILE"
            .to_owned()
    })
}

/// What a script reads: the session as `session_show` gives it, with how it ended and what is asked.
#[derive(Serialize)]
struct Document<'a> {
    ended: How,
    session_detail: Detail<'a>,
    questions: &'a [PermissionView],
}

#[derive(Serialize)]
struct Detail<'a> {
    session: &'a SessionView,
    agents: &'a [AgentView],
}

/// One JSON document.
pub(crate) fn json(
    ended: How,
    (session, agents): (&SessionView, &[AgentView]),
    questions: &[PermissionView],
) -> anyhow::Result<()> {
    output::json(&Document { ended, session_detail: Detail { session, agents }, questions })
}

/// Says what waits for an answer, and how to give it from somewhere else.
pub(crate) fn say_needs_input(session: &SessionView, questions: &[PermissionView]) {
    let name = line(&session.name);
    let Some(first) = questions.first() else {
        return output::note(&format!("{name} needs input"));
    };
    let count = format::count(questions.len() as u64, "question");
    let verb = if questions.len() == 1 { "is" } else { "are" };
    output::note(&format!("{name} needs input: {count} {verb} open"));
    for question in questions.iter().take(LISTED_MAX) {
        let about = crate::terminal::cut(&card::short(&question.question), ABOUT_COLUMNS);
        output::note(&format!("  {}  {} asks: {about}", line(&question.id), line(&question.agent)));
    }
    if let Some(more) = questions.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
        output::note(&format!("  and {more} more: `coordctl permit ls {name}`"));
    }
    let id = line(&first.id);
    output::note(&format!(
        "`coordctl permit allow {id}` or `coordctl permit deny {id}` answers, `coordctl attach {name}` as well; \
         `coordctl wait {name}` goes on waiting. The session stays as it is until then"
    ));
}
