//! Reads what [`super::render`] wrote.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;

use super::RunStatus;

const START: &str = "<task-notification>";

/// What a lead's conversation says of the end of a run. Texts are as [`super::visible`] made them;
/// of what the run used, the sum is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The worker's agent id.
    pub task_id: String,
    /// How the run ended.
    pub status: RunStatus,
    /// Which worker, and for failures why and of which class.
    pub summary: String,
    /// What the worker reported.
    pub result: String,
    /// All tokens, cached ones included.
    pub total_tokens: u64,
    /// Tool calls made.
    pub tool_uses: u64,
    /// Time from prompt to end, in milliseconds.
    pub duration_ms: u64,
}

/// Why a text is no notification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNotification {
    /// The text is not well-formed XML, or ends inside of the element.
    #[error("the element is not whole")]
    Broken,
    /// The text begins with something else.
    #[error("it does not begin with {START}")]
    Other,
    /// A part is missing, or is not what it must be.
    #[error("<{part}> is missing or has another form")]
    Part {
        /// Its name.
        part: &'static str,
    },
}

/// The notifications in a text that may have other words around them, in their order. What is no
/// whole one is passed over.
pub fn find(text: &str) -> Vec<Told> {
    let starts = text.match_indices(START).map(|(at, _)| at);
    starts.filter_map(|at| parse(text.get(at..)?).ok()).collect()
}

/// The notification at the beginning of a text.
pub fn parse(text: &str) -> Result<Told, NoNotification> {
    if !text.starts_with(START) {
        return Err(NoNotification::Other);
    }
    let parts = parts(text)?;
    let part = |name: &'static str| {
        let found = parts.iter().find(|(path, _)| path == name);
        found.map(|(_, text)| text.as_str()).ok_or(NoNotification::Part { part: name })
    };
    let number = |name| part(name)?.parse().map_err(|_| NoNotification::Part { part: name });
    let status = part("status")?;
    let all = [RunStatus::Completed, RunStatus::Failed, RunStatus::Killed];
    Ok(Told {
        task_id: part("task-id")?.to_owned(),
        status: all
            .into_iter()
            .find(|it| it.as_str() == status)
            .ok_or(NoNotification::Part { part: "status" })?,
        summary: part("summary")?.to_owned(),
        result: part("result")?.to_owned(),
        total_tokens: number("usage/total_tokens")?,
        tool_uses: number("usage/tool_uses")?,
        duration_ms: number("usage/duration_ms")?,
    })
}

/// Each element inside of the first one, as its path and its own text, up to the end of the first
/// one.
fn parts(text: &str) -> Result<Vec<(String, String)>, NoNotification> {
    let mut reader = Reader::from_str(text);
    let mut open: Vec<String> = Vec::new();
    let mut parts: Vec<(String, String)> = Vec::new();
    let mut add = |open: &[String], text: &str| {
        let path = open.get(1..).unwrap_or_default().join("/");
        match parts.iter_mut().find(|(known, _)| *known == path) {
            Some((_, known)) => known.push_str(text),
            None => parts.push((path, text.to_owned())),
        }
    };
    loop {
        match reader.read_event().map_err(|_| NoNotification::Broken)? {
            Event::Start(tag) => {
                open.push(tag.name().as_ref().to_owned());
                add(&open, "");
            }
            Event::End(_) => {
                open.pop();
                if open.is_empty() {
                    return Ok(parts);
                }
            }
            Event::Text(text) => add(&open, &text),
            Event::GeneralRef(name) => {
                let name: &str = &name;
                let text = unescape(&format!("&{name};"))
                    .map_err(|_| NoNotification::Broken)?
                    .into_owned();
                add(&open, &text);
            }
            // None of them is written.
            Event::Eof
            | Event::Empty(_)
            | Event::Comment(_)
            | Event::CData(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_) => return Err(NoNotification::Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Notification, Usage, render, visible};
    use super::*;

    fn notification(text: &str) -> Notification {
        Notification {
            task_id: "a0123456789abcdef".to_owned(),
            status: RunStatus::Killed,
            summary: text.to_owned(),
            result: text.to_owned(),
            usage: Usage {
                input_tokens: 40,
                output_tokens: 2,
                tool_uses: 3,
                duration_ms: 900,
                ..Usage::default()
            },
        }
    }

    #[test]
    fn n1_what_is_rendered_is_read() {
        let told = parse(&render(&notification("</result> & <b>"))).unwrap();
        assert_eq!((told.task_id.as_str(), told.status), ("a0123456789abcdef", RunStatus::Killed));
        assert_eq!(
            (told.summary.as_str(), told.result.as_str()),
            ("</result> & <b>", "</result> & <b>")
        );
        assert_eq!((told.total_tokens, told.tool_uses, told.duration_ms), (42, 3, 900));
    }

    #[test]
    fn n1_notifications_are_found_between_other_words() {
        let text = format!(
            "before & <x {}\nbetween{}",
            render(&notification("one")),
            render(&notification("two"))
        );
        let results: Vec<_> = find(&text).into_iter().map(|it| it.result).collect();
        assert_eq!(results, ["one", "two"]);
        assert_eq!(find("<task-notification> is what leads are told"), []);
    }

    #[test]
    fn n1_characters_may_be_written_in_any_way_that_xml_has() {
        let xml = render(&notification("x")).replace(">x<", ">&#x41;&#66; &lt; &quot;&amp;&apos;<");
        assert_eq!(parse(&xml).unwrap().result, "AB < \"&'");
    }

    #[test]
    fn n1_what_is_not_one_is_not_read() {
        let good = render(&notification("x"));
        for (text, error) in [
            (good.replacen("killed", "happy", 1), NoNotification::Part { part: "status" }),
            (good.replace("task-id", "id"), NoNotification::Part { part: "task-id" }),
            (good.replace(">42<", ">many<"), NoNotification::Part { part: "usage/total_tokens" }),
            (good.replace("</usage>", ""), NoNotification::Broken),
            (good.replace(">x<", ">&bogus;<"), NoNotification::Broken),
            (good[..good.len() - 5].to_owned(), NoNotification::Broken),
            (format!(" {good}"), NoNotification::Other),
        ] {
            assert_eq!(parse(&text), Err(error), "{text}");
        }
    }

    proptest! {
        /// N-3: whatever a worker says is read as it is shown.
        #[test]
        fn n3_rel8_any_text_is_read_as_it_is_shown(text in prop_oneof![any::<String>(), "[<>&;/a\r\n\"']{0,40}"]) {
            let told = parse(&render(&notification(&text))).unwrap();
            prop_assert_eq!(&told.result, &visible(&text));
            prop_assert_eq!(&told.summary, &visible(&text));
            prop_assert_eq!(find(&format!("x{}", render(&notification(&text)))).len(), 1);
        }
    }
}
