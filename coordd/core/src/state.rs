//! What is: data that names no rule. Nothing here imports anything of [`crate::rules`], which a test holds.

pub mod agent;
pub mod answer;
pub mod bridge;
pub mod denial;
mod durable;
pub mod effect;
pub mod far;
pub mod id;
pub mod input;
mod kept;
pub mod limits;
pub mod live;
pub mod message;
pub mod mode;
mod moment;
pub mod name;
pub mod outgoing;
pub mod permission;
mod rates;
pub mod record;
pub mod request;
pub mod role;
pub mod session;
pub mod settings;
mod snapshot;
pub mod task;
pub mod team;
pub mod terminal;
pub(crate) mod text;
mod written;

pub use durable::{Durable, Kept};
pub use effect::Effect;
pub use input::Input;
pub use live::Live;
pub use moment::Moment;
pub use record::Record;
