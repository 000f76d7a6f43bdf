use std::error::Error;

/// An error with its causes, in one line. A cause that its effect has quoted already is not said twice, as libraries do
/// that put a cause into both.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn link(text: &'static str, source: Option<Link>) -> Link {
        Link { text, source: source.map(Box::new) }
    }

    #[test]
    fn each_cause_is_said_once() {
        let deepest = link("no such file", None);
        let error = link("cannot start", Some(link("cannot read x: no such file", Some(deepest))));
        assert_eq!(chain(&error), "cannot start: cannot read x: no such file");
        let error = link("a", Some(link("b", Some(link("c", None)))));
        assert_eq!(chain(&error), "a: b: c");
    }
}
