//! The open questions of a view, and which one of them is drawn above the input. Only that one is answered by what is typed.

use proto::view::PermissionView;

use super::answer::{Given, Line, Verdict};
use super::card;
use crate::terminal::line;

/// What is typed sooner after the drawing was not typed about it.
const LOOK_MS: u64 = 300;

/// What was typed, with what was drawn when its first key was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) text: String,
    /// Some of it came at once, with the clipboard or so: it is text, whatever it says.
    pub(crate) is_paste: bool,
    /// The question that was drawn then.
    pub(crate) about: Option<String>,
}

/// What is to be done with what was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Answers this question.
    Answer { id: String, given: Given },
    /// It is no answer.
    Words,
    /// It may have been meant as one, and is not taken: why.
    Refused(String),
}

/// The questions.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// Oldest first.
    open: Vec<PermissionView>,
    drawn: Option<(String, u64)>,
}

impl Desk {
    pub(crate) fn open(&self) -> &[PermissionView] {
        &self.open
    }

    pub(crate) fn find(&self, id: &str) -> Option<&PermissionView> {
        self.open.iter().find(|question| question.id == id)
    }

    pub(crate) fn drawn(&self) -> Option<&PermissionView> {
        self.find(&self.drawn.as_ref()?.0)
    }

    /// Takes in a question. False when it is known.
    pub(crate) fn put(&mut self, question: PermissionView) -> bool {
        if self.find(&question.id).is_some() {
            return false;
        }
        // What one rule covers, it covers both ways.
        for it in &mut self.open {
            if question.covers.contains(&it.id) && !it.covers.contains(&question.id) {
                it.covers.push(question.id.clone());
            }
        }
        self.open.push(question);
        true
    }

    /// Takes over what is open now; returns what is new of it.
    pub(crate) fn replace(&mut self, questions: Vec<PermissionView>) -> Vec<PermissionView> {
        let is_new = |it: &&PermissionView| self.find(&it.id).is_none();
        let new = questions.iter().filter(is_new).cloned().collect();
        self.open = questions;
        if self.drawn().is_none() {
            self.drawn = None;
        }
        new
    }

    /// A question is answered.
    pub(crate) fn remove(&mut self, id: &str) -> Option<PermissionView> {
        let at = self.open.iter().position(|question| question.id == id)?;
        let question = self.open.remove(at);
        for it in &mut self.open {
            it.covers.retain(|other| other != id);
        }
        if self.drawn.as_ref().is_some_and(|(drawn, _)| drawn == id) {
            self.drawn = None;
        }
        Some(question)
    }

    /// The question that is to be drawn now, when none is.
    pub(crate) fn draw_next(&mut self, now_ms: u64) -> Option<PermissionView> {
        if self.drawn.is_some() {
            return None;
        }
        let next = self.open.first()?.clone();
        self.drawn = Some((next.id.clone(), now_ms));
        Some(next)
    }

    /// Draws another one, which `id` names.
    pub(crate) fn draw(&mut self, id: &str, now_ms: u64) -> Option<PermissionView> {
        let question = self.find(id)?.clone();
        if self.drawn.as_ref().is_none_or(|(drawn, _)| drawn != id) {
            self.drawn = Some((id.to_owned(), now_ms));
        }
        Some(question)
    }

    /// What a line means. It answers the question that was drawn when it was begun, or none.
    pub(crate) fn read(&self, typed: &Typed, now_ms: u64) -> Reading {
        if typed.is_paste {
            return Reading::Words;
        }
        let given = match Line::parse(&typed.text) {
            Line::Words => return Reading::Words,
            Line::MaybeAlways => None,
            Line::Answer(given) => Some(given),
        };
        let drawn = match (&typed.about, &self.drawn) {
            (None, None) => return Reading::Words,
            (Some(about), Some((drawn, at_ms))) if about == drawn => (drawn, *at_ms),
            (about, drawn) => return Reading::Refused(too_late(about.as_deref(), drawn.as_ref())),
        };
        let (id, at_ms) = (line(drawn.0), drawn.1);
        if now_ms.saturating_sub(at_ms) < LOOK_MS {
            return Reading::Refused(format!(
                "{id} has only just been drawn: look at it, then answer"
            ));
        }
        let Some(given) = given else {
            return Reading::Refused(format!(
                "nothing was answered or sent: `a` alone, or `a: NOTE`, answers {id} with always; `/say a …` sends words"
            ));
        };
        let has_rule = self.drawn().is_some_and(|it| !it.question.rule.is_empty());
        if given.verdict == Verdict::Always && !has_rule {
            return Reading::Refused(format!("no rule can allow what {id} asks: y or n"));
        }
        Reading::Answer { id: drawn.0.clone(), given }
    }
}

fn too_late(about: Option<&str>, drawn: Option<&(String, u64)>) -> String {
    let now = drawn.map(|(id, _)| line(id));
    match (about.map(line), now) {
        (Some(about), Some(now)) => {
            format!(
                "{about} was answered meanwhile, and nothing else is answered by this; {now} is next"
            )
        }
        (Some(about), None) => {
            format!("{about} was answered meanwhile; nothing else is answered by this")
        }
        (None, now) => format!(
            "{} came up while you typed: nothing was answered or sent; look at it, then type again",
            now.unwrap_or_else(|| "a question".to_owned())
        ),
    }
}

