//! What may be wrong with a text that is not in a file: characters that look the same are told apart by their numbers (fT33).

use unicode_normalization::UnicodeNormalization as _;

/// Most places that are compared. A text that begins so often is no help to find one.
const PLACES_MAX: usize = 2_000;

/// The longest beginning by which places are looked for.
const ALIKE_MIN: usize = 4;

/// What the model is told, with a blank in front.
pub(super) fn hint(content: &str, old: &str) -> String {
    let first = old.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let unnumbered = first.trim_start().trim_start_matches(|it: char| it.is_ascii_digit());
    if unnumbered.starts_with('\t') && unnumbered.len() < first.trim_start().len() {
        return " It seems to hold the line numbers that Read adds: leave them out.".to_owned();
    }
    if let Some(difference) = difference(content, old.trim_start()) {
        return difference;
    }
    let same = |line: &str| !first.trim().is_empty() && line.trim() == first.trim();
    match content.lines().position(same) {
        Some(at) => format!(
            " Its first line is like line {}; compare the whitespace and the lines that follow.",
            at + 1
        ),
        None => " Read the file again and copy the text exactly.".to_owned(),
    }
}

/// Where the file goes on like the text for the longest way, and the characters in which they differ then.
fn difference(content: &str, old: &str) -> Option<String> {
    let beginning = |len: usize| old.chars().take(len).collect::<String>();
    let start = (1..=ALIKE_MIN).rev().map(beginning).find(|it| content.contains(it.as_str()));
    let alike = |at: usize| {
        let theirs = content.get(at..).unwrap_or_default();
        old.chars().zip(theirs.chars()).take_while(|(one, other)| one == other).count()
    };
    let whole = start.iter().flat_map(|it| content.match_indices(it.as_str())).map(|(at, _)| at);
    // Where the very first characters differ and only look the same.
    let seeming =
        content.char_indices().map(|(at, _)| at).filter(|at| looks_like(content, *at, old));
    let best =
        whole.chain(seeming).take(PLACES_MAX).map(|at| (alike(at), at)).max_by_key(|it| it.0)?;
    let (len, at) = best;
    let ours = old.chars().nth(len)?;
    let position = content.get(at..)?.char_indices().nth(len).map(|(inside, it)| (at + inside, it));
    let (place, theirs) = match position {
        Some((place, theirs)) => (place, named(theirs)),
        None => (content.len(), "ends there".to_owned()),
    };
    let is_worth_it = len >= old.chars().count() / 2 || looks_same(ours, content.get(place..)?);
    let line = content.get(..place)?.matches('\n').count() + 1;
    is_worth_it.then(|| {
        format!(
            " Line {line} is like it up to one character: the file has {theirs} where old_string has {}. Copy the text exactly.",
            named(ours)
        )
    })
}

/// Whether a text could be read as the other from here on, by its first characters.
fn looks_like(content: &str, at: usize, old: &str) -> bool {
    let theirs = content.get(at..).unwrap_or_default();
    let (Some(ours), Some(first)) = (old.chars().next(), theirs.chars().next()) else {
        return false;
    };
    ours != first
        && looks_same(ours, theirs)
        && old.chars().zip(theirs.chars()).skip(1).take(ALIKE_MIN).all(|(one, other)| one == other)
}

/// Whether a character looks like the next one of a text.
fn looks_same(ours: char, theirs: &str) -> bool {
    let Some(first) = theirs.chars().next() else { return false };
    plain(ours) == plain(first) || composed(ours) == composed(first)
}

/// A character without what a person does not see.
fn plain(it: char) -> char {
    match it {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{2032}' | '\u{ff07}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{2033}' | '\u{ff02}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        _ if it.is_whitespace() => ' ',
        _ => it,
    }
}

/// The letter that a letter with an accent begins with when it is written in two characters.
fn composed(it: char) -> char {
    it.nfd().next().unwrap_or(it)
}

fn named(it: char) -> String {
    let shown =
        if it.is_control() || it.is_whitespace() { String::new() } else { format!("{it} ") };
    format!("{shown}U+{:04X}", u32::from(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// fT33: what looks the same is told apart.
    #[test]
    fn ft33_the_first_character_that_differs_is_named() {
        for (content, old, parts) in [
            ("a\nsay \u{2018}hi\u{2019}\n", "say 'hi'", ["Line 2", "U+2018", "U+0027"]),
            ("let x\u{a0}= 1;\n", "let x = 1;", ["Line 1", "U+00A0", "U+0020"]),
            ("cafe\u{301} noir\n", "caf\u{e9} noir", ["Line 1", "U+0065", "U+00E9"]),
            ("\u{201c}quoted\u{201d}\n", "\"quoted\"", ["Line 1", "U+201C", "U+0022"]),
            ("one two\nthree", "one two\nfour", ["Line 2", "U+0074", "U+0066"]),
            ("a\tb c d e\n", "a b c d e", ["Line 1", "U+0009", "U+0020"]),
            ("fn main() {", "fn main() {\n", ["Line 1", "ends there", "U+000A"]),
        ] {
            let said = hint(content, old);
            assert!(parts.iter().all(|part| said.contains(part)), "{old:?}: {said}");
        }
        for (content, old) in
            [("abc\n", "xyz\n"), ("", "x"), ("needle one\n", "nee and nothing more that is alike")]
        {
            let said = hint(content, old);
            assert!(said.contains("Read the file again"), "{old:?}: {said}");
        }
    }
}
