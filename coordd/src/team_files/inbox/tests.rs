use std::fs;

use proto::teammate::LEAD;

use super::super::tests::team;
use super::*;

struct Fixture {
    home: tempfile::TempDir,
    inboxes: Inboxes,
}

impl Fixture {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let files = TeamFiles::new(home.path());
        files.write_team(&team("alpha", "one"), "").unwrap();
        Self { inboxes: files.inboxes("alpha").unwrap().unwrap(), home }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(".claude/teams/alpha/inboxes").join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    fn rows(&self, name: &str) -> Vec<serde_json::Value> {
        serde_json::from_slice(&fs::read(self.at(name)).unwrap()).unwrap()
    }

    fn serve(&self, letters: &[Letter]) -> Served {
        self.inboxes.serve("m1", letters, false).unwrap()
    }

    /// As 2.1.332 does it.
    fn take_all(&self) {
        self.put("m1.json", "[]");
    }

    /// As 2.1.150 does it.
    fn mark_all(&self) {
        let mut rows = self.rows("m1.json");
        for row in &mut rows {
            row["read"] = true.into();
        }
        self.put("m1.json", &serde_json::to_string(&rows).unwrap());
    }
}

fn letter(id: u32) -> Letter {
    let message = format!("m{id}");
    let entry = Entry::ours(&message, LEAD, format!("text {id}"), "", "t".to_owned());
    Letter { message, is_written: false, assigns: None, entry }
}

fn written(id: u32) -> Letter {
    Letter { is_written: true, ..letter(id) }
}

fn ids(ids: &[u32]) -> Vec<String> {
    ids.iter().map(|it| format!("m{it}")).collect()
}

