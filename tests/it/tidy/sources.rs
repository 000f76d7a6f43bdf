//! Rules about the Rust sources.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, files, none, read};

/// A file is about one thing; more lines than this, tests not counted, are more than one.
const LINES_MAX: usize = 400;

/// Files that may be longer: path, lines it may have, why.
const LONGER: [(&str, usize, &str); 0] = [];

/// Files of the core that may import each other in a circle.
const CIRCLE_MAX: usize = 5;

/// What the core must not name: it does no I/O, reads no clock, and iterates in one order only.
const NOT_IN_CORE: [&str; 5] = ["std::", "HashMap", "HashSet", "println!", "static mut"];

/// Spelt in two parts, so that this file does not break its own rule.
const NOWHERE: [&str; 6] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("#[ig", "nore"),
    concat!("db", "g!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO:"),
];

/// Bounds are told by their names.
const BOUND_ENDINGS: [&str; 4] = ["_MAX", "_LIMIT", "_CAP", "_BOUND"];

/// What a code block in a doc comment may be. Nothing runs these, so Rust is not among them.
const BLOCKS: [&str; 8] = ["text", "json", "toml", "sh", "xml", "console", "ini", "sql"];

fn in_core(file: &File) -> bool {
    file.path.starts_with("coordd/core/src/") || file.path.starts_with("proto/words/src/")
}

/// The lines before the unit tests at the end of a file.
fn without_tests(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    let tests = (0..lines.len()).find(|&at| {
        lines[at] == "#[cfg(test)]"
            && lines[at + 1..]
                .iter()
                .find(|line| !line.trim_start().starts_with("#["))
                .is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    });
    lines[..tests.unwrap_or(lines.len())].to_vec()
}

/// The same without whole-line comments.
fn code(text: &str) -> Vec<&str> {
    without_tests(text).into_iter().filter(|line| !line.trim_start().starts_with("//")).collect()
}

/// Files, or folders of files, that `#[cfg(test)] mod name;` brings in: tests as a whole.
fn test_only(sources: &[File]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in sources {
        let lines: Vec<_> = file.text.lines().map(str::trim).collect();
        for at in 0..lines.len() {
            if lines[at] != "#[cfg(test)]" {
                continue;
            }
            let (folder, own) = file.path.rsplit_once('/').expect("a file in a folder");
            let after = &lines[at + 1..];
            let item = after.iter().find(|line| !line.starts_with("#["));
            let name = item.and_then(|item| item.strip_suffix(';')?.split("mod ").nth(1));
            let Some(name) = name else { continue };
            let parent = match own.trim_end_matches(".rs") {
                "lib" | "main" => folder.to_owned(),
                own => format!("{folder}/{own}"),
            };
            found.insert(format!("{parent}/{name}.rs"));
            found.insert(format!("{parent}/{name}/"));
        }
    }
    found
}

/// All sources but those that are tests as a whole.
fn shipped() -> Vec<File> {
    let sources = files(".rs");
    let tests = test_only(&sources);
    let is_test = |path: &str| {
        path.starts_with("tests/it/")
            || tests
                .iter()
                .any(|test| path == test || test.ends_with('/') && path.starts_with(test))
    };
    sources.into_iter().filter(|file| !is_test(&file.path)).collect()
}

#[test]
fn the_tests_of_a_file_are_told_from_its_code() {
    let text = "a\n#[cfg(test)]\nextern crate std;\n// b\nc\n#[cfg(test)]\nmod tests {\nd\n}\n";
    assert_eq!(without_tests(text), ["a", "#[cfg(test)]", "extern crate std;", "// b", "c"]);
    assert_eq!(code(text), ["a", "#[cfg(test)]", "extern crate std;", "c"]);
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let sources = [
        file("x/lib.rs", "#[cfg(test)]\nmod sim;\nmod it;"),
        file("x/it.rs", "#[cfg(test)]\nmod a;\n#[cfg(test)]\npub(crate) mod tests;"),
        file("x/y.rs", "#[cfg(test)]\nmod tests {\n}"),
    ];
    let expected = ["x/it/a.rs", "x/it/a/", "x/it/tests.rs", "x/it/tests/", "x/sim.rs", "x/sim/"]
        .map(str::to_owned);
    assert_eq!(test_only(&sources), BTreeSet::from(expected));
}

#[test]
fn the_core_is_no_std() {
    for root in ["coordd/core/src/lib.rs", "proto/words/src/lib.rs"] {
        let is_no_std = read(root).lines().any(|line| line == "#![no_std]");
        assert!(is_no_std, "{root} must say #![no_std]");
    }
    let mut complaints = Vec::new();
    for file in files(".rs").iter().filter(|file| in_core(file)) {
        let lines: Vec<_> = file.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if line.trim_start().starts_with("extern crate std")
                && (at == 0 || lines[at - 1].trim() != "#[cfg(test)]")
            {
                complaints.push(format!("{}:{}", file.path, at + 1));
            }
        }
    }
    none("std may come into the core under #[cfg(test)] only", &complaints);
}