/// What an answer did, with the agent and the call (fA1).
pub(crate) fn echo(question: &PermissionView, given: &Given) -> String {
    let (id, agent) = (line(&question.id), line(&question.agent));
    let call = crate::terminal::cut(&card::short(&question.question), ECHO_COLUMNS);
    let note = if given.note.is_empty() {
        String::new()
    } else {
        format!("; told: {}", line(&given.note))
    };
    match given.verdict {
        Verdict::Once => format!("allowed {id}: {agent} may run `{call}`{note}"),
        Verdict::No => format!("denied {id}: {agent} may not run `{call}`{note}"),
        Verdict::Always => {
            let rule = card::one_line(&question.question.rule);
            format!(
                "allowed {id}: {agent} may run `{call}`, and the session {rule} from now on{note}"
            )
        }
    }
}

/// Columns of a call in the echo of its answer.
const ECHO_COLUMNS: usize = 80;

#[cfg(test)]
mod tests {
    use super::super::card::tests::bash;
    use super::*;

    fn desk() -> Desk {
        let mut desk = Desk::default();
        for (id, agent) in [("p1", "one"), ("p2", "two")] {
            assert!(desk.put(bash(id, agent, "make")));
        }
        desk.draw_next(0);
        desk
    }

    fn typed(text: &str, about: Option<&str>) -> Typed {
        Typed { text: text.into(), is_paste: false, about: about.map(str::to_owned) }
    }

    fn answered(reading: &Reading) -> Option<&str> {
        match reading {
            Reading::Answer { id, .. } => Some(id),
            Reading::Words | Reading::Refused(_) => None,
        }
    }

    /// fA1, A-2: what is drawn is what is answered, whatever else is asked meanwhile.
    #[test]
    fn fa1_a2_an_answer_belongs_to_the_question_that_is_drawn() {
        let mut desk = desk();
        assert_eq!(answered(&desk.read(&typed("y", Some("p1")), 1_000)), Some("p1"));
        assert!(desk.put(bash("p3", "three", "rm -rf /")));
        assert_eq!(desk.draw_next(1_000), None, "one is drawn");
        assert_eq!(answered(&desk.read(&typed("y", Some("p1")), 1_000)), Some("p1"));
        // Answered by somebody else while it was typed: nothing else is answered.
        desk.remove("p1");
        assert_eq!(desk.draw_next(1_000).unwrap().id, "p2");
        let reading = desk.read(&typed("y", Some("p1")), 5_000);
        assert!(
            matches!(&reading, Reading::Refused(why) if why.contains("p1 was answered meanwhile")),
            "{reading:?}"
        );
        desk.remove("p2");
        desk.remove("p3");
        let reading = desk.read(&typed("n", Some("p1")), 5_000);
        assert!(
            matches!(&reading, Reading::Refused(why) if why.contains("nothing else")),
            "{reading:?}"
        );
    }

    /// neither what was typed before the drawing nor what came too soon after it is an answer.
    #[test]
    fn a2_nobody_answers_what_they_have_not_seen() {
        let desk = desk();
        for (line, at_ms) in [(typed("yes", None), 5_000), (typed("y", Some("p1")), LOOK_MS - 1)] {
            assert!(matches!(desk.read(&line, at_ms), Reading::Refused(_)), "{line:?}");
        }
        assert_eq!(
            Desk::default().read(&typed("y", None), 5_000),
            Reading::Words,
            "nothing is asked"
        );
    }

    /// fA3: a paste is text.
    #[test]
    fn fa3_a_paste_is_never_an_answer() {
        let paste = Typed { is_paste: true, ..typed("y", Some("p1")) };
        assert_eq!(desk().read(&paste, 5_000), Reading::Words);
    }

    /// fA4: always is not taken where no rule can allow it, and not guessed from a sentence.
    #[test]
    fn fa4_always_needs_a_rule_and_the_word() {
        let mut desk = desk();
        let read = |desk: &Desk, text: &str| desk.read(&typed(text, Some("p1")), 5_000);
        assert_eq!(answered(&read(&desk, "a")), Some("p1"));
        assert!(matches!(read(&desk, "a test is missing"), Reading::Refused(_)));
        let mut open = desk.open().to_vec();
        open[0].question.rule.clear();
        assert!(desk.replace(open).is_empty());
        assert!(matches!(read(&desk, "a"), Reading::Refused(_)));
        assert_eq!(answered(&read(&desk, "y")), Some("p1"));
    }

    #[test]
    fn a3_what_one_rule_covers_it_covers_both_ways() {
        let mut desk = desk();
        let mut third = bash("p3", "three", "make");
        third.covers = vec!["p1".into()];
        desk.put(third);
        assert_eq!(desk.drawn().unwrap().covers, ["p3"]);
        desk.remove("p3");
        assert!(desk.drawn().unwrap().covers.is_empty());
    }

    #[test]
    fn fa1_the_echo_names_agent_and_call() {
        let it = bash("p12", "fix-leap", "cargo test");
        let given = |verdict| Given { verdict, note: String::new() };
        assert_eq!(
            echo(&it, &given(Verdict::Once)),
            "allowed p12: fix-leap may run `Bash cargo test`"
        );
        assert!(
            echo(&it, &given(Verdict::Always)).contains("the session Bash(make *) from now on")
        );
        let no = Given { verdict: Verdict::No, note: "use make".into() };
        assert_eq!(
            echo(&it, &no),
            "denied p12: fix-leap may not run `Bash cargo test`; told: use make"
        );
    }
}
