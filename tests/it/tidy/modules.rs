//! One style of modules and of imports.

use super::{files, none};

/// A module with modules of its own is `name.rs` beside the folder `name/`, so that its file is found by its name.
#[test]
fn a_module_is_in_the_file_of_its_name() {
    let mut complaints = Vec::new();
    for file in files(".rs") {
        if file.path.ends_with("/mod.rs") {
            complaints.push(format!("{}: move it beside its folder", file.path));
        }
        if file.text.lines().any(|line| line.trim_start().starts_with("#[path")) {
            complaints.push(format!("{}: a module in another file", file.path));
        }
    }
    none("modules are where Rust looks for them by name", &complaints);
}

/// The groups of imports, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Std,
    Others,
    Own,
}

impl Group {
    fn of(line: &str) -> Option<Self> {
        let path = line.strip_prefix("use ")?;
        let first = path.split([':', ';', ' ']).next()?;
        Some(match first {
            "std" | "core" | "alloc" => Self::Std,
            "crate" | "super" | "self" => Self::Own,
            _ => Self::Others,
        })
    }
}

/// The first import that stands in the wrong place, with the number of its line.
fn misplaced(text: &str) -> Option<(usize, &str)> {
    let mut last = None;
    let mut is_apart = false;
    for (at, line) in text.lines().enumerate() {
        is_apart |= line.is_empty();
        let Some(group) = Group::of(line) else { continue };
        let fits = match last {
            Some(last) if last == group => !is_apart,
            Some(last) => last < group && is_apart,
            None => true,
        };
        if !fits {
            return Some((at + 1, line));
        }
        (last, is_apart) = (Some(group), false);
    }
    None
}

#[test]
fn imports_stand_in_three_groups() {
    let wrong = files(".rs").into_iter().filter_map(|file| {
        let (at, line) = misplaced(&file.text)?;
        Some(format!("{}:{at}: {line}", file.path))
    });
    let rule = "imports: std and alloc, an empty line, other crates, an empty line, this crate; as \
                `cargo +nightly fmt -- --config group_imports=StdExternalCrate` has them";
    none(rule, &wrong.collect::<Vec<_>>());
}

#[test]
fn a_misplaced_import_is_found() {
    assert_eq!(misplaced("use std::a;\nuse std::b;\n\nuse serde::c;\n\nuse super::d;\n"), None);
    for wrong in [
        "use super::d;\n\nuse std::a;\n",
        "use std::a;\nuse serde::c;\n",
        "use std::a;\n\nuse std::b;\n",
    ] {
        assert!(misplaced(wrong).is_some(), "{wrong}");
    }
}
