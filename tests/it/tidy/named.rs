//! Tests that documents name are there: a row of a table that leads to no test shows nothing.

use super::contract::tests;
use super::{files, none, read};

/// Documents with a table of tests, the heading of the column that names them, and of one that may name some.
const TABLES: [(&str, &str, &str); 2] =
    [("coordd/SECURITY.md", "tests", "rule"), ("tests/README.md", "tests", "broken by")];

/// A test function, with the parts of the path of its file: `tests`, `it`, `cli`, `worker`.
struct Test {
    place: Vec<String>,
    name: String,
}

fn all() -> Vec<Test> {
    let mut found = Vec::new();
    for file in files(".rs") {
        let place: Vec<String> =
            file.path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let of_file = |name: &str| Test { place: place.clone(), name: name.to_owned() };
        found.extend(tests(&file.text).into_iter().map(of_file));
    }
    found
}

impl Test {
    /// Whether it is in these modules. A module within a file, as `tests` mostly is, has no place of its own.
    fn is_in(&self, modules: &[&str]) -> bool {
        let is_here = |module: &str| self.place.iter().any(|part| part == module);
        modules.iter().all(|module| matches!(*module, "tests" | "*") || is_here(module))
    }
}

/// What a document says in backticks about tests.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    /// `cli::worker::w6_*`: one of these at least.
    Tests { modules: Vec<&'a str>, name: &'a str, is_whole: bool },
    /// A file, a crate, a word of the language.
    Else,
}

impl<'a> Named<'a> {
    fn of(span: &'a str) -> Self {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '*');
        if !span.chars().all(is_part) {
            return Self::Else;
        }
        let mut modules: Vec<&str> = span.split("::").collect();
        let last = modules.pop().unwrap_or_default();
        match last.strip_suffix('*') {
            Some(name) => Self::Tests { modules, name, is_whole: false },
            None if last.contains('_') => Self::Tests { modules, name: last, is_whole: true },
            // `store::lock`, for the names that come after it.
            None if !modules.is_empty() => {
                modules.push(last);
                Self::Tests { modules, name: "", is_whole: false }
            }
            None => Self::Else,
        }
    }

    fn is_there(&self, all: &[Test]) -> bool {
        let Self::Tests { modules, name, is_whole } = self else { return true };
        let is_it =
            |test: &Test| if *is_whole { test.name == *name } else { test.name.starts_with(name) };
        all.iter().any(|test| is_it(test) && test.is_in(modules))
    }
}

/// The cells of a table that has both columns, as (of tests, of the other).
fn cells<'a>(document: &'a str, tests: &str, other: &str) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    let mut columns = None;
    for line in document.lines() {
        let Some(row) = line.strip_prefix("| ") else {
            columns = columns.filter(|_| line.starts_with('|'));
            continue;
        };
        let row: Vec<&str> = row.trim_end_matches('|').split(" |").map(str::trim).collect();
        let at = |heading: &str| row.iter().position(|cell| *cell == heading);
        match columns {
            None => columns = at(tests).zip(at(other)),
            Some((one, two)) => {
                let cell = |at: usize| row.get(at).copied().unwrap_or_default();
                found.push((cell(one), cell(two)));
            }
        }
    }
    found
}

fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn tests_that_documents_name_are_there() {
    let all = all();
    let mut missing = Vec::new();
    for (path, column, other) in TABLES {
        let document = read(path);
        let cells = cells(&document, column, other);
        assert!(cells.len() > 20, "{path}: this test looks in the wrong place");
        for (names, more) in cells {
            let named = spans(names).filter(|span| !Named::of(span).is_there(&all));
            // Beside the names of tests there is code in it.
            let patterns = spans(more).filter(|span| span.ends_with("_*"));
            let also = patterns.filter(|span| !Named::of(span).is_there(&all));
            missing.extend(named.chain(also).map(|span| format!("{path}: {span}")));
        }
    }
    none("documents name only tests that there are", &missing);
}

#[test]
fn a_name_of_a_test_is_told_from_other_code() {
    let all = [Test { place: vec!["it".into(), "cli".into()], name: "w6_nothing_is_left".into() }];
    for (span, is_there) in [
        ("w6_nothing_is_left", true),
        ("w6_*", true),
        ("cli::w6_*", true),
        ("cli::tests::w6_*", true),
        ("it::cli::*", true),
        ("it::cli", true),
        ("config.rs", true),
        ("sim", true),
        ("w6_nothing", false),
        ("w7_*", false),
        ("nats::w6_*", false),
        ("it::nats", false),
    ] {
        assert_eq!(Named::of(span).is_there(&all), is_there, "{span}");
    }
}

#[test]
fn cells_are_those_of_the_table_with_both_headings() {
    let document = "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| rule | tests |\n| --- | --- |\n| x | `y` |\ntext\n| 3 | 4 |\n";
    assert_eq!(cells(document, "tests", "rule"), [("---", "---"), ("`y`", "x")]);
}