#[test]
fn t2_letters_are_put_in_once_and_in_order() {
    let fixture = Fixture::new();
    fixture.put(
        "m1.json",
        r#"[{"from":"m2","text":"p2p","timestamp":"t","color":"red","read":false}]"#,
    );
    let served = fixture.serve(&[letter(1), letter(2)]);
    assert_eq!((served.written, served.read), (ids(&[1, 2]), ids(&[])));
    let again = fixture.serve(&[written(1), letter(2), letter(3)]);
    assert_eq!((again.written, again.read), (ids(&[1, 2, 3]), ids(&[])));
    let rows = fixture.rows("m1.json");
    let texts: Vec<_> = rows.iter().map(|row| row["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["p2p", "text 1", "text 2", "text 3"]);
    assert_eq!(rows[0]["color"], "red", "what others wrote stays as it is");
    assert!(!fixture.at("m1.json.lock").exists());
}

#[test]
fn t2_both_ways_of_reading_are_understood() {
    let fixture = Fixture::new();
    fixture.serve(&[letter(1), letter(2)]);
    fixture.mark_all();
    let served = fixture.serve(&[written(1), written(2), letter(3)]);
    assert_eq!((served.written, served.read), (ids(&[1, 2, 3]), ids(&[1, 2])));
    fixture.take_all();
    assert_eq!(fixture.serve(&[written(3)]).read, ids(&[3]));
    assert_eq!(fixture.rows("m1.json").len(), 0, "nothing comes back");
}

/// Killed after the file was replaced and before anybody was told, while the member took all out.
#[test]
fn m3_a_letter_that_was_put_in_before_a_crash_is_not_put_in_again() {
    let fixture = Fixture::new();
    fixture.serve(&[letter(1)]);
    fixture.take_all();
    let served = fixture.serve(&[letter(1), letter(2)]);
    assert_eq!((served.written, served.read), (ids(&[1, 2]), ids(&[1])));
    assert_eq!(fixture.rows("m1.json").len(), 1);
}

/// Killed after the note and before the file was replaced.
#[test]
fn m3_a_letter_that_was_only_prepared_before_a_crash_is_put_in() {
    let fixture = Fixture::new();
    fixture.put("m1.json", "[]");
    fixture.put(".coordd-note-m1", r#"["m1"]"#);
    fixture.put(".coordd-post-m1", "[]");
    let served = fixture.serve(&[letter(1)]);
    assert_eq!((served.written, served.read), (ids(&[1]), ids(&[])));
    assert_eq!(fixture.rows("m1.json").len(), 1);
    assert!(!fixture.at(".coordd-post-m1").exists());
}

#[test]
fn t2_a_file_that_is_gone_or_damaged_is_written_again_with_what_was_not_read() {
    let fixture = Fixture::new();
    fixture.serve(&[letter(1)]);
    fs::remove_file(fixture.at("m1.json")).unwrap();
    assert_eq!(fixture.serve(&[written(1)]).read, ids(&[]));
    assert_eq!(fixture.rows("m1.json").len(), 1);
    fixture.put("m1.json", "[{");
    let served = fixture.serve(&[written(1)]);
    assert!(served.is_unsettled && served.written.is_empty(), "{served:?}");
    assert_eq!(fs::read_to_string(fixture.at("m1.json")).unwrap(), "[{", "it may become whole");
    let served = fixture.inboxes.serve("m1", &[written(1)], true).unwrap();
    assert_eq!((served.written, served.read), (ids(&[1]), ids(&[])));
    assert_eq!(fs::read_to_string(served.aside.unwrap()).unwrap(), "[{");
    assert_eq!(fixture.rows("m1.json").len(), 1);
}

#[test]
fn t2_a_file_has_a_bound_and_what_was_read_is_taken_out_when_nothing_else_is_in_it() {
    let fixture = Fixture::new();
    let all: Vec<_> = (1..=150).map(letter).collect();
    let served = fixture.serve(&all);
    assert_eq!(served.written.len(), UNREAD_MAX);
    assert_eq!(fixture.rows("m1.json").len(), UNREAD_MAX);
    let all: Vec<_> = (1..=100).map(written).chain((101..=150).map(letter)).collect();
    assert_eq!(fixture.serve(&all).written.len(), UNREAD_MAX);
    fixture.mark_all();
    let served = fixture.serve(&all);
    assert_eq!((served.written.len(), served.read.len()), (150, 100));
    assert_eq!(fixture.rows("m1.json").len(), 150, "some are not read");
    fixture.mark_all();
    let rest: Vec<_> = (101..=150).map(written).collect();
    assert_eq!(fixture.serve(&rest).read.len(), 50);
    assert_eq!(fixture.rows("m1.json").len(), 0);
}

#[test]
fn t2_what_a_member_left_is_found_and_taken_out() {
    let fixture = Fixture::new();
    let text = r#"[{"from":"m1","text":"a","timestamp":"t","read":true},
        {"from":"m1","text":"b","timestamp":"t","read":false}, 7,
        {"from":"m1","text":"c","timestamp":"t","read":false}]"#;
    fixture.put("team-lead.json", text);
    let found = fixture.inboxes.look(LEAD, false).unwrap();
    let texts: Vec<_> = found.entries.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(texts, ["b", "c"]);
    fixture.inboxes.take(LEAD, |it| it.text == "b").unwrap();
    assert_eq!(fixture.rows("team-lead.json").len(), 3);
    assert_eq!(fixture.inboxes.look(LEAD, false).unwrap().entries.len(), 1);
    assert_eq!(fixture.inboxes.names().unwrap(), ["team-lead"]);
}

#[test]
fn t2_what_is_no_inbox_is_waited_for_and_then_set_aside() {
    let fixture = Fixture::new();
    for bad in ["", "[{\"from\"", "{}"] {
        fixture.put("team-lead.json", bad);
        assert!(fixture.inboxes.look(LEAD, false).unwrap().is_unsettled);
        let found = fixture.inboxes.look(LEAD, true).unwrap();
        assert_eq!(fs::read_to_string(found.aside.unwrap()).unwrap(), bad);
        assert_eq!(fixture.rows("team-lead.json").len(), 0);
    }
    let elsewhere = fixture.home.path().join("elsewhere");
    fs::write(&elsewhere, "[]").unwrap();
    fs::remove_file(fixture.at("team-lead.json")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, fixture.at("team-lead.json")).unwrap();
    assert!(fixture.inboxes.look(LEAD, true).unwrap().aside.is_some());
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), "[]");
}

#[test]
fn t2_a_lock_that_is_held_keeps_us_out() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.at("m1.json.lock")).unwrap();
    let refused = fixture.inboxes.serve("m1", &[letter(1)], false);
    assert!(matches!(refused, Err(InboxError::Lock(LockError::Held { .. }))));
    assert!(!fixture.at("m1.json").exists());
    fs::remove_dir(fixture.at("m1.json.lock")).unwrap();
    assert_eq!(fixture.serve(&[letter(1)]).written, ids(&[1]));
}
