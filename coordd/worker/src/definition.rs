//! Agent definitions (G-5): the built-in ones and the user's own.
//!
//! In coordinator mode there is one, `worker`; it is compiled in only with the feature
//! `coordinator`. The user's files are read from the home folder and from nowhere else: a
//! repository must not define agents (rel-38). A file that cannot be used is passed over with a
//! warning.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use proto::agent::Mode;
use rustix::fs::{Mode as FileMode, OFlags};

/// Longest definition file: a long prompt.
const FILE_LEN_MAX: u64 = 64 * 1024;
/// The most files that are read in the user's folder.
const FILES_MAX: usize = 200;
/// Longest name.
const NAME_LEN_MAX: usize = 64;
/// Longest description that the lead's tool carries.
const DESCRIPTION_LEN_MAX: usize = 1_000;

const BUILT_IN: [&str; 3] = [
    include_str!("../prompts/agents/explore.md"),
    include_str!("../prompts/agents/general-purpose.md"),
    include_str!("../prompts/agents/plan.md"),
];

#[cfg(feature = "coordinator")]
const WORKER: &str = include_str!("../prompts/worker.md");
#[cfg(feature = "coordinator")]
const WORKER_SIMPLE: &str = include_str!("../prompts/worker-simple.md");

/// One kind of agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// What the lead reads to choose.
    pub(crate) description: String,
    /// The agent's tools; all of a worker's by default.
    pub(crate) tools: Option<Vec<String>>,
    /// Its system prompt.
    pub(crate) prompt: Cow<'static, str>,
}

/// Why a file is no definition.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum DefinitionError {
    #[error("it does not begin with front matter between two lines `---`")]
    NoFrontMatter,
    #[error("`name` is missing, or is not letters, digits, `-` and `_`")]
    Name,
    #[error("`description` is missing")]
    NoDescription,
    #[error("it is longer than {FILE_LEN_MAX} bytes")]
    TooLong,
    #[error("it is not UTF-8 text")]
    NotText,
    #[error("it cannot be read")]
    Unreadable,
}

/// All definitions on offer, sorted by name.
pub(crate) fn offered(mode: Mode, simple: bool, home: Option<&Path>) -> Vec<Definition> {
    if mode == Mode::Coordinator {
        return worker(simple);
    }
    let mut by_name = BTreeMap::new();
    for text in BUILT_IN {
        if let Ok(definition) = parse(text) {
            by_name.insert(definition.name.clone(), definition);
        }
    }
    // The user's own wins over a built-in one of the same name.
    if let Some(home) = home {
        for definition in of_folder(&home.join(".claude/agents")) {
            by_name.insert(definition.name.clone(), definition);
        }
    }
    by_name.into_values().collect()
}

/// The definition of that name; the general one by default.
pub(crate) fn find<'a>(
    offered: &'a [Definition],
    name: &str,
    mode: Mode,
) -> Option<&'a Definition> {
    let default = if mode == Mode::Coordinator { "worker" } else { "general-purpose" };
    let name = if name.is_empty() { default } else { name };
    offered.iter().find(|it| it.name == name)
}

#[cfg(feature = "coordinator")]
fn worker(simple: bool) -> Vec<Definition> {
    vec![Definition {
        name: "worker".to_owned(),
        description: "Carries out one task on its own and reports.".to_owned(),
        tools: None,
        prompt: Cow::Borrowed(if simple { WORKER_SIMPLE } else { WORKER }),
    }]
}

#[cfg(not(feature = "coordinator"))]
fn worker(_simple: bool) -> Vec<Definition> {
    Vec::new()
}

fn of_folder(folder: &Path) -> Vec<Definition> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .take(FILES_MAX)
        .collect();
    paths.sort();
    let mut definitions = Vec::new();
    for path in paths {
        match read_bounded(&path).and_then(|text| parse(&text)) {
            Ok(definition) => definitions.push(definition),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "an agent definition is passed over");
            }
        }
    }
    definitions
}

fn read_bounded(path: &Path) -> Result<String, DefinitionError> {
    // Opening must not hang on a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, FileMode::empty())
        .map(File::from)
        .map_err(|_| DefinitionError::Unreadable)?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(DefinitionError::Unreadable);
    }
    let mut bytes = Vec::new();
    file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|_| DefinitionError::Unreadable)?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(DefinitionError::TooLong);
    }
    String::from_utf8(bytes).map_err(|_| DefinitionError::NotText)
}

