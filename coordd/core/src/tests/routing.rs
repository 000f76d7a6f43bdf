//! From what was typed to what is meant (M-1, L-1).

use super::{Stage, USER, accepted, to};
use crate::denial::Denial;
use crate::request::Request;
use crate::route;

fn two_sessions() -> Stage {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    for name in ["writer", "Reader"] {
        stage.spawn(lead, name).unwrap();
    }
    stage.session("other", "normal", 2);
    stage
}

#[test]
fn m1_l1_references_and_what_they_mean() {
    let stage = two_sessions();
    let durable = &stage.core.durable;
    let s = &stage.of("s").id;
    let id = stage.id("writer").0;
    for (given, name) in [
        ("writer", "writer"),
        ("WRITER", "writer"),
        ("reader", "Reader"),
        (id.as_str(), "writer"),
        ("team-lead", "lead"),
        ("Team-Lead", "lead"),
        ("lead", "lead"),
    ] {
        assert_eq!(route::agent_in(durable, s, given).unwrap().name.as_str(), name, "{given}");
    }
    for (given, name) in
        [("s/writer", "writer"), ("s/team-lead", "lead"), ("writer", "writer"), ("other", "lead")]
    {
        let found = route::agent(durable, &crate::live::Caller::User, given).unwrap();
        assert_eq!(found.name.as_str(), name, "{given}");
    }
    for given in [s.0.as_str(), &s.0[..4], &s.0[..8], "s", "S"] {
        assert_eq!(route::session(durable, given).unwrap().id, *s, "{given}");
    }
}

/// A prefix of an id is one only from four characters on, and only when nothing else has it.
#[test]
fn l1_a_prefix_must_be_long_and_unique() {
    let mut stage = two_sessions();
    let s = stage.of("s").clone();
    assert!(matches!(
        route::session(&stage.core.durable, &s.id.0[..3]),
        Err(Denial::NoSuchSession { .. })
    ));
    let mut twin = s.clone();
    twin.id.0.replace_range(30.., "ffffff");
    twin.name = crate::name::Name::new("twin").unwrap();
    stage.core.durable.apply(&crate::Record::SessionPut { session: twin.into() });
    let Err(Denial::Ambiguous { candidates, .. }) =
        route::session(&stage.core.durable, &s.id.0[..8])
    else {
        panic!("one of two was taken");
    };
    assert_eq!(candidates.len(), 2);
}

#[test]
fn m1_an_ambiguous_name_lists_the_candidates() {
    let mut stage = two_sessions();
    let denial = stage.user(Request::AgentShow { agent: "lead".into() }).unwrap_err();
    let Denial::Ambiguous { mut candidates, .. } = denial else { panic!("{denial:?}") };
    candidates.sort();
    assert_eq!(candidates, ["other/lead", "s/lead"]);
}

/// Case A5: a typo is refused with the nearest names, and makes nothing.
#[test]
fn a5_m1_an_unknown_name_lists_those_that_there_are() {
    let mut stage = two_sessions();
    let before = stage.core.durable.clone();
    let denial = stage.user(to("writr", "hello")).unwrap_err();
    let known = ["writer", "Reader", "lead"].map(Into::into).to_vec();
    assert_eq!(denial, Denial::NoSuchAgent { given: "writr".into(), known });
    assert_eq!(stage.step.records, []);
    assert!(before == stage.core.durable);

    let denial = stage.user(Request::AgentStop { agent: "writr".into() }).unwrap_err();
    let Denial::NoSuchAgent { known, .. } = denial else { panic!("{denial:?}") };
    assert_eq!(known[0], "s/writer");
    assert_eq!(known.len(), 4);
}

/// M-1, rel-9: an agent means those of its own session, whatever it calls them.
#[test]
fn m1_an_agent_reaches_nobody_outside_of_its_session() {
    let mut stage = two_sessions();
    let writer = stage.connect("writer");
    let other = stage.of("other").lead.0.clone();
    let lead_peer = stage.core.live.links[&stage.of("s").lead].peer.unwrap();
    for given in ["other", "other/lead", other.as_str()] {
        let denial = stage.ask(lead_peer, to(given, "psst")).unwrap_err();
        assert!(matches!(denial, Denial::NoSuchAgent { .. }), "{denial:?}");
        let denial = stage.ask(lead_peer, Request::AgentStop { agent: given.into() }).unwrap_err();
        assert!(matches!(denial, Denial::NoSuchAgent { .. }), "{denial:?}");
    }
    // A worker sends to nobody at all.
    let denial = stage.ask(writer, to("lead", "psst")).unwrap_err();
    assert!(matches!(denial, Denial::Forbidden { .. }), "{denial:?}");
}

/// C10: a name is one agent's for ever, so what is sent to it never reaches another.
#[test]
fn c10_m1_names_are_never_used_again() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "writer").unwrap();
    stage.send_call(USER, None, Request::AgentStop { agent: "s/writer".into() });
    stage.exit("writer", None);
    for name in ["writer", "WRITER"] {
        let denial = stage.spawn(lead, name).unwrap_err();
        let want = Denial::NameTaken { what: "agent", name: name.into() };
        assert_eq!(denial, want);
    }
    // Without a name it gets one of its own.
    stage.spawn(lead, "").unwrap();
    stage.spawn(lead, "").unwrap();
    for name in ["some-work", "some-work-2", "writer"] {
        stage.agent(name);
    }
    let id = accepted(stage.user(to("writer", "and on")));
    assert!(stage.agent("writer").has_mail(id));
}
