//! Teams and their tasks (section 4 of SPEC).

use alloc::string::String;

use super::{Stage, USER, completed};
use crate::answer::Answer;
use crate::denial::Denial;
use crate::effect::Event;
use crate::id::PeerId;
use crate::name::Name;
use crate::request::Request;
use crate::task::Edit;
use crate::task::TaskStatus::{self, Completed, InProgress, Pending};
use crate::{Effect, Input, limits};

fn create(stage: &mut Stage, peer: PeerId, session: &str, name: &str) -> Result<Answer, Denial> {
    let (session, name) = (session.into(), name.into());
    let (description, agent_type) = (String::new(), String::new());
    stage.ask(peer, Request::TeamCreate { session, name, description, agent_type })
}

fn team(name: &str) -> Answer {
    Answer::Team(Name::new(name).unwrap())
}

#[test]
fn t1_a_session_leads_one_team_and_a_taken_name_gets_a_fresh_one() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    assert_eq!(create(&mut stage, lead, "", "My Team"), Ok(team("my-team")));
    assert!(
        stage.step.effects.contains(&Effect::WriteTeam { team: Name::new("my-team").unwrap() })
    );
    let denial = create(&mut stage, lead, "", "another").unwrap_err();
    assert_eq!(denial, Denial::HasTeam { name: "my-team".into() });
    stage.session("t", "normal", 1);
    assert_eq!(create(&mut stage, USER, "t", "my_team"), Ok(team("my-team-2")));
    stage.session("u", "normal", 1);
    let Ok(Answer::Team(name)) = create(&mut stage, USER, "u", "") else { panic!() };
    assert!(name.as_str().starts_with("team-") && name.as_str().len() == 13, "{name}");
    stage.session("v", "normal", 1);
    let denial = create(&mut stage, USER, "v", "…").unwrap_err();
    assert!(matches!(denial, Denial::Invalid { field: "team_name", .. }));
}

#[test]
fn t3_a_team_is_deleted_once_nobody_in_it_works() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    assert_eq!(
        stage.ask(lead, Request::TeamDelete { session: String::new() }),
        Err(Denial::NoTeam)
    );
    create(&mut stage, lead, "", "team").unwrap();
    stage.spawn(lead, "w").unwrap();
    let denial = stage.ask(lead, Request::TeamDelete { session: String::new() }).unwrap_err();
    assert_eq!(denial, Denial::WorkersRun { names: ["w".into()].to_vec() });
    let w = stage.connect("w");
    stage.read(w, "w");
    stage.ask(w, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
    stage.exit("w", None);
    let name = Name::new("team").unwrap();
    for all in [false, true] {
        // A step that fails leaves the team; a second call finishes the job.
        let call = stage.send_call(lead, None, Request::TeamDelete { session: String::new() });
        let is_it = |it: &Effect| matches!(it, Effect::RemoveTeam { call: c, .. } if *c == call);
        assert_eq!(stage.step.effects.iter().filter(|it| is_it(it)).count(), 1);
        stage.input(Input::TeamRemoved { team: name.clone(), all });
        assert_eq!(stage.core.durable.teams.contains_key(&name), !all);
    }
}

/// A session `s` with team `team`, workers `a` and `b`, and as many tasks as `blocked_by` has rows.
fn with_tasks(blocked_by: &[&[u32]]) -> (Stage, PeerId) {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    create(&mut stage, lead, "", "team").unwrap();
    stage.spawn(lead, "a").unwrap();
    stage.spawn(lead, "b").unwrap();
    for (at, blocked_by) in blocked_by.iter().enumerate() {
        let answer = stage.user(Request::TaskCreate {
            team: "team".into(),
            subject: "a thing".into(),
            description: String::new(),
            blocked_by: blocked_by.to_vec(),
        });
        let task = u32::try_from(at + 1).unwrap();
        assert_eq!(answer, Ok(Answer::Task { team: Name::new("team").unwrap(), task }));
    }
    (stage, lead)
}

