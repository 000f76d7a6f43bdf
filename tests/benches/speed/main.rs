//! Figures beside their floors. `tests/benches/run` runs it, `README.md` keeps the last table.
//! Nothing fails here because it is slow.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::format_push_string,
    reason = "a benchmark fails by panicking, prints, and counts in floating point"
)]

mod floor;
mod messages;
mod processes;
mod table;

use std::process::ExitCode;

use table::Table;

type Part = (&'static str, fn(&mut Table));

/// The parts, in the order of the table.
const PARTS: [Part; 5] = [
    ("messages", messages::measure),
    ("starts", processes::starts),
    ("idle", processes::idle),
    ("replay", processes::replay),
    ("demo", processes::demo),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [first, rest @ ..] = arguments.as_slice()
        && first == "floor"
    {
        return floor::run(rest);
    }
    let mut table = Table::default();
    for (name, measure) in PARTS {
        if arguments.is_empty() || arguments.iter().any(|argument| argument == name) {
            measure(&mut table);
        }
    }
    print!("{}", table.text());
    ExitCode::SUCCESS
}
