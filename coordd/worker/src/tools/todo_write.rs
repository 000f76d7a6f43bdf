//! `TodoWrite`: the agent's own list of what is to be done. Each call replaces the whole list.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::context::ToolContext;

/// Most entries of a list: what a reader can still follow.
const TODOS_MAX: usize = 100;

/// Longest text of an entry.
const TEXT_LEN_MAX: usize = 500;

pub(super) const DESCRIPTION: &str = "Keeps your list of what is to be done, for work of three or more steps. \
Each call replaces the whole list, so pass every entry. `content` says what is to be done (\"Run the tests\"), `activeForm` the \
same while it happens (\"Running the tests\"). Keep exactly one entry `in_progress` while you work, and mark an entry \
`completed` as soon as it is done, not before.";

/// How far an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Todo {
    pub(crate) content: String,
    pub(crate) status: TodoStatus,
    #[serde(rename = "activeForm")]
    pub(crate) active_form: String,
}

/// The current list of an agent.
#[derive(Debug, Default)]
pub(crate) struct TodoList(Mutex<Vec<Todo>>);

impl TodoList {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for the view of an agent's list, which is not there yet")
    )]
    pub(crate) fn entries(&self) -> Vec<Todo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, entries: Vec<Todo>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = entries;
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    todos: Vec<Todo>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TodoError {
    #[error("The list has {count} entries; at most {TODOS_MAX} fit. Combine some.")]
    TooMany { count: usize },
    #[error("Entry {number} is empty or longer than {TEXT_LEN_MAX} bytes. Give each a short text.")]
    BadText { number: usize },
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "description": "The whole list, in order.",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": { "type": "string", "description": "What is to be done." },
                        "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                        "activeForm": { "type": "string", "description": "The same while it happens." }
                    },
                    "required": ["content", "status", "activeForm"],
                    "additionalProperties": false
                }
            }
        },
        "required": ["todos"],
        "additionalProperties": false
    })
}

pub(super) fn run(input: &Input, context: &ToolContext) -> Result<String, TodoError> {
    let todos = &input.todos;
    if todos.len() > TODOS_MAX {
        return Err(TodoError::TooMany { count: todos.len() });
    }
    let fits = |text: &str| !text.trim().is_empty() && text.len() <= TEXT_LEN_MAX;
    if let Some(bad) =
        todos.iter().position(|todo| !fits(&todo.content) || !fits(&todo.active_form))
    {
        return Err(TodoError::BadText { number: bad + 1 });
    }
    let count = |status| todos.iter().filter(|todo| todo.status == status).count();
    let (pending, active, completed) =
        (count(TodoStatus::Pending), count(TodoStatus::InProgress), count(TodoStatus::Completed));
    context.todos.replace(todos.clone());
    Ok(format!("The list is kept: {completed} completed, {active} in progress, {pending} pending."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> ToolContext {
        ToolContext::new("/".into(), std::collections::BTreeMap::new())
    }

    fn input(todos: &Value) -> Input {
        serde_json::from_value(json!({ "todos": todos })).unwrap()
    }

    #[test]
    fn the_whole_list_is_replaced() {
        let context = context();
        let one = json!({ "content": "Read", "status": "completed", "activeForm": "Reading" });
        let two = json!({ "content": "Test", "status": "in_progress", "activeForm": "Testing" });
        let text = run(&input(&json!([one, two])), &context).unwrap();
        assert_eq!(text, "The list is kept: 1 completed, 1 in progress, 0 pending.");
        assert_eq!(context.todos.entries().len(), 2);
        run(&input(&json!([])), &context).unwrap();
        assert_eq!(context.todos.entries(), []);
    }

    #[test]
    fn a_list_that_does_not_fit_leaves_the_old_one() {
        let context = context();
        let good = json!({ "content": "Read", "status": "pending", "activeForm": "Reading" });
        run(&input(&json!([good])), &context).unwrap();
        let empty = json!({ "content": " ", "status": "pending", "activeForm": "x" });
        assert!(matches!(
            run(&input(&json!([empty])), &context),
            Err(TodoError::BadText { number: 1 })
        ));
        let many = Value::Array(vec![good; TODOS_MAX + 1]);
        assert!(matches!(run(&input(&many), &context), Err(TodoError::TooMany { .. })));
        assert_eq!(context.todos.entries().len(), 1);
    }
}
