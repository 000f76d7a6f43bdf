//! Rules about this repository that no compiler holds, each as a test.
//!
//! A rule that a file has to break is broken in the open: in the test's own list, with the reason,
//! and the entry goes when it is no longer needed.

use std::path::{Path, PathBuf};

mod contract;
mod dependencies;
mod documents;
mod modules;
mod named;
mod sources;

/// The folders that hold our code, and documents that are read on GitHub.
const CODE: [&str; 5] = [".github", "coordctl", "coordd", "proto", "tests"];

/// One file of the repository.
struct File {
    /// From the root, with `/`.
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests has a parent").to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below our folders and beside them whose names end so, sorted.
fn files(ending: &str) -> Vec<File> {
    let mut paths = Vec::new();
    list(&root(), false, &mut paths);
    for folder in CODE {
        list(&root().join(folder), true, &mut paths);
    }
    paths.sort();
    let files = paths.into_iter().filter(|path| path.to_string_lossy().ends_with(ending));
    let files: Vec<_> = files
        .map(|path| {
            let relative = path.strip_prefix(root()).expect("listed below the root");
            let relative = relative.to_string_lossy().into_owned();
            File { text: read(&relative), path: relative }
        })
        .collect();
    assert!(!files.is_empty(), "no file ends with {ending}: this test looks in the wrong place");
    files
}

fn list(folder: &Path, deep: bool, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a folder").path();
        if !path.is_dir() {
            found.push(path);
        } else if deep && !path.ends_with("target") {
            list(&path, deep, found);
        }
    }
}

/// Fails with all complaints at once.
fn none(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}:\n  {}", complaints.join("\n  "));
}
