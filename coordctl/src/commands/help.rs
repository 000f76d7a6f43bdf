//! `coordctl help`: the guide's pages, and the help of every command.

use serde::Serialize;

use crate::error::{Exit, Failure};
use crate::guide::{self, TOPICS};
use crate::{output, pager};

/// Show a page of the guide, or the help of a command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: coordctl help permissions\nExample: coordctl help team invite")]
pub(crate) struct Args {
    /// A topic of the guide, or a command; without one, a list of all.
    #[arg(index = 1, hide_possible_values = true)]
    topic: Option<String>,
    /// The rest of a command, as `invite` of `team invite`.
    #[arg(index = 2, hide = true)]
    rest: Vec<String>,
}

/// What `--json` prints of one page.
#[derive(Debug, Serialize)]
struct Page<'a> {
    topic: &'a str,
    /// The page as Markdown, or a command's help as plain text.
    text: &'a str,
}

/// What `--json` prints without a topic.
#[derive(Debug, Serialize)]
struct List {
    topics: Vec<Row>,
}

/// One topic of the list.
#[derive(Debug, Serialize)]
struct Row {
    topic: &'static str,
    title: &'static str,
}

pub(crate) fn run(args: &Args, json: bool) -> anyhow::Result<Exit> {
    let Some(name) = &args.topic else { return list(json) };
    if let Some(topic) = guide::topic(name).filter(|_| args.rest.is_empty()) {
        if json {
            output::json(&Page { topic: topic.name, text: topic.text })?;
        } else {
            pager::show(&guide::render(topic.text, pager::columns()))?;
        }
        return Ok(Exit::Done);
    }
    let text = of_command(name, &args.rest)?;
    if json {
        output::json(&Page { topic: name, text: &text })?;
    } else {
        pager::show(&text)?;
    }
    Ok(Exit::Done)
}

fn list(json: bool) -> anyhow::Result<Exit> {
    if json {
        let topics =
            TOPICS.iter().map(|topic| Row { topic: topic.name, title: topic.title() }).collect();
        output::json(&List { topics })?;
    } else {
        let mut command = crate::args::command();
        pager::show(&command.render_help().to_string())?;
    }
    Ok(Exit::Done)
}

/// The help of a command, found by the words of its name.
fn of_command(name: &str, rest: &[String]) -> Result<String, Failure> {
    let mut command = crate::args::command();
    command.build();
    let mut found = &mut command;
    for word in std::iter::once(name).chain(rest.iter().map(String::as_str)) {
        if found.find_subcommand(word).is_none() {
            let message =
                format!("`{}` has no command `{word}`", found.get_bin_name().unwrap_or("coordctl"));
            return Err(Failure::usage(message).hint("`coordctl help` lists topics and commands"));
        }
        found = found.find_subcommand_mut(word).ok_or_else(|| Failure::usage("no such command"))?;
    }
    Ok(found.render_long_help().to_string())
}

/// The topics as lines of the help of `coordctl` itself.
pub(crate) fn topics() -> String {
    let widest = TOPICS.iter().map(|topic| topic.name.len()).max().unwrap_or(0);
    let line = |topic: &guide::Topic| format!("  {:widest$}  {}\n", topic.name, topic.title());
    format!("Topics (`coordctl help TOPIC`):\n{}", TOPICS.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_help_of_a_command_is_found_by_its_words() {
        let help = of_command("team", &["create".into()]).unwrap();
        assert!(help.contains("Usage: coordctl team create"), "{help}");
        let error = of_command("team", &["creat".into()]).unwrap_err();
        assert_eq!(
            (error.exit, error.message.as_str()),
            (Exit::Usage, "`coordctl team` has no command `creat`")
        );
    }

    #[test]
    fn l1_topics_are_listed_and_completed() {
        let help = crate::args::command().render_help().to_string();
        for topic in TOPICS {
            assert!(help.contains(&format!("  {}", topic.name)), "{} is not in {help}", topic.name);
        }
        let mut script = Vec::new();
        clap_complete::generate(
            clap_complete::Shell::Bash,
            &mut crate::args::command(),
            "coordctl",
            &mut script,
        );
        let script = String::from_utf8(script).unwrap();
        assert!(
            script.contains("mcp-clients") && script.contains("recovery"),
            "no topics in the script"
        );
    }
}
