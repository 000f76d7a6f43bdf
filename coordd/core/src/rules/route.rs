//! From what someone typed to what is meant: sessions by id, unique prefix or name; agents by name, id or `session/name`.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::state::agent::Agent;
use crate::state::denial::Denial;
use crate::state::id::SessionId;
use crate::state::session::Session;
use crate::state::{Durable, live::Caller};

/// How many names a refusal lists.
const LISTED_MAX: usize = 20;
/// The shortest prefix of an id that is taken for one.
const PREFIX_LEN_MIN: usize = 4;

/// The session that is meant.
pub fn session<'a>(durable: &'a Durable, given: &str) -> Result<&'a Session, Denial> {
    if let Some(exact) = durable.sessions.get(&SessionId(given.to_owned())) {
        return Ok(exact);
    }
    if let Some(named) = durable.sessions.values().find(|it| it.name.is(given)) {
        return Ok(named);
    }
    let fits = |it: &&Session| given.len() >= PREFIX_LEN_MIN && it.id.0.starts_with(given);
    let found: Vec<_> = durable.sessions.values().filter(fits).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Denial::NoSuchSession {
            given: given.to_owned(),
            known: durable
                .sessions
                .values()
                .map(|it| it.name.to_string())
                .take(LISTED_MAX)
                .collect(),
        }),
        many => Err(Denial::Ambiguous {
            given: given.to_owned(),
            candidates: many
                .iter()
                .map(|it| format!("{} ({})", it.id, it.name))
                .take(LISTED_MAX)
                .collect(),
        }),
    }
}

/// The agent of a session that is meant.
pub fn agent_in<'a>(
    durable: &'a Durable,
    session: &SessionId,
    given: &str,
) -> Result<&'a Agent, Denial> {
    let mut agents = durable.agents.values().filter(|it| it.session == *session);
    let wanted = real_name(given);
    agents.find(|it| it.name.is(wanted) || it.id.0 == given).ok_or_else(|| Denial::NoSuchAgent {
        given: given.to_owned(),
        known: nearest(durable.agents_of(session).iter().map(|it| it.name.to_string()), given),
    })
}

/// Leads have a second name.
fn real_name(given: &str) -> &str {
    if given.eq_ignore_ascii_case("team-lead") { "lead" } else { given }
}

/// The agent that is meant by `name`, id, `session/name`, or a session for its lead. An agent means those of its own session.
pub fn agent<'a>(durable: &'a Durable, caller: &Caller, given: &str) -> Result<&'a Agent, Denial> {
    if let Caller::Agent(id) = caller {
        let own = durable.agents.get(id).ok_or(Denial::BadCredentials)?;
        return agent_in(durable, &own.session, given);
    }
    if let Some((of, name)) = given.split_once('/') {
        return agent_in(durable, &session(durable, of)?.id, name);
    }
    let wanted = real_name(given);
    let found: Vec<_> =
        durable.agents.values().filter(|it| it.id.0 == given || it.name.is(wanted)).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let of = match session(durable, given) {
                Err(Denial::NoSuchSession { given, .. }) => {
                    let known = known_paths(durable, &given);
                    return Err(Denial::NoSuchAgent { given, known });
                }
                other => other?,
            };
            durable.lead_of(&of.id).ok_or(Denial::BadCredentials)
        }
        many => Err(Denial::Ambiguous {
            given: given.to_owned(),
            candidates: many.iter().map(|it| path(durable, it)).take(LISTED_MAX).collect(),
        }),
    }
}

/// `session/name`, which always means this agent.
pub fn path(durable: &Durable, agent: &Agent) -> String {
    let session = durable.sessions.get(&agent.session).map_or("?", |it| it.name.as_str());
    format!("{session}/{}", agent.name)
}

/// The agents of all sessions as `session/name`, those whose names look like what was typed first.
fn known_paths(durable: &Durable, given: &str) -> Vec<String> {
    let mut agents: Vec<_> = durable
        .agents
        .values()
        .map(|it| (distance(it.name.as_str(), given), path(durable, it)))
        .collect();
    agents.sort_unstable();
    agents.into_iter().map(|(_, path)| path).take(LISTED_MAX).collect()
}

/// All names, the ones that look like what was typed first.
fn nearest(names: impl Iterator<Item = String>, given: &str) -> Vec<String> {
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(|name| (distance(name, given), name.clone()));
    names.truncate(LISTED_MAX);
    names
}

/// How many letters have to change, at most; enough to sort by.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (slot, y) in row.iter_mut().skip(1).zip(&b) {
            let up = *slot;
            let changed = diagonal + usize::from(!x.eq_ignore_ascii_case(y));
            left = changed.min(up + 1).min(left + 1);
            diagonal = up;
            *slot = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a5_the_nearest_name_comes_first() {
        assert_eq!(distance("engineer", "enginer"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        let names = ["writer", "engineer", "lead"].map(String::from);
        assert_eq!(nearest(names.into_iter(), "enginer").first().unwrap(), "engineer");
    }
}
