//! A session: one conversation with a lead, in one working directory.
//!
//! ```text
//!   new ──▶ Live ──stop──▶ Stopped ──remove──▶ (gone)
//!             ▲───resume──────┘
//! ```

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use proto_words::view::SessionState;
use serde::{Deserialize, Serialize};

use crate::state::agent::Runtime;
use crate::state::bridge::Allowed;
use crate::state::denial::Denial;
use crate::state::id::{AgentId, SessionId};
use crate::state::message::Outside;
use crate::state::mode::Mode;
use crate::state::name::Name;
use crate::state::settings::{Model, Permissions, Setting};
use crate::state::written;

/// A session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its name, unique among sessions.
    pub name: Name,
    /// Its mode, for ever.
    pub mode: Mode,
    /// Its absolute working directory.
    pub cwd: String,
    /// When it was made.
    pub created_ms: u64,
    /// Whether its agents may run.
    pub state: SessionState,
    /// Its lead.
    pub lead: AgentId,
    /// The model; none where no agent is native.
    pub model: Setting<Model>,
    /// What drives its workers, where the call that starts one does not say.
    #[serde(default, skip_serializing_if = "written::is_default")]
    pub runtime: Runtime,
    /// The rules about approvals.
    pub permissions: Setting<Permissions>,
    /// Rules that the user allowed for good.
    #[serde(default)]
    pub rules_learned: Vec<String>,
    /// Whether workers get the small set of tools (G-6).
    #[serde(default)]
    pub simple_tools: bool,
    /// Where its scratchpad is, when it has one.
    #[serde(default)]
    pub scratchpad: Option<String>,
    /// Definitions that the user added to the built-in ones (G-5).
    #[serde(default)]
    pub definitions: Vec<String>,
    /// Model calls in one run of a worker.
    pub worker_turns: u32,
    /// Wall time of one run of a worker.
    pub worker_run_ms: u64,
    /// Workers with a process at once.
    pub workers_running_max: u32,
    /// The structured result, as JSON text, once the lead gave one.
    #[serde(default)]
    pub output: Option<String>,
    /// Whether its agents' permissions are bypassed.
    #[serde(default, skip_serializing_if = "written::is_default")]
    pub bypasses: bool,
    /// What becomes of messages from outside (M-8); none means by what the two sides may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbound: Option<Inbound>,
    /// What it may exchange with other daemons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bridged: Vec<Allowed>,
    /// The daemon whose workers it is for; see `rules/host.rs`. Such a session has no conversation of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_for: Option<String>,
    /// Who is to be told, once, when the lead has nothing to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watchers: Vec<Outside>,
}

/// What becomes of messages from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inbound {
    /// They are delivered.
    Accept,
    /// They wait for the user.
    Hold,
    /// They go back.
    Refuse,
}

impl Inbound {
    /// By its word; none is by what the two sides may do.
    pub fn from_word(word: &str) -> Result<Option<Self>, Denial> {
        Ok(match word {
            "" | "auto" => None,
            "accept" => Some(Self::Accept),
            "hold" => Some(Self::Hold),
            "refuse" => Some(Self::Refuse),
            _ => {
                let why = "is accept, hold, refuse or auto".to_owned();
                return Err(Denial::Invalid { field: "cross_session_inbound", why });
            }
        })
    }
}

impl Session {
    /// Why no agent can be started with its settings, where that is so.
    pub(crate) fn unreadable(&self) -> Option<String> {
        let model = self.model.read().err().map(|why| ("model", why));
        let (what, why) =
            model.or_else(|| Some(("permission rules", self.permissions.read().err()?)))?;
        let name = &self.name;
        Some(format!(
            "this build of coordd cannot read the {what} of session {name} ({why}): use the build that made it, or make the session anew"
        ))
    }

    /// Whether its agents may write to a daemon.
    pub(crate) fn may_write_to(&self, peer: &str) -> bool {
        self.bridged.iter().any(|it| it.peer == peer && it.outbound)
    }

    /// Whether it hears a daemon's sessions.
    pub fn hears(&self, peer: &str) -> bool {
        self.bridged.iter().any(|it| it.peer == peer && it.inbound)
    }

    /// Whether it is for the workers of another machine. Nobody speaks for it, and its lead reads nothing.
    pub(crate) fn is_host(&self) -> bool {
        self.host_for.is_some()
    }

    /// What becomes of a message from there. Without a setting, who may do as much or less is heard; a session whose permissions
    /// are bypassed would do for others what their own users would have to allow (rel-21).
    pub fn inbound_from(&self, from: &Outside) -> Inbound {
        let held = self.bypasses && !from.bypasses;
        self.inbound.unwrap_or(if held { Inbound::Hold } else { Inbound::Accept })
    }
}
