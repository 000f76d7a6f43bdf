//! What is started, and what an agent is blamed for.

use alloc::string::String;

use super::{Stage, model, to};
use crate::agent::{Class, Life, Status};
use crate::effect::Event;
use crate::settings::{Permissions, Setting};
use crate::{Effect, Input, Record, limits};

fn starts(stage: &Stage) -> usize {
    stage.step.effects.iter().filter(|it| matches!(it, Effect::Spawn { .. })).count()
}

/// The session as a later build may have written it.
fn rewrite(stage: &mut Stage, model: &str, permissions: &str) {
    let mut session = stage.of("s").clone();
    session.model = Setting::from(String::from(model));
    session.permissions = Setting::from(String::from(permissions));
    stage.core.durable.apply(&Record::SessionPut { session: session.into() });
}

#[test]
fn fp20_nothing_is_started_with_settings_that_this_build_cannot_read() {
    let readable = String::from(Setting::of(Some(model())));
    for (model, permissions, what) in [
        (readable.as_str(), r#"{"mode":"plan","deny":[{"rule":"Write"}]}"#, "permission rules"),
        (readable.as_str(), r#"{"mode":"plan","later":true}"#, "permission rules"),
        (r#"{"provider":"somebody"}"#, "{}", "model"),
    ] {
        let mut stage = Stage::with_session();
        rewrite(&mut stage, model, permissions);
        let message = stage.prompt("lead");
        assert_eq!(starts(&stage), 0, "{permissions}");
        let lead = stage.agent("lead");
        let last = &lead.last.as_ref().expect("its run has failed").outcome;
        assert_eq!((last.status, last.class), (Status::Failed, Some(Class::Fatal)));
        assert!(last.reason.contains(what) && last.reason.contains('s'), "{}", last.reason);
        assert_eq!(lead.life, Life::Down);
        assert!(stage.message(message).reason.contains("cannot read"), "its prompt went back");
        let warns = |it: &Effect| matches!(it, Effect::Publish { event: Event::Warning(text), .. } if text.contains(what));
        assert!(stage.step.effects.iter().any(warns), "the user is told");
        // With settings that can be read it goes on.
        rewrite(&mut stage, &readable, "{}");
        stage.prompt("lead");
        assert_eq!(starts(&stage), 1);
    }
}

#[test]
fn fp20_rules_that_can_be_read_are_those_that_were_given() {
    let stage = Stage::with_session();
    assert_eq!(stage.of("s").permissions.read(), Ok(Some(&Permissions::default())));
    assert_eq!(stage.of("s").model.read(), Ok(Some(&model())));
}

/// fR4: the daemon dies while it starts the worker's process, which goes with it, as often as you like.
#[test]
fn fr4_a_worker_is_not_blamed_for_ends_that_no_daemon_saw() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    for _ in 0..2 * limits::CRASHES_MAX {
        assert_eq!(stage.agent("w").life, Life::Up);
        stage.restart();
        stage.exit("w", None);
    }
    let worker = stage.agent("w");
    assert_eq!((worker.crashes, worker.runs, &worker.last), (0, 0, &None));
    assert_eq!(worker.life, Life::Up, "it is started once more");

    // Adopted and seen no more before it came back: that is not known to be its fault either.
    stage.connect("w");
    stage.restart();
    stage.exit("w", None);
    assert_eq!(stage.agent("w").crashes, 0);
}

#[test]
fn b8_fr4_a_worker_that_was_met_is_blamed_for_its_ends() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    for crashes in 1..limits::CRASHES_MAX {
        stage.connect("w");
        stage.exit("w", None);
        assert_eq!(stage.agent("w").crashes, crashes);
    }
    stage.connect("w");
    stage.exit("w", None);
    let last = &stage.agent("w").last.as_ref().unwrap().outcome;
    assert_eq!((last.status, last.class), (Status::Failed, Some(Class::Retryable)));
    assert!(last.reason.contains("in the middle of its work"), "{}", last.reason);
}

/// A program that never says hello is not started for ever.
#[test]
fn fr4_a_process_that_never_begins_is_given_up_as_such() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "w").unwrap();
    stage.exit("w", None);
    // A hello in between is a beginning.
    stage.connect("w");
    stage.exit("w", None);
    for _ in 1..limits::CRASHES_MAX {
        stage.exit("w", None);
        assert_eq!(stage.agent("w").life, Life::Up);
    }
    stage.exit("w", None);
    let worker = stage.agent("w");
    let last = &worker.last.as_ref().expect("given up").outcome;
    assert_eq!((last.status, last.class), (Status::Failed, Some(Class::Fatal)));
    assert!(last.reason.contains("before it could begin"), "{}", last.reason);
    // Somebody who speaks to it begins the count anew.
    stage.ask(lead, to("w", "again")).unwrap();
    stage.exit("w", None);
    assert_eq!(stage.agent("w").life, Life::Up);
    stage.input(Input::Tick);
}
