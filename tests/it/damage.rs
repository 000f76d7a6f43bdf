//! D-5, rel-41, rel-48, cases D6, D24: what cannot be read is set aside and said, and the rest
//! works. Nothing begins empty in silence.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proto::error::ErrorCode;
use proto::message::Body;
use proto::request::Request;
use proto::response::Response;
use serde_json::json;
use tests::agents::Agents;
use tests::rehearsal::{lead, say, script};
use tests::sandbox::program;
use tests::wait::until;
use tests::{Client, Daemon, Ran, story};

fn degraded(client: &mut Client) -> Vec<String> {
    match client.ok(Request::DaemonStatus {}) {
        Response::Daemon { daemon } => daemon.degraded,
        other => panic!("{other:?}"),
    }
}

/// What `coordctl` tells about the state, to one who asks.
fn assert_said(daemon: &Daemon, word: &str) {
    let status = daemon.coordctl(&["daemon", "status"]);
    assert!(status.stdout.contains(word), "`daemon status` does not say {word:?}: {status:?}");
    let doctor = daemon.coordctl(&["doctor"]);
    assert!(doctor.code == 1 && doctor.stdout.contains(word), "`doctor` does not: {doctor:?}");
}

fn doctor_fails_at(daemon: &Daemon, path: &Path) {
    let doctor = daemon.coordctl(&["doctor"]);
    let named = doctor.stdout.contains(&path.display().to_string());
    assert!(doctor.code == 1 && named, "{}: {doctor:?}", path.display());
}

/// Files in a folder whose names begin so.
fn beginning(folder: &Path, name: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|it| it.file_name().unwrap().to_str().unwrap().starts_with(name)).collect()
}

fn send(client: &mut Client, session: &str, text: &str) {
    let body = Body::Text { text: text.into() };
    let response = client.ok(Request::Send {
        session: session.into(),
        to: "lead".into(),
        body,
        summary: String::new(),
        notify_when_idle: false,
    });
    assert!(matches!(response, Response::Sent { .. }), "{response:?}");
}

fn damaged(bytes: &[u8], how: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = bytes.len() * (how / 2 + 1) / 6;
    if how.is_multiple_of(2) {
        bytes.truncate(at);
    } else {
        bytes[at] ^= 0x10;
    }
    bytes
}

