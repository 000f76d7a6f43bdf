//! Walking a folder for `Grep` and `Glob`: respecting .gitignore, without hidden files unless the
//! pattern names them.
//!
//! It must not leave the folder through a symlink, and must end when the call is stopped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use ignore::types::Types;
use ignore::{Walk, WalkBuilder};

use super::context::{PathFilter, ToolContext};

/// Longest walk. What was found until then is returned, with a note.
const WALK_MS_MAX: u64 = 60_000;

/// Most files that are counted as left out.
const COUNTED_MAX: usize = 10_000;

/// Most searched files that are remembered to count the others: some tens of megabytes.
const SEARCHED_MAX: usize = 200_000;

/// Why a search could not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum WalkError {
    #[error("The glob {pattern:?} cannot be read. Correct it")]
    BadGlob {
        pattern: String,
        #[source]
        source: globset::Error,
    },
    #[error("{} does not exist.{suggestion}", path.display())]
    Missing { path: PathBuf, suggestion: String },
}

/// A glob for files: without a slash it is about the name alone, if the caller says so.
#[derive(Debug)]
pub(super) struct FileGlob {
    matcher: GlobMatcher,
    negated: bool,
    /// The pattern has a part that begins with a dot.
    pub(super) names_hidden: bool,
    by_name: bool,
}

impl FileGlob {
    pub(super) fn new(pattern: &str, slash_free_is_name: bool) -> Result<Self, WalkError> {
        let (negated, positive) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let positive = positive.strip_prefix("./").unwrap_or(positive);
        let glob = GlobBuilder::new(positive).literal_separator(true).build();
        let bad = |source| WalkError::BadGlob { pattern: pattern.to_owned(), source };
        let matcher = glob.map_err(bad)?.compile_matcher();
        let names_hidden =
            !negated && positive.split(['/', '{', ',']).any(|part| part.starts_with('.'));
        let by_name = slash_free_is_name && !positive.contains('/');
        Ok(Self { matcher, negated, names_hidden, by_name })
    }

    pub(super) fn accepts(&self, path: &Path, root: &Path, cwd: &Path) -> bool {
        let matches = if self.by_name {
            path.file_name().is_some_and(|name| self.matcher.is_match(name))
        } else {
            [root, cwd]
                .iter()
                .filter_map(|it| path.strip_prefix(it).ok())
                .any(|it| self.matcher.is_match(it))
        };
        matches != self.negated
    }
}

/// What a search leaves out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeavesOut {
    /// What ignore files name, and hidden files.
    IgnoredAndHidden,
    /// What ignore files name.
    Ignored,
    /// Nothing.
    Nothing,
}

impl LeavesOut {
    /// For a glob, which may name hidden files.
    pub(super) fn of(names_hidden: bool) -> Self {
        if names_hidden { Self::Ignored } else { Self::IgnoredAndHidden }
    }
}

/// Files that a search left out, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    ignored: usize,
    hidden: usize,
    /// There are more, and they were not counted.
    is_cut: bool,
    /// So many were searched that the others cannot be told from them.
    is_unknown: bool,
}

/// Counts the files below a folder that would fit a search and were left out of it.
pub(super) fn left_out(
    root: &Path,
    leaves_out: LeavesOut,
    types: Option<Types>,
    context: &ToolContext,
    fits: impl Fn(&Path) -> bool,
) -> LeftOut {
    let mut found = LeftOut::default();
    if leaves_out == LeavesOut::Nothing {
        return found;
    }
    let searched = Files::below(root, leaves_out, types.clone(), context);
    let searched: BTreeSet<PathBuf> = searched.take(SEARCHED_MAX).collect();
    if searched.len() == SEARCHED_MAX {
        found.is_unknown = true;
        return found;
    }
    let all = Files::below(root, LeavesOut::Nothing, types, context);
    for path in all.filter(|path| !searched.contains(path) && fits(path)) {
        let mut inside = path.strip_prefix(root).unwrap_or(&path).components();
        let is_hidden = leaves_out == LeavesOut::IgnoredAndHidden
            && inside.any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
        *(if is_hidden { &mut found.hidden } else { &mut found.ignored }) += 1;
        if found.ignored + found.hidden >= COUNTED_MAX {
            found.is_cut = true;
            break;
        }
    }
    found
}

