//! The tools of an agent: what the model can call, and what happens then.
//!
//! ```text
//! ToolCall --fields checked--> input of the tool --runs--> ToolOutput
//!              \--> text that says what is wrong (is_error), never a crash
//! ```
//!
//! Whether a call may run at all is decided before, by [`permissions`]. A tool must not ask anyone,
//! and must not know of the model or the daemon.

mod bash;
mod bounded;
pub(crate) mod change;
pub(crate) mod child;
mod context;
mod edit;
mod files;
mod glob;
mod grep;
mod input;
pub(crate) mod paths;
pub(crate) mod permissions;
mod process_tree;
mod read;
mod seen;
mod todo_write;
mod walk;
pub(crate) mod walls;
mod write;

use std::error::Error;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::{
    bounded::cut,
    context::{StopSwitch, ToolContext},
    input::{InputError, check_fields, parse as parse_input},
    process_tree::{MARKER_NAME, ProcessTree, become_subreaper, new_marker},
    seen::{ContentHash, FILE_NAME as SEEN_FILE_NAME, SeenFiles},
};

/// A tool that this process runs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    Bash,
    Edit,
    Glob,
    Grep,
    Read,
    TodoWrite,
    Write,
}

/// What the model is told about a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolSpec {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) input_schema: Value,
}

/// One call, as the model wrote it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
}

/// What goes back to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolOutput {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

impl ToolOutput {
    pub(crate) fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }

    /// An error with all its causes.
    pub(crate) fn from_error(error: &dyn Error) -> Self {
        Self::error(coordd_common::chain(error))
    }
}

/// The tools that an agent has, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolPool(Vec<Tool>);

impl ToolPool {
    /// Every tool, or the few of simple mode (W-2).
    pub(crate) fn new(simple: bool) -> Self {
        if simple {
            Self(vec![Tool::Bash, Tool::Edit, Tool::Read])
        } else {
            Self(Tool::ALL.to_vec())
        }
    }

    /// Only those that a definition names. A name without a tool here is the caller's.
    pub(crate) fn only(mut self, names: &[String]) -> Self {
        self.0.retain(|tool| names.iter().any(|name| name == tool.name()));
        self
    }

    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        self.0.iter().map(|it| it.spec()).collect()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|it| it.name() == name)
    }

    /// What is wrong with a call, so that it cannot run; none where nothing is, or the tool is not
    /// here. Nobody is asked about a call that cannot run.
    pub(crate) fn misfit(&self, call: &ToolCall) -> Option<ToolOutput> {
        self.0.iter().find(|it| it.name() == call.name)?.check(&call.input).err()
    }

    /// Runs a call. Whatever is wrong with it becomes a text for the model.
    pub(crate) async fn run(&self, call: &ToolCall, context: &ToolContext) -> ToolOutput {
        let Some(tool) = self.0.iter().find(|it| it.name() == call.name) else {
            let names: Vec<&str> = self.0.iter().map(|it| it.name()).collect();
            let name = cut(&call.name, 80);
            return ToolOutput::error(format!(
                "There is no tool {name:?} here. The tools are: {}.",
                names.join(", ")
            ));
        };
        if context.stop.is_stopped() {
            return ToolOutput::error("Not run: the agent was stopped.");
        }
        let mut output = tool.run(&call.input, context).await;
        if let Some(temp) = context.walls.as_ref().map(|it| it.temp()) {
            // Its name in the box, by which commands find it.
            output.text = output.text.replace(temp.to_string_lossy().as_ref(), "/tmp");
        }
        output
    }
}

