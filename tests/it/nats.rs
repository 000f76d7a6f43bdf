//! M-7, M-8, M-11 between machines: two daemons with their bridges, and a real NATS server between
//! them.

mod accounts;
mod builds;
mod hosted;
mod hostile;
mod hosts;
mod kept;
mod network;
mod reached;
mod secured;
mod setups;
mod soak;