impl LeftOut {
    /// What the model is told, so that absence and blindness do not look the same (fT16).
    pub(super) fn note(self) -> String {
        if self.is_unknown {
            return "\n[files that .gitignore names and hidden ones were not searched, unless `path` or the glob names them]".to_owned();
        }
        let more = if self.is_cut { "at least " } else { "" };
        let kinds = [(self.ignored, "that .gitignore names"), (self.hidden, "hidden")];
        let parts: Vec<String> = kinds
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{more}{count} {kind}"))
            .collect();
        if parts.is_empty() {
            return String::new();
        }
        format!(
            "\n[files that were not searched: {}; name one, or its folder, in `path` to search it]",
            parts.join(", ")
        )
    }
}

/// The regular files below a folder, until a stop or the end of the time.
pub(super) struct Files<'a> {
    walk: Walk,
    context: &'a ToolContext,
    deadline: Instant,
    /// The walk ended before all was seen.
    pub(super) cut: bool,
    /// Folders and files that could not be looked at.
    pub(super) unreadable: usize,
}

impl<'a> Files<'a> {
    pub(super) fn below(
        root: &Path,
        leaves_out: LeavesOut,
        types: Option<Types>,
        context: &'a ToolContext,
    ) -> Self {
        let mut builder = WalkBuilder::new(root);
        // A folder that the call names is searched, although an ignore file above it may name all that is in it.
        let is_named = root != context.real_cwd() && is_ignored(root, context);
        builder
            .hidden(leaves_out == LeavesOut::IgnoredAndHidden)
            .require_git(false)
            .follow_links(false)
            .parents(!is_named);
        if leaves_out == LeavesOut::Nothing {
            builder.git_ignore(false).git_global(false).git_exclude(false).ignore(false);
        }
        builder.sort_by_file_name(std::ffi::OsStr::cmp);
        if let Some(types) = types {
            builder.types(types);
        }
        let hides = context.hidden.clone();
        // Who searches there has been allowed to.
        let withholds = context.withheld.clone().filter(|withholds| !withholds(root));
        builder.filter_entry(move |entry| {
            let covered = |filter: &Option<PathFilter>| {
                filter.as_ref().is_some_and(|filter| filter(entry.path()))
            };
            let hidden = covered(&hides) || covered(&withholds);
            // The insides of a repository are of no use to a search, unless it starts there.
            let git = entry.depth() > 0 && entry.file_name() == ".git";
            !hidden && !git
        });
        let deadline = Instant::now() + Duration::from_millis(WALK_MS_MAX);
        Self { walk: builder.build(), context, deadline, cut: false, unreadable: 0 }
    }
}

/// Whether ignore files above a folder name all that is in it.
fn is_ignored(folder: &Path, context: &ToolContext) -> bool {
    let mut builder = WalkBuilder::new(folder);
    builder.hidden(false).require_git(false).follow_links(false).max_depth(Some(1));
    let is_inside = |entry: &ignore::DirEntry| entry.depth() > 0;
    let sees = |builder: &WalkBuilder| builder.build().flatten().any(|entry| is_inside(&entry));
    let is_blind = !sees(&builder);
    // An empty folder is no reason to look further.
    is_blind && !context.stop.is_stopped() && sees(builder.parents(false))
}

impl Iterator for Files<'_> {
    type Item = PathBuf;

    fn next(&mut self) -> Option<PathBuf> {
        loop {
            if self.context.stop.is_stopped() || Instant::now() >= self.deadline {
                self.cut = true;
                return None;
            }
            match self.walk.next()? {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                    return Some(entry.into_path());
                }
                Ok(_) => {}
                Err(_) => self.unreadable += 1,
            }
        }
    }
}