fn update(
    stage: &mut Stage,
    task: u32,
    status: Option<TaskStatus>,
    owner: Option<&str>,
) -> Result<(), Denial> {
    let owner = owner.map(String::from);
    stage
        .user(Request::TaskUpdate { team: "team".into(), task, status, owner, blocked_by: None })
        .map(drop)
}

fn seen(stage: &Stage, task: u32) -> (TaskStatus, Option<&str>) {
    let task = &stage.core.durable.teams[&Name::new("team").unwrap()].tasks[&task];
    (task.status, task.owner.as_deref())
}

/// T-4: of two who claim a task one gets it, and the other is told who.
#[test]
fn t4_a_claim_is_atomic() {
    let (mut stage, _) = with_tasks(&[&[]]);
    assert_eq!(
        update(&mut stage, 1, Some(InProgress), None),
        Err(Denial::TaskWithoutOwner { task: 1 })
    );
    update(&mut stage, 1, Some(InProgress), Some("a")).unwrap();
    let taken = Err(Denial::TaskTaken { task: 1, owner: "a".into() });
    assert_eq!(update(&mut stage, 1, Some(InProgress), Some("b")), taken);
    assert_eq!(update(&mut stage, 1, None, Some("B")), taken, "in whatever case");
    assert_eq!(seen(&stage, 1), (InProgress, Some("a")));
    update(&mut stage, 1, None, Some("A")).unwrap();
    update(&mut stage, 1, None, Some("")).unwrap();
    assert_eq!(seen(&stage, 1), (Pending, None), "given back");
    update(&mut stage, 1, Some(InProgress), Some("b")).unwrap();
    assert!(matches!(update(&mut stage, 1, None, Some("nobody")), Err(Denial::NoSuchAgent { .. })));
    assert!(matches!(update(&mut stage, 9, None, None), Err(Denial::NoSuch { what: "task", .. })));
}

#[test]
fn t4_a_finished_task_frees_those_that_wait_for_it() {
    let (mut stage, _) = with_tasks(&[&[], &[], &[1, 2]]);
    let blocked = |by: &[u32]| Err(Denial::TaskBlocked { task: 3, by: by.to_vec() });
    assert_eq!(update(&mut stage, 3, Some(InProgress), Some("a")), blocked(&[1, 2]));
    update(&mut stage, 1, Some(Completed), None).unwrap();
    assert_eq!(update(&mut stage, 3, Some(InProgress), Some("a")), blocked(&[2]));
    update(&mut stage, 2, Some(Completed), None).unwrap();
    update(&mut stage, 3, Some(InProgress), Some("a")).unwrap();
    let denial = stage.user(Request::TaskCreate {
        team: "s".into(),
        subject: "after what is not there".into(),
        description: String::new(),
        blocked_by: [9].to_vec(),
    });
    assert_eq!(denial, Err(Denial::NoSuch { what: "task", given: "9".into() }));
}

/// T-4: a member that dies or fails gives its tasks back, on disk too; one that is done keeps what it did.
#[test]
fn t4_a_member_that_dies_gives_its_tasks_back() {
    let (mut stage, _) = with_tasks(&[&[], &[], &[]]);
    update(&mut stage, 1, Some(InProgress), Some("a")).unwrap();
    update(&mut stage, 2, Some(Completed), Some("a")).unwrap();
    update(&mut stage, 3, Some(InProgress), Some("b")).unwrap();
    let a = stage.connect("a");
    stage.read(a, "a");
    stage.send_call(USER, None, Request::AgentStop { agent: "s/a".into() });
    assert_eq!(seen(&stage, 1), (InProgress, Some("a")), "it may yet finish");
    stage.exit("a", None);
    assert_eq!(seen(&stage, 1), (Pending, None));
    assert_eq!(seen(&stage, 2), (Completed, Some("a")));
    assert_eq!(seen(&stage, 3), (InProgress, Some("b")));
    assert!(stage.step.effects.contains(&Effect::WriteTeam { team: Name::new("team").unwrap() }));
}

