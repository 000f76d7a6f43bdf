//! What coordd and a Claude Code terminal that is a member of a team leave for each other: the
//! entries of inbox files, what their text can say, and how such a terminal is started.
//!
//! Observed with Claude Code 2.1.100, 2.1.150 and 2.1.332:
//! `~/.claude/teams/<team>/inboxes/<member>.json` is an array of entries. Up to 2.1.150 a reader
//! sets `read` and leaves the entry; 2.1.332 takes it out. An entry's text is words, or a JSON
//! object of one of the types below. Read leniently, written strictly; what is not known here is
//! kept. It must not open a file.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What others call a lead.
pub const LEAD: &str = "team-lead";

/// What the id of an entry of ours begins with; the message's id follows.
const OUR_ID: &str = "coordd-";

/// One element of an inbox file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Row {
    /// An entry.
    Entry(Entry),
    /// Something else, kept as it is.
    Strange(Value),
}

/// An entry of an inbox file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The sender's name, as the sender says it.
    pub from: String,
    /// Words, or a [`Said`] as JSON.
    pub text: String,
    /// In a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// When, as `2026-01-31T12:00:00.000Z`.
    #[serde(default)]
    pub timestamp: String,
    /// Its own id; not there up to 2.1.150.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_id: Option<String>,
    /// Whether its receiver has it.
    #[serde(default)]
    pub read: bool,
    /// What this build does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Entry {
    /// An entry of ours, for this message.
    pub fn ours(message: &str, from: &str, text: String, summary: &str, timestamp: String) -> Self {
        let mut unknown = Map::new();
        unknown.insert("type".to_owned(), "message".into());
        unknown.insert("msgV".to_owned(), 1.into());
        Self {
            from: from.to_owned(),
            text,
            summary: (!summary.is_empty()).then(|| summary.to_owned()),
            timestamp,
            msg_id: Some(format!("{OUR_ID}{message}")),
            read: false,
            unknown,
        }
    }

    /// The message of ours that it is.
    pub fn message(&self) -> Option<&str> {
        self.msg_id.as_deref()?.strip_prefix(OUR_ID)
    }
}

/// What an entry's text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Plain text.
    Text(String),
    /// One of the messages that programs understand.
    Signal(Signal),
}

impl Said {
    /// What a text says. What is no message that is known here is words.
    pub fn read(text: &str) -> Self {
        let known = if text.trim_start().starts_with('{') {
            serde_json::from_str::<Stamped>(text).ok()
        } else {
            None
        };
        known.map_or_else(|| Self::Text(text.to_owned()), |it| Self::Signal(it.signal))
    }
}

/// A message that programs understand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Signal {
    /// Its turn has ended.
    IdleNotification {
        /// `available`, as far as was seen.
        #[serde(default)]
        idle_reason: String,
        /// What it last said to another member.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        summary: String,
        /// Its last words; from 2.1.332 on.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        result: String,
    },
    /// Asks to end.
    ShutdownRequest {
        /// The name that the answer carries.
        request_id: String,
        /// The reason; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Agrees to end, and ends.
    ShutdownApproved {
        /// What is answered.
        request_id: String,
    },
    /// Goes on.
    ShutdownRejected {
        /// What is answered.
        request_id: String,
        /// The reason; may be empty.
        #[serde(default)]
        reason: String,
    },
    /// Asks for approval of a plan.
    PlanApprovalRequest {
        /// The name that the answer carries.
        request_id: String,
        /// Where the plan is.
        #[serde(default)]
        plan_file_path: String,
        /// The plan.
        #[serde(default)]
        plan_content: String,
    },
    /// Answers one.
    PlanApprovalResponse {
        /// What is answered.
        request_id: String,
        /// Whether the plan may be carried out.
        approved: bool,
        /// What to change.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        feedback: String,
    },
    /// A task has a new owner: the reader of this line.
    TaskAssignment {
        /// Its number.
        task_id: String,
        /// In a few words.
        #[serde(default)]
        subject: String,
        /// In full.
        #[serde(default)]
        description: String,
        /// Who says so.
        #[serde(default)]
        assigned_by: String,
    },
}

#[derive(Deserialize)]
struct Stamped {
    #[serde(flatten)]
    signal: Signal,
}