#[test]
fn the_core_does_no_io_and_reads_no_clock() {
    let mut complaints = Vec::new();
    for file in shipped().iter().filter(|file| in_core(file)) {
        for line in code(&file.text) {
            for word in NOT_IN_CORE.iter().filter(|word| line.contains(**word)) {
                complaints.push(format!("{}: {word}: {}", file.path, line.trim()));
            }
        }
    }
    none("the core decides and does nothing", &complaints);
}

/// Names from the root of the crate or from above a file's own folder: the only ways out of
/// `state/`.
fn leads_out_of_state(line: &str) -> bool {
    let from_root = line.split("crate::").skip(1).any(|rest| !rest.starts_with("state::"));
    from_root || line.contains("rules::") || line.contains("super::super")
}

#[test]
fn the_cores_state_names_no_rule() {
    let shipped = shipped();
    let state: Vec<_> =
        shipped.iter().filter(|file| file.path.starts_with("coordd/core/src/state/")).collect();
    assert!(state.len() > 20, "the core's state is in coordd/core/src/state/");
    let mut complaints = Vec::new();
    for file in state {
        for line in code(&file.text).iter().filter(|line| leads_out_of_state(line)) {
            complaints.push(format!("{}: {}", file.path, line.trim()));
        }
    }
    none("what is knows nothing of what follows from it", &complaints);
}

#[test]
fn one_module_knows_bincode() {
    let mut complaints = Vec::new();
    for file in shipped().iter().filter(|file| file.path != "proto/src/frame.rs") {
        for line in code(&file.text).iter().filter(|line| line.contains("bincode::")) {
            complaints.push(format!("{}: {}", file.path, line.trim()));
        }
    }
    none("only proto/src/frame.rs may use bincode, so that it can be replaced", &complaints);
}

