//! The core in a made-up world: its invariants and promises over many seeds (rel-99).

mod agent;
mod oracle;
mod random;
mod workload;
mod world;

extern crate std;

use self::oracle::Oracle;
use self::world::World;
use crate::Input;
use crate::request::Request;
use crate::session::SessionState;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::ops::Range;

/// Wishes and faults of one run; between two of them the world goes on by `BETWEEN` small steps.
const ACTIONS: usize = 50;
const BETWEEN: usize = 12;

/// One world from its beginning to its end.
fn run(seed: u64, is_told: bool) {
    let mut world = World::new(seed);
    world.is_told = is_told;
    for _ in 0..ACTIONS {
        if world.random.one_in(5) {
            world.fault();
        } else {
            world.wish_something();
        }
        for _ in 0..BETWEEN {
            world.happen();
        }
    }
    world.is_calm = true;
    world.drive();
    // A user's wish may have been that the daemon ends.
    while world.has_exited {
        world.restart();
        world.drive();
    }
    world.compare();
    Oracle::at_rest(&world, false);

    // Whatever was stopped goes on, and every lead is spoken to: then nothing is left waiting anywhere.
    let sessions: Vec<_> =
        world.core.durable.sessions.values().map(|it| (it.id.to_string(), it.state)).collect();
    for (session, state) in sessions {
        if state == SessionState::Stopped {
            let session = session.clone();
            world.wish(0, Request::SessionResume { session, mode_variable: None });
        }
        world.wish(0, Request::Prompt { session, agent: None, text: "and now?".into() });
    }
    world.drive();
    world.compare();
    Oracle::at_rest(&world, true);

    let keep_agents = world.random.one_in(2);
    world.turn(Input::Terminate { keep_agents });
    world.drive();
    assert!(world.has_exited, "D-6: the daemon does not end: {:#?}", world.core);
    assert!(keep_agents || world.processes.is_empty(), "D-6: processes are left");
}

/// Runs many worlds; a failure says which one.
fn run_all(seeds: Range<u64>) {
    for seed in seeds {
        let result = std::panic::catch_unwind(|| run(seed, false));
        if let Err(cause) = result {
            let test = std::format!("COORDD_SIM_SEED={seed} cargo test -p coordd-core --features coordinator sim::one_seed");
            std::eprintln!("seed {seed} failed; again: {test}");
            std::panic::resume_unwind(cause);
        }
    }
}

/// The seed in `COORDD_SIM_SEED`, or 0; with `COORDD_SIM_TOLD` all that happens in it is printed.
#[test]
fn one_seed() {
    let seed = std::env::var("COORDD_SIM_SEED").ok();
    let is_told = std::env::var_os("COORDD_SIM_TOLD").is_some();
    run(seed.map_or(0, |it: String| it.parse().unwrap()), is_told);
}

#[test]
fn rel99_seeds_0() {
    run_all(0..5000);
}