fn parse(text: &str) -> Result<Definition, DefinitionError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let rest = text.strip_prefix("---\n").ok_or(DefinitionError::NoFrontMatter)?;
    let (head, body) = rest.split_once("\n---\n").ok_or(DefinitionError::NoFrontMatter)?;
    let fields = front_matter(head);
    let name = fields.get("name").map(String::as_str).unwrap_or_default();
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(valid) {
        return Err(DefinitionError::Name);
    }
    let description = fields.get("description").map(String::as_str).unwrap_or_default();
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    if description.is_empty() {
        return Err(DefinitionError::NoDescription);
    }
    let tools = fields.get("tools").map(|field| tool_names(field)).filter(|it| !it.is_empty());
    Ok(Definition {
        name: name.to_owned(),
        description: proto::text::head(&description, DESCRIPTION_LEN_MAX).to_owned(),
        tools,
        prompt: Cow::Owned(body.trim().to_owned()),
    })
}

/// `key: value` lines; lines that are set in or begin with `-` continue the value before them.
fn front_matter(head: &str) -> BTreeMap<&str, String> {
    let mut fields: BTreeMap<&str, String> = BTreeMap::new();
    let mut last = "";
    for line in head.lines() {
        let continues = line.starts_with([' ', '\t', '-']);
        match line.split_once(':') {
            Some((key, value)) if !continues => {
                last = key.trim();
                let value = value.trim();
                let block = matches!(value, "|" | ">" | "|-" | ">-");
                let value = if block { "" } else { unquoted(value) };
                fields.insert(last, value.to_owned());
            }
            Some(_) | None => {
                if let Some(value) = fields.get_mut(last) {
                    value.push('\n');
                    value.push_str(line.trim());
                }
            }
        }
    }
    fields
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        let inner = value.strip_prefix(quote).and_then(|it| it.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner;
        }
    }
    value
}

/// `A, B`, `[A, B]`, or one `- A` a line. `*` means all.
fn tool_names(value: &str) -> Vec<String> {
    let names: Vec<String> = value
        .split(['\n', ','])
        .map(|part| part.trim().trim_start_matches('-').trim_matches(['[', ']', '"', '\'', ' ']))
        .filter(|it| !it.is_empty())
        // `Bash(git *)` cannot be held here: it stands for the tool, and the permission rules
        // decide.
        .map(|it| it.split('(').next().unwrap_or(it).to_owned())
        .collect();
    if names.iter().any(|name| name == "*") { Vec::new() } else { names }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(offered: &[Definition]) -> Vec<&str> {
        offered.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn g5_coordinator_mode_offers_worker_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".claude/agents");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("mine.md"), "---\nname: mine\ndescription: d\n---\nx").unwrap();
        let offered = offered(Mode::Coordinator, false, Some(home.path()));
        let expected: &[&str] = if cfg!(feature = "coordinator") { &["worker"] } else { &[] };
        assert_eq!(names(&offered), expected);
        assert!(find(&offered, "explore", Mode::Coordinator).is_none());
    }

    #[test]
    fn g5_other_modes_offer_built_in_and_the_users_own_sorted() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".claude/agents");
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &[u8]| std::fs::write(folder.join(name), text).unwrap();
        write("a.md", b"---\nname: fixer\ndescription: >\n  Mends\n  things.\ntools:\n  - Read\n  - Bash(git *)\n---\n\nMend.\n");
        write(
            "b.md",
            b"---\nname: plan\ndescription: 'my own plan'\ntools: *\nmodel: opus\n---\nPlan.",
        );
        write("no-front-matter.md", b"hello");
        write("bad-name.md", b"---\nname: ../x\ndescription: d\n---\n");
        write("not-text.md", b"---\nname: x\ndescription: \xff\n---\n");
        write("long.md", &vec![b'x'; 70_000]);
        write("ignored.txt", b"---\nname: y\ndescription: d\n---\n");
        rustix::fs::mkdir(folder.join("folder.md"), FileMode::RWXU).unwrap();
        let offered = offered(Mode::Normal, false, Some(home.path()));
        assert_eq!(names(&offered), ["explore", "fixer", "general-purpose", "plan"]);
        let fixer = find(&offered, "fixer", Mode::Normal).unwrap();
        assert_eq!(fixer.description, "Mends things.");
        assert_eq!(fixer.tools.as_deref(), Some(&["Read".to_owned(), "Bash".to_owned()][..]));
        assert_eq!(fixer.prompt, "Mend.");
        let plan = find(&offered, "plan", Mode::Normal).unwrap();
        assert_eq!((plan.description.as_str(), &plan.tools), ("my own plan", &None));
        assert_eq!(find(&offered, "", Mode::Normal).unwrap().name, "general-purpose");
    }

    #[test]
    fn every_built_in_definition_is_good() {
        for text in BUILT_IN {
            let definition = parse(text).unwrap();
            assert!(!definition.prompt.is_empty() && !definition.description.is_empty());
        }
        assert_eq!(
            names(&offered(Mode::Normal, false, None)),
            ["explore", "general-purpose", "plan"]
        );
    }
}
