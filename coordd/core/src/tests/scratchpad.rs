//! What agents hear of their scratchpad (fR10).

use alloc::string::ToString as _;

use super::Stage;
use crate::Input;
use crate::state::message::Sender;

/// Who has a process is told, once until it has read it; nobody is started for it, and other sessions are not told.
#[test]
fn fr10_agents_with_a_process_are_told_what_is_gone() {
    let mut stage = Stage::with_session();
    let lead = stage.lead();
    stage.spawn(lead, "writer").unwrap();
    stage.session("other", "normal", 2);
    let session = stage.of("s").id.clone();
    let told = |stage: &Stage| {
        let all = stage.core.durable.messages.values();
        let to = all.filter(|it| it.from == Sender::System && it.summary.contains("scratchpad"));
        to.map(|it| it.to.0.clone()).collect::<alloc::vec::Vec<_>>()
    };
    let up: alloc::vec::Vec<_> = {
        let agents = stage.core.durable.agents_of(&session);
        let mut up: alloc::vec::Vec<_> =
            agents.iter().filter(|it| it.has_process()).map(|it| it.id.0.clone()).collect();
        up.sort();
        up
    };
    assert!(!up.is_empty());
    let path = "/pad".to_string();
    // One that was never there is made late, and nothing is lost.
    stage.input(Input::ScratchpadLost { session: session.clone(), path: path.clone() });
    assert!(told(&stage).is_empty());
    stage.input(Input::ScratchpadReady { session: session.clone(), path });
    for _ in 0..3 {
        stage.input(Input::ScratchpadLost { session: session.clone(), path: "/pad".to_string() });
        let mut to = told(&stage);
        to.sort();
        assert_eq!(to, up, "each once");
    }
    let all = stage.core.durable.messages.values();
    assert!(all.filter(|it| it.from == Sender::System).all(|it| it.text.contains("/pad")));
}
