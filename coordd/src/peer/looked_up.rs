//! What some requests need from the system before the core can decide: the user's own agent
//! definitions, whether there can be a scratchpad, which process is at the other end. It is looked
//! up off the reactor, since disks may be slow.

use std::path::PathBuf;

use coordd_core::agent::Process;
use coordd_core::input::Lineage;
use proto::error::{ErrorBody, ErrorCode};
use proto::event::Event;
use proto::request::{NewSession, Request};

use super::Routes;
use crate::process::identity::Identity;
use crate::process::lineage;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct LookedUp {
    /// The user's own agent definitions, for a new session.
    pub(crate) definitions: Vec<String>,
    /// The process at the other end of the connection, for one that joins.
    pub(crate) process: Option<Process>,
}

impl LookedUp {
    /// What this request needs. `pid` is the kernel's word on who connected.
    pub(super) async fn of(
        request: &Request,
        pid: Option<u32>,
        routes: &Routes,
    ) -> Result<Self, ErrorBody> {
        if let Request::SessionNew { session } = request {
            let definitions = definitions(session, routes).await?;
            return Ok(Self { definitions, process: None });
        }
        if let Request::Join { .. } = request {
            let process = pid.and_then(Identity::of).map(|it| it.recorded());
            return Ok(Self { definitions: Vec::new(), process });
        }
        Ok(Self::default())
    }
}

/// Where the program with this number comes from; nothing is said of one that the kernel does not tell of, or that has credentials.
pub(super) async fn lineage(pid: Option<u32>) -> Result<Lineage, ErrorBody> {
    let Some(pid) = pid else { return Ok(Lineage::default()) };
    let found = tokio::task::spawn_blocking(move || lineage::of(pid)).await;
    found.ok().flatten().ok_or_else(|| {
        // Its end of the connection may be another program's by now, of which nothing is known.
        ErrorBody::new(ErrorCode::Forbidden, "the program that connected has ended")
            .hint("connect from the program that asks")
    })
}

/// This also checks that a scratchpad can be created.
async fn definitions(session: &NewSession, routes: &Routes) -> Result<Vec<String>, ErrorBody> {
    let home = session.env.get("HOME").filter(|it| !it.is_empty()).cloned();
    let tmp = crate::environment::tmp(&session.env)
        .map_or_else(|| routes.tmp.as_ref().clone(), PathBuf::from);
    let with_scratchpad = session.scratchpad;
    let hub = routes.hub.clone();
    let look = move || {
        if with_scratchpad {
            let repaired = crate::scratchpad::check_root(&tmp).map_err(|error| {
                let why = coordd_common::chain(&error);
                ErrorBody::new(ErrorCode::Failed, why)
                    .hint("--no-scratchpad makes a session without one")
            })?;
            if let Some(repair) = repaired {
                tracing::warn!(%repair, "something was not as it should be");
                hub.publish("", Event::Warning { text: repair.to_string() });
            }
        }
        Ok(home.map(|home| crate::environment::definitions(&home)).unwrap_or_default())
    };
    tokio::task::spawn_blocking(look).await.unwrap_or_else(|_| Ok(Vec::new()))
}
