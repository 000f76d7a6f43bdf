//! Records again what passes between the real CLIs and their drivers: `cargo run -p tests --bin
//! record [NAME...]`.
//!
//! It writes `tests/data/cli/VERSION/NAME.jsonl`. Look at the difference before it is committed:
//! there may be something in it that must not be kept.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool for a person, who sees where it ends"
)]

use tests::cli::SCENES;

fn main() {
    let names: Vec<_> = std::env::args().skip(1).collect();
    for scene in SCENES
        .iter()
        .filter(|scene| names.is_empty() || names.iter().any(|name| name == scene.name))
    {
        let path = scene.path();
        println!("{}", path.display());
        let lines: Vec<_> = scene.record().iter().map(ToString::to_string).collect();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    }
}