#[test]
fn t2_an_edit_from_outside_is_merged_and_an_echo_is_not() {
    let (mut stage, _) = with_tasks(&[&[]]);
    let edit = |stage: &mut Stage| {
        let team = Name::new("team").unwrap();
        let (description, outside) = ("new".into(), "{\"x\":1}".into());
        let written = Effect::WriteTeam { team: team.clone() };
        let step = stage.input(Input::TeamEdited { team, description, outside });
        assert!(step.effects.contains(&written), "what is ours to say may be missing in it");
        step.records.len()
    };
    assert_eq!(edit(&mut stage), 1);
    assert_eq!(edit(&mut stage), 0);
    let team = &stage.core.durable.teams[&Name::new("team").unwrap()];
    assert_eq!((team.description.as_str(), team.outside.as_str()), ("new", "{\"x\":1}"));
    assert_eq!(team.tasks.len(), 1);
}

/// What an edit of a task's file led to: a refusal, or nothing. The files are written again in either case.
fn edit(stage: &mut Stage, task: u32, edit: Edit) -> Result<(), Denial> {
    let team = Name::new("team").unwrap();
    stage.input(Input::TaskEdited { team: team.clone(), task, edit: edit.into() });
    assert!(stage.step.effects.contains(&Effect::WriteTeam { team }));
    let refused = stage.step.effects.iter().find_map(|it| match it {
        Effect::Publish { event: Event::EditRefused { task: id, why, .. }, .. } => {
            assert_eq!(*id, task);
            Some(why.clone())
        }
        _ => None,
    });
    assert_eq!(stage.step.records.is_empty(), refused.is_some(), "{refused:?}");
    refused.map_or(Ok(()), Err)
}

fn by(status: Option<TaskStatus>, owner: Option<&str>) -> Edit {
    Edit { status, owner: owner.map(String::from), ..Edit::default() }
}

/// A task that others make, as its file has it.
fn made(subject: &str, blocked_by: &[u32]) -> Edit {
    Edit {
        subject: Some(subject.into()),
        description: Some("in full".into()),
        status: Some(Pending),
        owner: Some(String::new()),
        blocked_by: Some(blocked_by.to_vec()),
    }
}

/// T-2, T-4: an edit from outside goes by the rules of an update.
#[test]
fn t4_a_task_edited_from_outside_goes_by_the_same_rules() {
    let (mut stage, _) = with_tasks(&[&[], &[1], &[]]);
    let blocked = Err(Denial::TaskBlocked { task: 2, by: [1].to_vec() });
    assert_eq!(edit(&mut stage, 2, by(Some(InProgress), Some("a"))), blocked);
    assert_eq!(edit(&mut stage, 2, by(Some(Completed), None)), blocked);
    assert_eq!(
        edit(&mut stage, 1, by(Some(InProgress), None)),
        Err(Denial::TaskWithoutOwner { task: 1 })
    );
    edit(&mut stage, 1, by(Some(InProgress), Some("A"))).unwrap();
    assert_eq!(seen(&stage, 1), (InProgress, Some("a")), "an agent has one name");
    let taken = Err(Denial::TaskTaken { task: 1, owner: "a".into() });
    assert_eq!(edit(&mut stage, 1, by(None, Some("b"))), taken);
    edit(&mut stage, 1, by(Some(Completed), None)).unwrap();
    let event = Event::TaskChanged { team: Name::new("team").unwrap(), task: 1 };
    let session = stage.core.durable.teams[&Name::new("team").unwrap()].session.clone();
    assert!(stage.step.effects.contains(&Effect::Publish { session, event }));
    edit(&mut stage, 2, by(Some(InProgress), Some("ada of a terminal"))).unwrap();
    assert_eq!(seen(&stage, 2), (InProgress, Some("ada of a terminal")), "freed by the first");
    edit(&mut stage, 2, by(None, Some(""))).unwrap();
    assert_eq!(seen(&stage, 2), (Pending, None));
    let waits = |for_: u32| Edit { blocked_by: Some([for_].to_vec()), ..Edit::default() };
    edit(&mut stage, 3, waits(2)).unwrap();
    assert_eq!(edit(&mut stage, 2, waits(3)), Err(Denial::TaskCycle { task: 2 }));
    let missing = edit(&mut stage, 2, waits(9));
    assert_eq!(missing, Err(Denial::NoSuch { what: "task", given: "9".into() }));
    let words = Edit { subject: Some("new".into()), ..Edit::default() };
    edit(&mut stage, 2, words).unwrap();
    let task = &stage.core.durable.teams[&Name::new("team").unwrap()].tasks[&2];
    assert_eq!((task.subject.as_str(), task.blocked_by.as_slice()), ("new", [1].as_slice()));
}

