//! The box in which an agent's commands run. What a command may see and change is held by the kernel, so that no text of a command
//! has to be judged for it.
//!
//! ```text
//! caller                       coordd-sandbox
//!   policy --descriptor-->  read, checked
//!                           user, mount, pid, net and ipc namespaces  ---\
//!                           the view: read-only, few writable, secrets covered | level `Namespaces`
//!   status <--descriptor--  limits, no privileges, Landlock, seccomp  <--/ level `Landlock` begins here
//!                           exec of the command
//! ```
//!
//! This library is the policy and what a machine can do; the program beside it builds the box. A step that fails ends it with one
//! message, and the command does not run: there is no box with a wall missing. It must not decide what a command may do, and
//! knows no agent, no rule and no daemon.

mod abilities;
mod hosts;
mod policy;

pub use abilities::{Abilities, Obstacle};
pub use hosts::{HostError, Hosts};
pub use policy::{
    Bind, Level, Limits, Overlay, PROXY_PORT, Place, Policy, PolicyError, READY, VERSION,
};