#[derive(Serialize)]
struct Stamp<'a> {
    #[serde(flatten)]
    signal: &'a Signal,
    from: &'a str,
    timestamp: &'a str,
}

impl Signal {
    /// As the text of an entry.
    pub fn write(&self, from: &str, timestamp: &str) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Stamp { signal: self, from, timestamp })
    }
}

/// The name that a shutdown request to a member carries. 2.1.332 shows its model no other form:
/// digits, then the member.
pub fn shutdown_id(message: u64, member: &str) -> String {
    format!("shutdown-{message}@{member}")
}

/// The message that a shutdown request's name was made of.
pub fn shutdown_message(request_id: &str) -> Option<u64> {
    request_id.strip_prefix("shutdown-")?.split_once('@')?.0.parse().ok()
}

/// The name of a member's inbox file without `.json`. Other letters would make another file of it.
pub fn inbox_name(member: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    member.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}

/// How a Claude Code terminal is started as a member of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    /// The team.
    pub team: &'a str,
    /// The member.
    pub member: &'a str,
    /// The session that leads the team.
    pub lead_session: &'a str,
}

/// The program.
const PROGRAM: &str = "claude";

/// What is added where nobody says what it may do without asking. Left to its own choice, 2.1.332
/// refuses to let a member speak to its lead where no model judges that for it.
pub const EDITS_ALLOWED: [&str; 2] = ["--permission-mode", "acceptEdits"];

/// What is added where its plan must be approved before it does anything.
pub const PLAN_FIRST: &str = "--plan-mode-required";

/// The variable that switches teams on, and its value.
pub const TEAMS_ON: (&str, &str) = ("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS", "1");

impl Start<'_> {
    /// The program and its arguments.
    pub fn command(&self) -> Vec<String> {
        let id = format!("{}@{}", self.member, self.team);
        let words = [
            PROGRAM,
            "--agent-id",
            &id,
            "--agent-name",
            self.member,
            "--team-name",
            self.team,
            "--parent-session-id",
            self.lead_session,
            "--agent-type",
            "general-purpose",
        ];
        words.into_iter().map(str::to_owned).collect()
    }
}

/// What follows such a command: what its user wants, and what it may do without asking where they
/// say nothing about that.
pub fn choices(more: &[String]) -> Vec<String> {
    let says = more.iter().any(|it| it.starts_with("--permission-mode"));
    let allowed = EDITS_ALLOWED.into_iter().filter(|_| !says).map(str::to_owned);
    allowed.chain(more.iter().cloned()).collect()
}

