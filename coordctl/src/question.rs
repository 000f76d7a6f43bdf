//! Questions to the user, for every view: what is drawn, what is typed at it, and what that answers.
//!
//! ```text
//!   PermissionView --card--> text             what runs is what is shown
//!   what is typed  --desk--> answer | words   an answer belongs to the question that is drawn
//! ```
//!
//! It draws and judges; it asks coordd nothing, and knows no terminal.

pub(crate) mod answer;
pub(crate) mod card;
pub(crate) mod desk;
mod visible;