#[test]
fn t4_an_edit_from_outside_is_bounded() {
    let (mut stage, _) = with_tasks(&[&[]]);
    let subject = |text: &str| Edit { subject: Some(text.into()), ..Edit::default() };
    assert!(matches!(edit(&mut stage, 1, subject(" ")), Err(Denial::Invalid { .. })));
    let long = "x".repeat(limits::SETTINGS_LEN_MAX + 1);
    assert!(matches!(edit(&mut stage, 1, subject(&long)), Err(Denial::TooLarge { .. })));
    let long = "x".repeat(limits::OWNER_LEN_MAX + 1);
    assert!(matches!(edit(&mut stage, 1, by(None, Some(&long))), Err(Denial::TooLarge { .. })));
    assert!(matches!(edit(&mut stage, 1, by(None, Some("a\nb"))), Err(Denial::Invalid { .. })));
}

/// T-4: what changes nothing is no change, but the file is put right; a team that goes is left alone.
#[test]
fn t2_an_edit_that_says_nothing_new_is_written_over() {
    let (mut stage, _) = with_tasks(&[&[]]);
    let team = Name::new("team").unwrap();
    let input = |edit: Edit| Input::TaskEdited { team: team.clone(), task: 1, edit: edit.into() };
    stage.input(input(by(Some(Pending), None)));
    assert!(stage.step.records.is_empty());
    assert_eq!(stage.step.effects, [Effect::WriteTeam { team: team.clone() }]);
    stage.core.durable.apply(&crate::Record::TeamDeleting { team: team.clone() });
    stage.input(input(by(Some(Completed), None)));
    assert!(stage.step.records.is_empty() && stage.step.effects.is_empty());
}

#[test]
fn t4_a_task_made_outside_gets_its_number_when_that_is_free() {
    let (mut stage, _) = with_tasks(&[&[]]);
    edit(&mut stage, 2, made("theirs", &[1])).unwrap();
    assert_eq!(seen(&stage, 2), (Pending, None));
    edit(&mut stage, 5, made("theirs", &[])).unwrap();
    let is_taken = |denial| matches!(denial, Err(Denial::Invalid { field: "id", .. }));
    assert!(is_taken(edit(&mut stage, 4, made("before the last", &[]))));
    assert!(is_taken(edit(&mut stage, 6 + limits::TASK_GAP_MAX, made("far away", &[]))));
    assert!(is_taken(edit(&mut stage, u32::MAX, made("far away", &[]))));
    assert!(matches!(edit(&mut stage, 6, made("", &[])), Err(Denial::Invalid { .. })));
    assert!(matches!(edit(&mut stage, 6, made("x", &[6])), Err(Denial::NoSuch { .. })));
    stage.core.live.disk_full = true;
    assert_eq!(edit(&mut stage, 6, made("x", &[])), Err(Denial::DiskFull));
    stage.core.live.disk_full = false;
    let next = stage.user(Request::TaskCreate {
        team: "team".into(),
        subject: "ours".into(),
        description: String::new(),
        blocked_by: [].to_vec(),
    });
    assert_eq!(next, Ok(Answer::Task { team: Name::new("team").unwrap(), task: 6 }));
    for id in 7..=u32::try_from(limits::TASKS_PER_TEAM_MAX).unwrap() + 2 {
        edit(&mut stage, id, made("many", &[])).unwrap();
    }
    let full = edit(&mut stage, 1_003, made("one more", &[]));
    assert!(matches!(full, Err(Denial::Full { .. })), "{full:?}");
}
