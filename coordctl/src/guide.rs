//! The pages of the guide, which `coordctl help TOPIC` shows. They are Markdown files in
//! `coordctl/guide`, embedded so that they always describe the build that shows them.

mod page;

pub(crate) use page::render;

/// One page of the guide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topic {
    /// What a person types after `coordctl help`; the file's name without `.md`.
    pub(crate) name: &'static str,
    /// The page as Markdown.
    pub(crate) text: &'static str,
}

impl Topic {
    /// The first heading of the page.
    pub(crate) fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

/// In the order in which `coordctl help` lists them.
pub(crate) const TOPICS: [Topic; 11] = [
    Topic { name: "commands", text: include_str!("../guide/commands.md") },
    Topic { name: "models", text: include_str!("../guide/models.md") },
    Topic { name: "modes", text: include_str!("../guide/modes.md") },
    Topic { name: "permissions", text: include_str!("../guide/permissions.md") },
    Topic { name: "terminals", text: include_str!("../guide/terminals.md") },
    Topic { name: "other-clis", text: include_str!("../guide/other-clis.md") },
    Topic { name: "mcp-clients", text: include_str!("../guide/mcp-clients.md") },
    Topic { name: "machines", text: include_str!("../guide/machines.md") },
    Topic { name: "recovery", text: include_str!("../guide/recovery.md") },
    Topic { name: "files", text: include_str!("../guide/files.md") },
    Topic { name: "systemd", text: include_str!("../guide/systemd.md") },
];

pub(crate) fn topic(name: &str) -> Option<Topic> {
    TOPICS.into_iter().find(|topic| topic.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_of_the_guide_is_a_topic() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("guide");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let topics: BTreeSet<String> =
            TOPICS.iter().map(|topic| format!("{}.md", topic.name)).collect();
        assert_eq!(files, topics);
    }

    #[test]
    fn no_topic_hides_a_command() {
        for topic in TOPICS {
            let command = crate::args::command();
            assert!(command.find_subcommand(topic.name).is_none(), "{} is a command", topic.name);
        }
    }

    #[test]
    fn every_page_begins_with_its_title() {
        for topic in TOPICS {
            assert!(topic.text.starts_with("# ") && !topic.title().is_empty(), "{}", topic.name);
        }
    }
}
