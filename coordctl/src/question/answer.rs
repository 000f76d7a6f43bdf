//! What a person types at a question: yes, no or always, with or without a note.

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Once,
    Always,
    No,
}

/// An answer, with what the agent is told besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) verdict: Verdict,
    pub(crate) note: String,
}

/// What a line is, at a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Answer(Given),
    /// It begins with `a` and goes on: a sentence, or *always* with a note. A rule is not made by guessing.
    MaybeAlways,
    Words,
}

impl Line {
    /// `y`, `n` and `a` alone, or with a note: `n use make check`, `y: port 5433`, `a: for the tests`.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim();
        let end = text.find([' ', '\t', ':', ',']).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let Some(verdict) = verdict(word) else { return Self::Words };
        let has_mark = rest.starts_with([':', ',']);
        let note = rest.trim_start_matches([':', ',']).trim().to_owned();
        // Whole words begin sentences, as `no idea` does; a note after one needs its mark.
        if note.is_empty() || has_mark || matches!(word, "y" | "Y" | "n" | "N") {
            return Self::Answer(Given { verdict, note });
        }
        if matches!(word, "a" | "A") { Self::MaybeAlways } else { Self::Words }
    }
}

/// The verdict that a word stands for.
pub(crate) fn verdict(word: &str) -> Option<Verdict> {
    match word.to_ascii_lowercase().as_str() {
        "y" | "yes" | "allow" => Some(Verdict::Once),
        "n" | "no" | "deny" => Some(Verdict::No),
        "a" | "always" => Some(Verdict::Always),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(verdict: Verdict, note: &str) -> Line {
        Line::Answer(Given { verdict, note: note.into() })
    }

    /// A-4, fA5: a note goes with an answer, and a sentence is no answer.
    #[test]
    fn fa5_a4_answers_and_notes_are_told_from_words() {
        let table = [
            (" Y ", answer(Verdict::Once, "")),
            ("always", answer(Verdict::Always, "")),
            ("deny", answer(Verdict::No, "")),
            ("n use make check", answer(Verdict::No, "use make check")),
            ("y only once; the port is 5433", answer(Verdict::Once, "only once; the port is 5433")),
            ("a: for the tests", answer(Verdict::Always, "for the tests")),
            ("no, use make", answer(Verdict::No, "use make")),
            ("a quick question: why?", Line::MaybeAlways),
            ("no idea what that is", Line::Words),
            ("yes please look at f2", Line::Words),
            ("allow list", Line::Words),
            ("nothing", Line::Words),
            ("", Line::Words),
        ];
        for (text, want) in table {
            assert_eq!(Line::parse(text), want, "{text:?}");
        }
    }
}
