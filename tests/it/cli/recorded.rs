//! The recordings in `tests/data/cli` are what the pinned CLIs do.

use tests::cli::{SCENES, Scene, recording};

/// Played again, each scene has lines of the same kinds with the same fields in them.
fn plays_as_recorded(scenes: impl Iterator<Item = &'static Scene>) {
    let mut different = Vec::new();
    let mut count = 0;
    for scene in scenes {
        let recorded = recording::shapes(&recording::read(scene.version, scene.name));
        let played = scene.record();
        if recording::shapes(&played) != recorded {
            let now = recording::shapes(&played);
            let lost: Vec<_> =
                recorded.iter().filter(|(kind, it)| now.get(*kind) != Some(it)).collect();
            let new: Vec<_> =
                now.iter().filter(|(kind, it)| recorded.get(*kind) != Some(it)).collect();
            different.push(format!(
                "{} {}:\nrecorded {lost:#?}\nnow {new:#?}",
                scene.version, scene.name
            ));
        }
        count += 1;
    }
    assert!(count > 0, "no scene");
    assert!(
        different.is_empty(),
        "record them again, look at the difference, and mend what reads it (tests/README.md says how):\n{}",
        different.join("\n")
    );
}

fn is_about_peers(scene: &Scene) -> bool {
    scene.name.starts_with("peer-")
}

#[test]
fn conversations_go_as_recorded() {
    plays_as_recorded(SCENES.iter().filter(|scene| !is_about_peers(scene)));
}

#[test]
fn messages_between_sessions_go_as_recorded() {
    plays_as_recorded(SCENES.iter().filter(|scene| is_about_peers(scene)));
}