impl Tool {
    /// Sorted by name.
    const ALL: [Self; 7] =
        [Self::Bash, Self::Edit, Self::Glob, Self::Grep, Self::Read, Self::TodoWrite, Self::Write];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "Bash",
            Self::Edit => "Edit",
            Self::Glob => "Glob",
            Self::Grep => "Grep",
            Self::Read => "Read",
            Self::TodoWrite => "TodoWrite",
            Self::Write => "Write",
        }
    }

    /// Whether calls of it change nothing, so that several may run at once.
    pub(crate) fn is_read_only(self) -> bool {
        match self {
            Self::Glob | Self::Grep | Self::Read => true,
            Self::Bash | Self::Edit | Self::TodoWrite | Self::Write => false,
        }
    }

    pub(crate) fn spec(self) -> ToolSpec {
        let (description, input_schema) = match self {
            Self::Bash => (bash::DESCRIPTION, bash::schema()),
            Self::Edit => (edit::DESCRIPTION, edit::schema()),
            Self::Glob => (glob::DESCRIPTION, glob::schema()),
            Self::Grep => (grep::DESCRIPTION, grep::schema()),
            Self::Read => (read::DESCRIPTION, read::schema()),
            Self::TodoWrite => (todo_write::DESCRIPTION, todo_write::schema()),
            Self::Write => (write::DESCRIPTION, write::schema()),
        };
        ToolSpec { name: self.name(), description, input_schema }
    }

    /// What is wrong with an input before anything is done. A call that cannot run is not asked about.
    fn fault(self, input: &Value) -> Option<ToolOutput> {
        match self {
            Self::Bash => match self.parse(input) {
                Ok(input) => bash::fault(&input),
                Err(output) => Some(output),
            },
            Self::Edit => self.parse::<edit::Input>(input).err(),
            Self::Glob => self.parse::<glob::Input>(input).err(),
            Self::Grep => self.parse::<grep::Input>(input).err(),
            Self::Read => self.parse::<read::Input>(input).err(),
            Self::TodoWrite => self.parse::<todo_write::Input>(input).err(),
            Self::Write => self.parse::<write::Input>(input).err(),
        }
    }

    async fn run(self, input: &Value, context: &ToolContext) -> ToolOutput {
        match self {
            Self::Bash => match self.parse(input) {
                Ok(input) => bash::run(input, context).await,
                Err(output) => output,
            },
            Self::Edit => self.blocking(input, context, edit::run).await,
            Self::Glob => self.blocking(input, context, glob::run).await,
            Self::Grep => self.blocking(input, context, grep::run).await,
            Self::Read => self.blocking(input, context, read::run).await,
            Self::TodoWrite => self.blocking(input, context, todo_write::run).await,
            Self::Write => self.blocking(input, context, write::run).await,
        }
    }

    /// Whether an input fits the tool.
    fn check(self, input: &Value) -> Result<(), ToolOutput> {
        match self {
            Self::Bash => self.parse::<bash::Input>(input).map(drop),
            Self::Edit => self.parse::<edit::Input>(input).map(drop),
            Self::Glob => self.parse::<glob::Input>(input).map(drop),
            Self::Grep => self.parse::<grep::Input>(input).map(drop),
            Self::Read => self.parse::<read::Input>(input).map(drop),
            Self::TodoWrite => self.parse::<todo_write::Input>(input).map(drop),
            Self::Write => self.parse::<write::Input>(input).map(drop),
        }
    }

    fn parse<I: DeserializeOwned>(self, input: &Value) -> Result<I, ToolOutput> {
        let schema = self.spec().input_schema;
        input::parse(self.name(), &schema, input).map_err(|error| ToolOutput::from_error(&error))
    }

    /// Runs on a thread that may block: a slow disk must not hold up the agent's connections.
    async fn blocking<I, E>(
        self,
        input: &Value,
        context: &ToolContext,
        run: fn(&I, &ToolContext) -> Result<String, E>,
    ) -> ToolOutput
    where
        I: DeserializeOwned + Send + 'static,
        E: Error + Send + 'static,
    {
        let input = match self.parse(input) {
            Ok(input) => input,
            Err(output) => return output,
        };
        let context = context.clone();
        match tokio::task::spawn_blocking(move || run(&input, &context)).await {
            Ok(Ok(text)) => ToolOutput::ok(text),
            Ok(Err(error)) => ToolOutput::from_error(&error),
            Err(_) => ToolOutput::error(format!(
                "{} failed inside, which is a fault of coordd. Try another way, for example Bash.",
                self.name()
            )),
        }
    }
}

