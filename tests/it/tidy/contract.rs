//! The ids of promises: each one that code, tests and documents use is explained in
//! `coordd/CONTRACT.md`, and each one that is explained there is used.

use std::collections::{BTreeMap, BTreeSet};

use super::{files, none, read};

const CONTRACT: &str = "coordd/CONTRACT.md";

/// Below this heading stand promises that nothing has to use yet.
const LATER: &str = "\n## Not held yet\n";

/// Ids that `CONTRACT.md` explains.
#[derive(Debug, Default)]
struct Explained {
    /// Those that must be used.
    held: BTreeSet<String>,
    later: BTreeSet<String>,
    /// Patterns of test names, such as `m3`.
    patterns: BTreeSet<String>,
    /// Explained twice.
    twice: Vec<String>,
}

impl Explained {
    fn of(document: &str) -> Self {
        let mut found = Self::default();
        let (held, later) = document.split_once(LATER).expect("a heading for what is not held yet");
        for (text, is_held) in [(held, true), (later, false)] {
            for line in text.lines() {
                let Some(id) = first_cell(line).filter(|cell| is_id(cell)) else { continue };
                let ids = if is_held { &mut found.held } else { &mut found.later };
                if !ids.insert(id.to_owned()) {
                    found.twice.push(id.to_owned());
                }
                let spans = line.split('`').skip(1).step_by(2);
                found.patterns.extend(spans.filter_map(|span| {
                    span.strip_suffix("_*").filter(|stem| is_stem(stem)).map(str::to_owned)
                }));
            }
        }
        found.twice.extend(found.held.intersection(&found.later).cloned());
        found
    }

    fn knows(&self, id: &str) -> bool {
        self.held.contains(id) || self.later.contains(id)
    }

    fn knows_stem(&self, stem: &str) -> bool {
        self.held.iter().chain(&self.later).any(|id| stem_of(id) == stem)
    }
}

/// `M-3` as it stands in the name of a test: `m3`.
fn stem_of(id: &str) -> String {
    id.replace('-', "").to_lowercase()
}

fn first_cell(line: &str) -> Option<&str> {
    line.strip_prefix("| ")?.split(" |").next()
}

fn are_digits(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `M-3`, `A38`, `rel-15`, `fP16`.
fn is_id(word: &str) -> bool {
    if let Some(number) = word.strip_prefix("rel-") {
        return are_digits(number, 3);
    }
    let word = word.strip_prefix('f').unwrap_or(word);
    let Some(rest) = word.strip_prefix(|c: char| c.is_ascii_uppercase()) else { return false };
    are_digits(rest.strip_prefix('-').unwrap_or(rest), 2)
}

/// `m3`, `a38`, `rel15`, `fp16`.
fn is_stem(word: &str) -> bool {
    if let Some(number) = word.strip_prefix("rel") {
        return are_digits(number, 3);
    }
    let letter = |c: char| c.is_ascii_lowercase();
    let after = |word: &str| word.strip_prefix(letter).is_some_and(|rest| are_digits(rest, 2));
    after(word) || word.strip_prefix('f').is_some_and(after)
}

/// The ids in a line of prose. What belongs to a path or to a longer word is none.
fn ids(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    let words = text.split(|c: char| !is_part(c));
    let words = words.map(|word| word.trim_end_matches(['.', '-', '/', '_']));
    words.filter(|word| is_id(word)).map(str::to_owned).collect()
}

/// The ids with which the name of a test begins.
fn stems(name: &str) -> Vec<String> {
    name.split('_').take_while(|word| is_stem(word)).map(str::to_owned).collect()
}

/// The names of tests in a source: functions after an attribute that ends in `test`.
pub(super) fn tests(source: &str) -> Vec<&str> {
    let mut is_test = false;
    let mut found = Vec::new();
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test") || line.contains("::test");
        } else if let Some((_, rest)) = line.split_once("fn ") {
            if is_test {
                found.extend(rest.split(['(', '<']).next());
            }
            is_test = false;
        }
    }
    found
}