/// The core's files import each other in small circles at most: more than five files that need each other are one file.
#[test]
fn the_cores_circles_are_small() {
    let files: BTreeMap<String, String> = shipped()
        .into_iter()
        .filter_map(|file| {
            let path = file.path.strip_prefix("coordd/core/src/")?.strip_suffix(".rs")?.to_owned();
            let is_part = path.starts_with("state/") || path.starts_with("rules/");
            is_part.then(|| (path, without_tests(&file.text).join("\n")))
        })
        .collect();
    let imports: BTreeMap<&str, BTreeSet<String>> = files
        .iter()
        .map(|(path, text)| {
            let found = imported(path, text).filter_map(|segments| {
                let lengths = (1..=segments.len()).rev();
                lengths.map(|length| segments[..length].join("/")).find(|it| files.contains_key(it))
            });
            (path.as_str(), found.filter(|other| other != path).collect())
        })
        .collect();
    assert!(imports.values().map(BTreeSet::len).sum::<usize>() > 100, "imports are found");
    let reached = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(path) = next.pop() {
            for other in &imports[path.as_str()] {
                if seen.insert(other.clone()) {
                    next.push(other.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<_, _> = imports.keys().map(|path| (*path, reached(path))).collect();
    let mut complaints = BTreeSet::new();
    for (path, seen) in &all {
        let circle: Vec<_> =
            seen.iter().filter(|other| all[other.as_str()].contains(*path)).collect();
        if circle.len() > CIRCLE_MAX {
            complaints.insert(format!("{circle:?}"));
        }
    }
    let complaints: Vec<_> = complaints.into_iter().collect();
    none("move what they share into a file that needs none of them", &complaints);
}

/// The segments of each path that a file of the core imports from the crate.
fn imported<'a>(path: &'a str, text: &'a str) -> impl Iterator<Item = Vec<String>> + 'a {
    let statements = text.split("use ").skip(1).filter_map(|rest| rest.split_once(';'));
    statements.flat_map(move |(statement, _)| {
        let (prefix, items) = statement.split_once('{').unwrap_or((statement, ""));
        let items: Vec<_> = items.trim_end_matches('}').split(',').map(str::trim).collect();
        items.into_iter().filter_map(move |item| {
            let whole = format!("{prefix}{item}");
            let segments = whole.split("::").map(|segment| segment.trim().to_owned());
            let mut from = path.rsplit_once('/').map_or(path, |(folder, _)| folder);
            let mut own = Vec::new();
            for segment in segments {
                match segment.as_str() {
                    "crate" => from = "",
                    "super" if own.is_empty() => {}
                    _ => own.push(segment),
                }
            }
            let is_inside = whole.starts_with("crate::") || whole.starts_with("super::");
            let above = from.split('/').filter(|it| !it.is_empty()).map(str::to_owned);
            is_inside.then(|| above.chain(own).collect())
        })
    })
}

/// M-1: an address is taken apart, and put together, in one file. Elsewhere it has a kind.
#[test]
fn m1_no_address_is_asked_for_its_prefix() {
    let asked = ["\"uds:\"", "\"bridge:\"", "\"uds:{", "\"bridge:{", "\"uds\"", "(\"bridge:"];
    let mut complaints = Vec::new();
    // Tests write addresses as people do.
    let is_asked = |path: &str| !path.starts_with("tests/") && path != "proto/words/src/address.rs";
    for file in shipped().iter().filter(|file| is_asked(&file.path)) {
        for line in without_tests(&file.text) {
            if asked.iter().any(|asked| line.contains(asked)) {
                complaints.push(format!("{}: {}", file.path, line.trim()));
            }
        }
    }
    none("parse it: proto::address has Address and Place", &complaints);
}

#[test]
fn files_are_about_one_thing() {
    let mut complaints = Vec::new();
    let shipped = shipped();
    for file in &shipped {
        let lines = without_tests(&file.text).len();
        let exception = LONGER.iter().find(|(path, ..)| *path == file.path);
        let allowed = exception.map_or(LINES_MAX, |(_, lines, _)| *lines);
        if lines > allowed {
            complaints.push(format!("{}: {lines} lines of code, {allowed} allowed", file.path));
        }
        if exception.is_some() && lines <= LINES_MAX {
            complaints.push(format!("{}: no longer long; take it off the list", file.path));
        }
    }
    for (path, ..) in LONGER {
        if !shipped.iter().any(|file| file.path == path) {
            complaints.push(format!("{path}: not there any more; take it off the list"));
        }
    }
    none("split it, or give a reason in the list of this test", &complaints);
}

#[test]
fn nothing_is_left_for_later() {
    let mut complaints = Vec::new();
    for file in files(".rs") {
        for (at, line) in file.text.lines().enumerate() {
            for word in NOWHERE.iter().filter(|word| line.contains(**word)) {
                complaints.push(format!("{}:{}: {word}", file.path, at + 1));
            }
        }
    }
    none("finish it, or leave it out", &complaints);
}

/// Every queue, frame, batch and map fed from outside has a bound, with its reason.
#[test]
fn every_bound_has_its_reason() {
    let mut complaints = Vec::new();
    for file in shipped() {
        let lines = without_tests(&file.text);
        for (at, line) in lines.iter().enumerate() {
            let Some((_, item)) = line.split_once("const ") else { continue };
            let Some((name, _)) = item.split_once(':') else { continue };
            let is_const =
                line.trim_start().starts_with("const ") || line.trim_start().starts_with("pub");
            let in_limits = file.path.ends_with("/limits.rs") && name != "_" && !name.contains('(');
            let is_bound = BOUND_ENDINGS.iter().any(|ending| name.ends_with(ending));
            if !is_const || !(in_limits || is_bound) {
                continue;
            }
            // Consts that belong together may share the comment above the first.
            let mut above = lines[..at].iter().rev().map(|line| line.trim());
            let above = above.find(|line| !line.starts_with("#[") && !line.contains("const "));
            if !above.is_some_and(|line| line.starts_with("//")) && !line.contains("; //") {
                complaints.push(format!("{}:{}: {name}", file.path, at + 1));
            }
        }
    }
    none("say in a comment above why this much", &complaints);
}

#[test]
fn unsafe_code_stays_where_it_has_to_be() {
    let complaints: Vec<_> = [
        "proto/src/lib.rs",
        "proto/words/src/lib.rs",
        "coordd/core/src/lib.rs",
        "coordctl/src/main.rs",
    ]
    .iter()
    .filter(|path| !read(path).lines().any(|line| line == "#![forbid(unsafe_code)]"))
    .map(|path| (*path).to_owned())
    .collect();
    none("this crate has #![forbid(unsafe_code)]", &complaints);
}

/// The test runner runs no examples in comments, so there must be none that look as if it did.
#[test]
fn code_blocks_in_comments_are_not_rust() {
    let mut complaints = Vec::new();
    for file in files(".rs") {
        let mut open = false;
        for (at, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
            else {
                open = false;
                continue;
            };
            let Some(language) = comment.trim_start().strip_prefix("```") else { continue };
            open = !open;
            if open && !BLOCKS.contains(&language) {
                complaints.push(format!("{}:{}: ```{language}", file.path, at + 1));
            }
        }
    }
    none(&format!("a code block says what it is, one of {BLOCKS:?}"), &complaints);
}

/// A file that no `mod` names is never compiled, and its tests never fail.
#[test]
fn every_test_file_is_compiled() {
    let mut complaints = Vec::new();
    let files: Vec<_> =
        files(".rs").into_iter().filter(|f| f.path.starts_with("tests/it/")).collect();
    for file in &files {
        let module = file.path.trim_end_matches(".rs");
        let (folder, name) = module.rsplit_once('/').expect("below tests/it");
        if module == "tests/it/main" {
            continue;
        }
        let parent = if folder == "tests/it" { "tests/it/main" } else { folder };
        let parent = format!("{parent}.rs");
        let listed = files.iter().filter(|file| file.path == parent).any(|file| {
            let wanted = format!("mod {name};");
            file.text.lines().any(|line| line == wanted || line.ends_with(&format!(" {wanted}")))
        });
        if !listed {
            complaints.push(format!("{}: no `mod {name};` in {parent}", file.path));
        }
    }
    none("no test file is forgotten", &complaints);
}