/// Notes about what a search did not show.
pub(super) fn notes(cut: bool, unreadable: usize) -> String {
    let mut notes = String::new();
    if cut {
        notes.push_str("\n[the search was ended before its end: name a smaller folder in `path`]");
    }
    if unreadable > 0 {
        notes = format!("{notes}\n[{unreadable} files or folders could not be read]");
    }
    notes
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A folder with a bit of everything that a search has to treat in its own way.
    pub(in super::super) fn tree() -> (tempfile::TempDir, ToolContext) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (path, content) in [
            (".gitignore", "/target/\n*.log\n"),
            (".github/ci.yml", "needle: ci\n"),
            (".git/config", "needle\n"),
            ("a.rs", "one\nneedle one\nthree\n"),
            ("src/lib.rs", "Needle\nfn b() {\n    needle();\n}\n"),
            ("src/deep/er.py", "needle = 1\n"),
            ("src/binary", "needle\0\n"),
            ("target/out.rs", "needle\n"),
            ("x.log", "needle\n"),
        ] {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), content).unwrap();
        }
        std::os::unix::fs::symlink("/etc", root.join("src/outside")).unwrap();
        (dir, ToolContext::new(root, BTreeMap::new()))
    }

    fn found(hidden_too: bool, context: &ToolContext) -> Vec<String> {
        let files = Files::below(&context.cwd, LeavesOut::of(hidden_too), None, context);
        files.map(|file| context.shown(&file).display().to_string()).collect()
    }

    #[test]
    fn ignored_hidden_and_linked_files_are_left_out() {
        let (_dir, context) = tree();
        assert_eq!(found(false, &context), ["a.rs", "src/binary", "src/deep/er.py", "src/lib.rs"]);
        let hidden = found(true, &context);
        assert!(hidden.contains(&".github/ci.yml".to_owned()));
        assert!(!hidden.iter().any(|it| it.starts_with(".git/")));
    }

    #[test]
    fn a_stop_ends_the_walk_and_rules_hide_files() {
        let (_dir, mut context) = tree();
        context.hidden = Some(std::sync::Arc::new(|path: &Path| path.ends_with("src")));
        assert_eq!(found(false, &context), ["a.rs"]);
        let (switch, stop) = super::super::StopSwitch::new();
        let context = context.with_stop(stop);
        switch.stop();
        let mut files = Files::below(&context.cwd, LeavesOut::IgnoredAndHidden, None, &context);
        assert_eq!(files.next(), None);
        assert!(files.cut);
    }

    /// What is sealed is left out, unless the search was allowed to begin there.
    #[test]
    fn what_is_withheld_is_left_out_of_a_search_from_above() {
        let (_dir, mut context) = tree();
        let sealed = context.cwd.join("src");
        context.withheld = Some(std::sync::Arc::new(move |path: &Path| path.starts_with(&sealed)));
        assert_eq!(found(false, &context), ["a.rs"]);
        let inside = Files::below(
            &context.cwd.join("src/deep"),
            LeavesOut::IgnoredAndHidden,
            None,
            &context,
        );
        assert_eq!(inside.count(), 1);
    }

    #[test]
    fn globs() {
        let (root, cwd) = (Path::new("/w/src"), Path::new("/w"));
        for (pattern, path, expected) in [
            ("*.rs", "/w/src/a/b.rs", true),
            ("!*.rs", "/w/src/a/b.rs", false),
            ("*.{rs,py}", "/w/src/b.py", true),
            ("a/*.rs", "/w/src/a/b.rs", true),
            ("src/**/*.rs", "/w/src/a/b.rs", true),
            ("**/b.rs", "/w/src/a/b.rs", true),
            ("a/*.rs", "/w/src/a/c/b.rs", false),
        ] {
            let glob = FileGlob::new(pattern, true).unwrap();
            assert_eq!(glob.accepts(Path::new(path), root, cwd), expected, "{pattern} {path}");
        }
        assert!(FileGlob::new(".github/**", true).unwrap().names_hidden);
        assert!(FileGlob::new("{.a,b}", true).unwrap().names_hidden);
        assert!(!FileGlob::new("a.b/*.c", true).unwrap().names_hidden);
        assert!(FileGlob::new("a{", true).is_err());
    }
}
