//! Ten bugs of CASES.md, planted one at a time: each is found within 1,000 seeds, by the oracle that is there for its rule.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString as _};
use std::sync::Once;

use super::bugs::{self, Bug};
use super::{run, std};

const SEEDS: u64 = 1_000;

/// The first seed that does not pass with this bug, and what was said.
fn first_found(bug: Bug) -> Option<(u64, String)> {
    // Failures that are looked for are not printed; those of the tests beside this one are.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |it| {
            if !bugs::is_any_planted() {
                loud(it);
            }
        }));
    });
    bugs::with(bug, || {
        (0..SEEDS).find_map(|seed| {
            let cause = std::panic::catch_unwind(|| run(seed, false)).err()?;
            let said = cause.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| cause.downcast_ref::<&str>().copied());
            Some((seed, said.unwrap_or_default().to_string()))
        })
    })
}

/// Test, row, and words of the oracle.
macro_rules! planted {
    ($($name:ident: $row:ident, $words:literal;)*) => {
        const ROWS: [(&str, Bug); 10] = [$((stringify!($name), Bug::$row)),*];

        $(
            #[test]
            fn $name() {
                let (seed, said) = first_found(Bug::$row).expect("no seed found it");
                std::println!("{:?}: seed {seed}: {said}", Bug::$row);
                assert!(said.contains($words), "seed {seed} failed for another reason: {said}");
            }
        )*
    };
}

planted! {
    a9_mail_is_removed_before_it_is_acknowledged: A9, "is not in the conversation";
    a13_mail_wakes_an_agent_that_was_stopped: A13, "A13: ";
    a17_a_later_message_overtakes_an_earlier_one: A17, "M-3: out of order";
    a21_the_sender_is_not_told_what_went_back: A21, "M-4: ";
    a33_an_earlier_process_ends_the_present_one: A33, "invariant 4: ";
    a39_a_repeated_call_has_its_effect_again: A39, "A39: ";
    b1_a_lead_at_work_is_not_notified: B1, "N-4: nobody was told";
    c13_a_removal_is_answered_and_not_recorded: C13, "C13: ";
    d13_processes_that_live_on_are_replaced: D13, "invariant 4: ";
    e3_a_run_that_has_ended_ends_again: E3, "rel-52: ";
}

#[test]
fn ten_different_rows_are_planted() {
    let rows: BTreeSet<_> = ROWS.iter().map(|(_, bug)| *bug).collect();
    assert_eq!(rows.len(), 10);
    for (name, bug) in ROWS {
        let row = std::format!("{bug:?}_").to_lowercase();
        assert!(name.starts_with(&row), "{name} plants {bug:?}");
    }
}