/// What is used: ids in comments and documents, stems of names of tests; each with a place.
fn used() -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut written, mut named) = (BTreeMap::new(), BTreeMap::new());
    for file in files(".rs") {
        let comments = file.text.lines().filter_map(|line| line.split_once("//"));
        let found = comments.flat_map(|(_, comment)| ids(comment));
        written.extend(found.map(|id| (id, file.path.clone())));
        let found = tests(&file.text).into_iter().flat_map(stems);
        named.extend(found.map(|stem| (stem, file.path.clone())));
    }
    for file in files(".md").into_iter().filter(|file| file.path != CONTRACT) {
        written.extend(ids(&file.text).into_iter().map(|id| (id, file.path.clone())));
    }
    (written, named)
}

#[test]
fn ids_are_told_from_other_words() {
    assert_eq!(
        ids("W-6, rel-29 (A38): `fP16`. See x/B4, M-3."),
        ["W-6", "rel-29", "A38", "fP16", "M-3"]
    );
    assert_eq!(ids("x86-64 SHA-256 UTF-8 C-x 0700 A1b PEP-4000"), Vec::<String>::new());
    assert_eq!(stems("n4_rel17_fp16_a_worker_1"), ["n4", "rel17", "fp16"]);
    assert!(is_stem("f1") && is_stem("f12") && is_stem("fm12") && !is_stem("f"));
    assert_eq!(stems("sha256_of_a_text"), Vec::<String>::new());
    let source = "#[test]\nfn m3_a() {}\nfn helper() {}\n#[tokio::test]\nasync fn w6_b() {}\n";
    assert_eq!(tests(source), ["m3_a", "w6_b"]);
    let document =
        "| M-3 | text | `m3_*` |\n\n## Not held yet\n\n| M-4 | later |\n| M-3 | again |\n";
    let explained = Explained::of(document);
    assert!(explained.knows("M-4") && explained.knows_stem("m4") && !explained.knows("M-5"));
    assert_eq!((explained.twice.len(), explained.patterns.len()), (1, 1));
}

#[test]
fn every_id_that_is_used_is_explained() {
    let explained = Explained::of(&read(CONTRACT));
    let (written, named) = used();
    let mut complaints =
        explained.twice.iter().map(|id| format!("{id} stands there twice")).collect::<Vec<_>>();
    let unknown = written.iter().filter(|(id, _)| !explained.knows(id));
    complaints.extend(unknown.map(|(id, path)| format!("{path}: {id}")));
    let unknown = named.iter().filter(|(stem, _)| !explained.knows_stem(stem));
    complaints.extend(unknown.map(|(stem, path)| format!("{path}: a test {stem}_…")));
    none(
        &format!("an id that {CONTRACT} does not explain; say there what it promises"),
        &complaints,
    );
}

#[test]
fn every_id_that_is_explained_is_used() {
    let explained = Explained::of(&read(CONTRACT));
    let (written, named) = used();
    let is_unused = |id: &&String| !written.contains_key(*id) && !named.contains_key(&stem_of(id));
    let unused = explained.held.iter().filter(is_unused).map(|id| format!("{id}: used nowhere"));
    let no_test = |stem: &&String| !named.contains_key(*stem);
    let untested =
        explained.patterns.iter().filter(no_test).map(|stem| format!("no test {stem}_*"));
    none(
        &format!("take it out of {CONTRACT}, or move it to what is not held yet"),
        &unused.chain(untested).collect::<Vec<_>>(),
    );
}

#[test]
fn what_a_test_names_is_held() {
    let explained = Explained::of(&read(CONTRACT));
    let (_, named) = used();
    // `L5` and `L-5` have one stem.
    let is_held = |id: &str| explained.held.iter().any(|held| stem_of(held) == stem_of(id));
    let is_named = |id: &&String| named.contains_key(&stem_of(id)) && !is_held(id);
    let tested = explained.later.iter().filter(is_named).map(|id| {
        let path = named.get(&stem_of(id)).cloned().unwrap_or_default();
        format!("{id}: a test in {path} has its name")
    });
    none(
        &format!(
            "in {CONTRACT}, move it from what is not held yet into a table above, or name the test otherwise"
        ),
        &tested.collect::<Vec<_>>(),
    );
}
