//! Programs of the user's that joined: watched to their end, and ended alone. What such a program
//! started is the user's, and so is the terminal session that it is in.

use coordd_core::Input;
use coordd_core::agent::Process;
use coordd_core::id::AgentId;

use super::World;
use super::processes::identity_of;
use crate::process::{alone, watch as watching};

/// Stays with the process to its end.
pub(super) async fn watch(world: World, agent: AgentId, incarnation: u32, process: Process) {
    watching::adopted(identity_of(process)).await;
    tracing::info!(%agent, incarnation, "a program that had joined ended");
    let how = "its program having ended".to_owned();
    world.tell(Input::Exited { agent, incarnation, how, outcome: None }).await;
}

/// Ends the one process.
pub(super) async fn kill(world: World, agent: AgentId, incarnation: u32, process: Process) {
    let ended = alone::end(&identity_of(process)).await;
    tracing::info!(%agent, incarnation, ended, "a program that had joined was killed");
    let how = "being killed".to_owned();
    world.tell(Input::Exited { agent, incarnation, how, outcome: None }).await;
}