/// The `<name>@<team>` that a command line like [`Start::command`] starts.
pub fn started_as<'a>(mut arguments: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    arguments.by_ref().find(|argument| *argument == "--agent-id")?;
    arguments.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(text: &str) -> Signal {
        match Said::read(text) {
            Said::Signal(signal) => signal,
            Said::Text(text) => panic!("{text}"),
        }
    }

    #[test]
    fn t2_entries_of_each_version_are_read_and_what_is_unknown_survives() {
        let text = r#"[
            {"from":"m1","text":"hi","summary":"s","timestamp":"2026-11-30T11:58:58.381Z","read":true},
            {"from":"m1","text":"hi","timestamp":"t","color":"blue","type":"message","read":false},
            {"from":"m1","text":"hi","timestamp":"t","msgV":1,"msg_id":"17bef363","type":"message","read":false,"lead_sig":"x"},
            7, {"from":1}]"#;
        let rows: Vec<Row> = serde_json::from_str(text).unwrap();
        let entries: Vec<_> = rows
            .iter()
            .filter_map(|row| if let Row::Entry(entry) = row { Some(entry) } else { None })
            .collect();
        assert_eq!(entries.len(), 3);
        assert!(entries[0].read && entries[0].summary.as_deref() == Some("s"));
        assert_eq!(entries[2].msg_id.as_deref(), Some("17bef363"));
        let again: Value = serde_json::to_value(&rows).unwrap();
        assert_eq!(again[1]["color"], "blue");
        assert_eq!(again[2]["lead_sig"], "x");
        assert_eq!((&again[3], &again[4]), (&Value::from(7), &serde_json::json!({"from":1})));
        let first = serde_json::to_value(entries[0]).unwrap();
        assert_eq!(first.get("msg_id"), None, "what was not there is not made up");
    }

    #[test]
    fn t2_an_entry_of_ours_is_known_again() {
        let entry = Entry::ours("m12", "team-lead", "go".to_owned(), "", "t".to_owned());
        let value = serde_json::to_value(&entry).unwrap();
        assert_eq!(value["msg_id"], "coordd-m12");
        assert_eq!((&value["type"], &value["read"]), (&"message".into(), &false.into()));
        assert_eq!(value.get("summary"), None);
        assert_eq!(entry.message(), Some("m12"));
        assert_eq!(Entry { msg_id: Some("x".to_owned()), ..entry }.message(), None);
    }

    #[test]
    fn t2_each_signal_is_read_as_claude_code_writes_it() {
        let idle = signal(
            r#"{"type":"idle_notification","from":"m1","timestamp":"t","idleReason":"available","result":"m1 ready"}"#,
        );
        assert!(matches!(idle, Signal::IdleNotification { result, .. } if result == "m1 ready"));
        let idle = signal(r#"{"type":"idle_notification","from":"m1","timestamp":"t"}"#);
        assert!(matches!(idle, Signal::IdleNotification { result, .. } if result.is_empty()));
        let approved = signal(
            r#"{"type":"shutdown_approved","requestId":"shutdown-12@m1","from":"m1","timestamp":"t","paneId":""}"#,
        );
        let Signal::ShutdownApproved { request_id } = approved else { panic!() };
        assert_eq!(shutdown_message(&request_id), Some(12));
        let plan = signal(
            r##"{"type":"plan_approval_request","from":"m2","timestamp":"t","planFilePath":"/p","planContent":"# x","requestId":"plan_approval-1@m2@a"}"##,
        );
        assert!(
            matches!(plan, Signal::PlanApprovalRequest { plan_content, .. } if plan_content == "# x")
        );
        let task = signal(
            r#"{"type":"task_assignment","taskId":"1","subject":"a","description":"b","assignedBy":"team-lead","timestamp":"t"}"#,
        );
        assert!(matches!(task, Signal::TaskAssignment { task_id, .. } if task_id == "1"));
    }

    #[test]
    fn t2_what_is_no_signal_is_words() {
        for text in [
            "hello",
            "{",
            "{}",
            r#"{"type":"unheard_of"}"#,
            r#"{"type":"shutdown_approved"}"#,
            r#"["type"]"#,
        ] {
            assert_eq!(Said::read(text), Said::Text(text.to_owned()));
        }
    }

    #[test]
    fn t2_a_signal_of_ours_is_written_as_claude_code_has_it() {
        let asked =
            Signal::ShutdownRequest { request_id: shutdown_id(12, "m1"), reason: String::new() };
        let value: Value = serde_json::from_str(&asked.write(LEAD, "t").unwrap()).unwrap();
        let wanted = serde_json::json!({
            "type": "shutdown_request", "requestId": "shutdown-12@m1", "from": "team-lead", "timestamp": "t"
        });
        assert_eq!(value, wanted);
        let answer = Signal::PlanApprovalResponse {
            request_id: "plan_approval-1@m1@a".to_owned(),
            approved: false,
            feedback: "more".to_owned(),
        };
        let text = answer.write(LEAD, "t").unwrap();
        assert_eq!(Said::read(&text), Said::Signal(answer));
        assert!(text.contains(r#""approved":false"#) && text.contains(r#""feedback":"more""#));
    }

    #[test]
    fn t2_names_of_files_are_those_of_claude_code() {
        assert_eq!(inbox_name("mate.one"), "mate-one");
        assert_eq!(inbox_name("My-Mate_1"), "My-Mate_1");
        assert_eq!(inbox_name("../é"), "----");
    }

    #[test]
    fn t2_a_terminal_is_known_by_how_it_was_started() {
        let start = Start { team: "alpha", member: "m1", lead_session: "s" };
        let command = start.command();
        assert_eq!(started_as(command.iter().map(String::as_str)), Some("m1@alpha"));
        assert_eq!(started_as(["claude", "-p"].into_iter()), None);
    }
}