/// The text of a regular file, for what is told without a call. None for what cannot be read, is too large, or is no text.
pub(crate) fn read_text_file(path: &std::path::Path) -> Option<String> {
    let (bytes, _) = files::read_whole(path).ok()?;
    String::from_utf8(bytes).ok()
}

/// What is wrong with a call of a tool of ours, so that it cannot run whatever the user says to it.
pub(crate) fn fault(name: &str, input: &Value) -> Option<String> {
    Tool::from_name(name)?.fault(input).map(|output| output.text)
}

/// Whether a call changes nothing, so that it may run at the same time as others of its kind.
pub(crate) fn is_read_only(name: &str) -> bool {
    Tool::from_name(name).is_some_and(Tool::is_read_only)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    async fn run(pool: &ToolPool, name: &str, input: Value) -> ToolOutput {
        let context = ToolContext::new("/".into(), BTreeMap::new());
        pool.run(&ToolCall { id: "1".to_owned(), name: name.to_owned(), input }, &context).await
    }

    fn names(pool: &ToolPool) -> Vec<&'static str> {
        pool.specs().iter().map(|spec| spec.name).collect()
    }

    /// W-2: the two pools, sorted.
    #[test]
    fn pools_are_sorted_lists() {
        let full = ToolPool::new(false);
        assert_eq!(names(&full), ["Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write"]);
        assert!(names(&full).is_sorted());
        assert_eq!(names(&ToolPool::new(true)), ["Bash", "Edit", "Read"]);
        let wanted = ["Read".to_owned(), "Agent".to_owned(), "Bash".to_owned()];
        assert_eq!(names(&full.clone().only(&wanted)), ["Bash", "Read"]);
    }

    #[test]
    fn only_tools_that_change_nothing_run_in_parallel() {
        let parallel: Vec<_> = Tool::ALL.into_iter().filter(|it| it.is_read_only()).collect();
        assert_eq!(parallel, [Tool::Glob, Tool::Grep, Tool::Read]);
        assert!(!is_read_only("Agent"));
    }

    /// C-7: every schema is closed, and every tool names the fields that it does not know.
    #[tokio::test]
    async fn every_tool_names_unknown_fields() {
        let pool = ToolPool::new(false);
        for spec in pool.specs() {
            assert_eq!(spec.input_schema["additionalProperties"], json!(false), "{}", spec.name);
            let output = run(&pool, spec.name, json!({ "surprise": 1 })).await;
            assert!(output.is_error);
            let start = format!("{} has no field `surprise`. Its fields are: ", spec.name);
            assert!(output.text.starts_with(&start), "{}", output.text);
        }
    }

    /// The schema and the type behind it know the same fields.
    #[tokio::test]
    async fn every_field_of_a_schema_is_understood() {
        let pool = ToolPool::new(false);
        for spec in pool.specs() {
            for (field, schema) in spec.input_schema["properties"].as_object().unwrap() {
                let mut input = json!({});
                for required in spec.input_schema["required"].as_array().unwrap() {
                    input[required.as_str().unwrap()] = json!(null);
                }
                // A value of a type that no field has: the answer must be about the type.
                input[field] = json!({ "no": "field" });
                let output = run(&pool, spec.name, input).await;
                assert!(output.text.contains("does not fit its schema"), "{field} {}", output.text);
                assert!(!output.text.contains("unknown field"), "{}", output.text);
                assert!(schema.get("type").is_some(), "{field}");
            }
        }
    }

    #[tokio::test]
    async fn an_unknown_tool_is_answered_with_the_known_ones() {
        let output = run(&ToolPool::new(true), "Grep", json!({})).await;
        let expected = "There is no tool \"Grep\" here. The tools are: Bash, Edit, Read.";
        assert_eq!(output, ToolOutput::error(expected));
    }

    #[tokio::test]
    async fn nothing_starts_after_a_stop() {
        let (switch, stop) = StopSwitch::new();
        switch.stop();
        let context = ToolContext::new("/".into(), BTreeMap::new()).with_stop(stop);
        let input = json!({ "command": "true" });
        let call = ToolCall { id: "1".to_owned(), name: "Bash".to_owned(), input };
        assert!(ToolPool::new(true).run(&call, &context).await.is_error);
    }
}
