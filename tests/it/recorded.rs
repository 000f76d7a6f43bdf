//! What is kept of exchanges with the CLIs of others: there for each scene, and nothing in it that
//! must not be kept.

use std::collections::BTreeSet;

use serde_json::Value;
use tests::cli::{KEY, SCENES, recording};

/// What would tell a machine, a person or a key.
const PRIVATE: [&str; 6] = ["/tmp/", "/root", "/home/", "127.0.0.1", "sk-ant", KEY];

fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|it| texts(it, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                found.push(name.clone());
                texts(value, found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_scene_has_its_recording_and_nothing_else_is_there() {
    let wanted: BTreeSet<_> = SCENES.iter().map(tests::cli::Scene::path).collect();
    assert_eq!(wanted.len(), SCENES.len(), "two scenes with one name");
    let versions =
        std::fs::read_dir(recording::folder()).unwrap().map(|entry| entry.unwrap().path());
    let files = versions
        .flat_map(|version| std::fs::read_dir(version).unwrap())
        .map(|it| it.unwrap().path());
    assert_eq!(files.collect::<BTreeSet<_>>(), wanted);
    for scene in SCENES {
        let lines = recording::read(scene.version, scene.name);
        assert!(lines.len() > 1, "{scene:?}");
        for line in lines {
            let ways: Vec<_> = line.as_object().unwrap().keys().cloned().collect();
            let known = ["in", "out", "wire", "registry", "mcp", "exit"];
            assert!(ways.len() == 1 && known.contains(&ways[0].as_str()), "{line}");
        }
    }
}

#[test]
fn recordings_tell_nothing_of_a_machine_and_hold_no_prose() {
    for scene in SCENES {
        for line in recording::read(scene.version, scene.name) {
            let mut found = Vec::new();
            texts(&line, &mut found);
            for text in found {
                let private = PRIVATE.iter().find(|it| text.contains(**it));
                assert_eq!(private, None, "{scene:?}: {text}");
                assert!(recording::may_stay(&text), "{scene:?}: {text}");
            }
        }
    }
}