/// A32: the store, cut off and flipped at sampled places. Each time all is there, or what is not is
/// said.
#[test]
fn d5_rel41_a_damaged_store_is_kept_and_said() {
    let (mut daemon, mut agents) = Agents::start();
    let lead = agents.lead(&daemon, "normal");
    let session = lead.boot.session.clone();
    let mut client = daemon.client();
    for number in 0..40 {
        send(&mut client, &session, &format!("message {number} {}", "x".repeat(500)));
    }
    // In order, so that all is in the one file; and without a process, so that each start and end
    // is quick.
    client.ok(Request::SessionStop { session: session.clone() });
    assert!(daemon.stop().success());
    let path = daemon.state().join("coordd.db");
    let whole = fs::read(&path).unwrap();
    let mut losses = 0;
    for how in 0..10 {
        fs::write(&path, damaged(&whole, how)).unwrap();
        daemon.restart();
        let mut client = daemon.client();
        let said = degraded(&mut client);
        let aside = beginning(&daemon.state(), "coordd.db.corrupt-");
        if said.is_empty() {
            assert!(aside.is_empty(), "damage {how}: set aside in silence");
            // A flipped bit in a page that nothing is in.
            assert_eq!(client.sessions().len(), 1, "damage {how}: lost in silence");
        } else {
            losses += 1;
            assert!(said[0].contains("damaged"), "damage {how}: {said:?}");
            assert_eq!(fs::read(&aside[0]).unwrap(), damaged(&whole, how), "kept as it was");
            doctor_fails_at(&daemon, &aside[0]);
            assert_said(&daemon, "the store was damaged");
        }
        let new = daemon.rehearsal("normal", &script(&json!([lead_says("Hello.")])));
        client.new_session(new);
        assert!(daemon.stop().success());
        for file in aside {
            fs::remove_file(file).unwrap();
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(losses >= 6, "the damage is real: {losses}");
    daemon.restart();
    assert_eq!(degraded(&mut daemon.client()), Vec::<String>::new());
    assert_eq!(daemon.client().sessions().len(), 1);
}

fn lead_says(text: &str) -> serde_json::Value {
    lead(&json!([say(text)]))
}

/// rel-48, D24: a store of a newer coordd is refused with what to do, and not touched. Records that
/// only a newer one knows are passed over, said, and still there for it.
#[test]
fn rel48_what_a_newer_coordd_wrote_is_left_for_it() {
    let mut daemon = Daemon::start();
    let made = daemon
        .client()
        .new_session(daemon.rehearsal("normal", &script(&json!([lead_says("Hello.")]))));
    assert!(daemon.stop().success());
    let path = daemon.state().join("coordd.db");
    let whole = fs::read(&path).unwrap();

    // `user_version` is at byte 60 of the header.
    let mut newer = whole.clone();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&path, &newer).unwrap();
    let mut command = daemon.command(program("coordd"));
    command.arg("--foreground");
    let refused = Ran::of(command, "");
    assert_eq!(refused.code, 1, "{refused:?}");
    let said = refused.said();
    assert!(said.contains("newer coordd") && said.contains("update coordd"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), newer, "not touched");
    assert!(beginning(&daemon.state(), "coordd.db.corrupt-").is_empty());

    fs::write(&path, &whole).unwrap();
    append_record(&path, r#"{"SessionPainted":{"session":"x","colour":"blue"}}"#);
    for _ in 0..2 {
        daemon.restart();
        assert_said(&daemon, "written by another version");
        assert_eq!(daemon.client().sessions()[0].id, made.id);
        assert!(daemon.stop().success());
    }
    assert!(
        fs::read(&path).unwrap().windows(14).any(|window| window == b"SessionPainted"),
        "it is still there"
    );
}

/// Adds a record as coordd does, with its checksum: CRC-32C over its number and its text.
fn append_record(path: &Path, body: &str) {
    let crc = |seq: i64, body: &str| {
        let bytes = [&seq.to_le_bytes(), body.as_bytes()].concat();
        let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
        !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
    };
    let db = rusqlite::Connection::open(path).unwrap();
    let last = "SELECT seq, crc, body FROM record ORDER BY seq DESC LIMIT 1";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (seq, known, text): (i64, u32, String) = db.query_row(last, [], row).unwrap();
    assert_eq!(crc(seq, &text), known, "the checksum is made in another way");
    let all = rusqlite::params![seq + 1, crc(seq + 1, body), body];
    db.execute("INSERT INTO record VALUES(?1, ?2, ?3)", all).unwrap();
}

/// The environment of a session: its agents still start, and it is said that they have none.
#[test]
fn rel41_a_damaged_environment_is_kept_and_said() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = script(&json!([lead(&json!([say("One."), say("Two.")]))]));
    let session = client.new_session(daemon.rehearsal("normal", &steps));
    let folder = daemon.state().join("sessions").join(&session.id);
    let path = folder.join("env.json");
    let whole = fs::read(&path).unwrap();
    for (round, damage) in
        [whole[..whole.len() / 2].to_vec(), b"[1]".to_vec(), Vec::new()].into_iter().enumerate()
    {
        daemon.kill9();
        fs::write(&path, &damage).unwrap();
        daemon.restart();
        let mut client = daemon.client();
        client.prompt(&session.id, "go");
        client.agent_until(&format!("{}/lead", session.name), "has run", |agent| {
            agent.runs as usize == round + 1
        });
        assert_said(&daemon, "the environment of session");
        let aside = beginning(&folder, "env.json.corrupt-");
        assert!(aside.iter().any(|it| fs::read(it).unwrap() == damage), "{aside:?}");
        let said = daemon.log_text();
        assert!(
            !said.contains("ANTHROPIC") && !said.contains("invalid type: "),
            "no content in the log"
        );
    }
    // Its owner gives it a new one.
    let resumed = daemon.coordctl(&["resume", &session.name]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(fs::read(&path).unwrap().first(), Some(&b'{'));
}

/// A transcript: what was before the damage is kept, the file is kept, its agent is told, and it
/// goes on.
#[test]
fn rel41_rel43_a_damaged_transcript_is_kept_and_said() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let says: Vec<_> = (1..=8).map(|it| say(&format!("Answer {it}."))).collect();
    for how in 0..6 {
        let session =
            client.new_session(daemon.rehearsal("normal", &script(&json!([lead(&json!(says))]))));
        let agent = format!("{}/lead", session.name);
        for run in 1..=3 {
            client.prompt(&session.id, &format!("question {run}"));
            client.agent_until(&agent, "has answered", |agent| agent.runs == run);
        }
        client.ok(Request::SessionStop { session: session.id.clone() });
        client.ok(Request::SessionResume {
            session: session.id.clone(),
            env: BTreeMap::new(),
            mode_variable: None,
        });
        let before = client.transcript(&agent);
        let folder = fs::read_dir(daemon.state().join("sessions").join(&session.id).join("agents"));
        let folder = folder.unwrap().next().unwrap().unwrap().path();
        let path = folder.join("transcript.jsonl");
        let broken = damaged(&fs::read(&path).unwrap(), how);
        fs::write(&path, &broken).unwrap();
        // What can be read of it is shown before anybody mends it.
        let shown = client.transcript(&agent);
        assert!(shown.iter().all(|it| before.contains(it) || how % 2 == 1), "{shown:?}");

        client.prompt(&session.id, "and now?");
        until("it answers again", || {
            let entries = client.transcript(&agent);
            let now = entries.iter().position(|entry| {
                matches!(&entry.what, proto::entry::What::Input { text, .. } if text.contains("and now?"))
            })?;
            story::texts(&entries[now..]).first().map(|_| ())
        });
        let aside = beginning(&folder, "transcript.jsonl.corrupt-");
        if how % 2 == 1 && !aside.is_empty() {
            assert_eq!(fs::read(&aside[0]).unwrap(), broken, "damage {how}: kept as it was");
            doctor_fails_at(&daemon, &aside[0]);
        }
        let entries = client.transcript(&agent);
        let numbers: Vec<_> = entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(numbers, (1..=entries.len() as u64).collect::<Vec<_>>(), "damage {how}");
        client.ok(Request::SessionRemove { session: session.id, force: true });
    }
    assert_eq!(daemon.client().ok(Request::Ping {}), Response::Done {});
}

/// What a process left about its run and nobody can read: kept, said, and the run goes on with the
/// next incarnation.
#[test]
fn rel41_a_damaged_outcome_is_kept_and_said() {
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let w = agents.worker(&daemon, &mut lead, "w");
    let folder = PathBuf::from(&w.boot.state_dir);
    for (round, damage) in ["", "{\"run\":1,\"outco"].into_iter().enumerate() {
        fs::write(folder.join("outcome-1.json"), damage).unwrap();
        if round == 0 {
            w.exit();
        } else {
            agents.next_started().connect(&daemon).unwrap().exit();
        }
        until("it is set aside", || {
            let aside = beginning(&folder, "outcome-1.json.corrupt-");
            aside.iter().any(|it| fs::read(it).unwrap() == damage.as_bytes()).then_some(())
        });
        until("it is said", || {
            degraded(&mut daemon.client()).iter().any(|it| it.contains("run 1")).then_some(())
        });
    }
    doctor_fails_at(&daemon, &beginning(&folder, "outcome-1.json.corrupt-")[0]);
    let mut again = agents.next(&daemon);
    assert_eq!(again.boot.agent, w.boot.agent);
    again.complete(1, "done after all");
    let note = lead.deliver();
    assert!(note.text.contains("done after all"), "{note:?}");
}

/// Team and task files: a projection. What stood in their place is kept, the last good state comes
/// back.
#[test]
fn t2_rel41_damaged_team_and_task_files_are_kept_and_written_again() {
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let session =
        client.new_session(daemon.rehearsal("coordinator", &script(&json!([lead_says("x")])))).id;
    let (name, description) = ("alpha".to_owned(), "mends dates".to_owned());
    client.ok(Request::TeamCreate { session, name, description, agent_type: String::new() });
    let (subject, description) = ("do it".to_owned(), "all of it".to_owned());
    client.ok(Request::TaskCreate {
        team: "alpha".into(),
        subject,
        description,
        blocked_by: Vec::new(),
    });
    let (team, task) =
        (daemon.at("h/.claude/teams/alpha/config.json"), daemon.at("h/.claude/tasks/alpha/1.json"));
    until("both files are there", || (team.exists() && task.exists()).then_some(()));
    for path in [&team, &task] {
        let whole = fs::read(path).unwrap();
        for damage in [whole[..whole.len() / 3].to_vec(), b"\0\0\0\0".to_vec()] {
            daemon.kill9();
            fs::write(path, &damage).unwrap();
            daemon.restart();
            until("the last good state is back", || (fs::read(path).ok()? == whole).then_some(()));
            let name = format!("{}.corrupt-", path.file_name().unwrap().to_str().unwrap());
            let aside = beginning(path.parent().unwrap(), &name);
            let mut kept = aside.iter().filter_map(|it| fs::read(it).ok());
            assert!(kept.any(|it| it == damage), "{path:?}: {aside:?}");
            until("it is said", || {
                let said = degraded(&mut daemon.client());
                said.iter().any(|it| it.contains("of team alpha")).then_some(())
            });
            assert_said(&daemon, "of team alpha");
        }
    }
}

/// A folder that cannot be used is its own session's trouble (D6: not everybody's).
#[test]
fn d6_a_sessions_broken_folder_does_not_end_the_daemon() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = script(&json!([lead(&json!([say("One.")]))]));
    let one = client.new_session(daemon.rehearsal("normal", &steps));
    let folder = daemon.state().join("sessions");
    fs::rename(&folder, daemon.state().join("sessions.moved")).unwrap();
    fs::write(&folder, "in the way").unwrap();
    let two = client.new_session(daemon.rehearsal("normal", &steps));
    assert_ne!(one.id, two.id);
    assert!(degraded(&mut client).iter().any(|it| it.contains(&two.id)));
    client.prompt(&two.id, "go");
    let view = client
        .agent_until(&format!("{}/lead", two.name), "has failed", |agent| agent.last.is_some());
    assert!(view.last.unwrap().reason.contains("sessions"), "what is in the way is named");
    let missing = client.denied(Request::AgentShow { agent: "nobody/lead".into() });
    assert_eq!(missing.code, ErrorCode::NotFound);
}
