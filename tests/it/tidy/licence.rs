//! Reads licence expressions as Cargo manifests have them.

/// Whether a package under `expression` may be used by whoever accepts only `allowed`.
///
/// `expression` is an SPDX expression, or the older form with `/` for OR. What it cannot read is refused.
pub(super) fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    either(&mut rest, allowed).is_some_and(|it| it && rest.is_empty())
}

fn either(words: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let mut any = both(words, allowed)?;
    while let Some(("OR", rest)) = split_first(words) {
        *words = rest;
        any |= both(words, allowed)?;
    }
    Some(any)
}

fn both(words: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let mut all = one(words, allowed)?;
    while let Some(("AND", rest)) = split_first(words) {
        *words = rest;
        all &= one(words, allowed)?;
    }
    Some(all)
}

fn one(words: &mut &[&str], allowed: &[&str]) -> Option<bool> {
    let (word, rest) = split_first(words)?;
    *words = rest;
    if word == "(" {
        let inner = either(words, allowed)?;
        let (")", rest) = split_first(words)? else { return None };
        *words = rest;
        return Some(inner);
    }
    if let [with @ "WITH", exception, rest @ ..] = *words {
        *words = rest;
        return Some(allowed.contains(&format!("{word} {with} {exception}").as_str()));
    }
    Some(allowed.contains(&word))
}

fn split_first<'a, 'b>(words: &'b [&'a str]) -> Option<(&'a str, &'b [&'a str])> {
    words.split_first().map(|(word, rest)| (*word, rest))
}

#[test]
fn licence_expressions_are_read() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"];
    let cases = [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("MIT OR GPL-3.0-only", true),
        ("GPL-3.0-only/MIT", true),
        ("MIT AND GPL-3.0-only", false),
        ("(GPL-3.0-only OR MIT) AND Apache-2.0", true),
        ("(GPL-3.0-only AND MIT) OR MPL-2.0", false),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0-only", true),
        ("MIT WITH Classpath-exception-2.0", false),
        ("", false),
        ("(MIT", false),
        ("MIT MIT", false),
    ];
    for (expression, expected) in cases {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}
