//! What a machine can do for a box, as `coordd-sandbox --probe` found it out by doing it.

use serde::{Deserialize, Serialize};

use crate::Level;

/// What a machine can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abilities {
    /// Why there are no namespaces; none when there are.
    pub no_namespaces: Option<Obstacle>,
    /// Why there is no Landlock; none when there is.
    pub no_landlock: Option<Obstacle>,
    /// Whether folders can have their changes kept apart.
    pub overlays: bool,
    /// Whether this process is in another's sandbox or a container already.
    pub inside: bool,
}

/// What is in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obstacle {
    /// The step that failed, and how.
    pub what: String,
    /// The setting that forbids it, and what to do about it, where that is known.
    #[serde(default)]
    pub remedy: String,
}

impl Abilities {
    /// The best box that there can be.
    #[must_use]
    pub fn level(&self) -> Option<Level> {
        if self.no_namespaces.is_none() {
            Some(Level::Namespaces)
        } else if self.no_landlock.is_none() {
            Some(Level::Landlock)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w13_the_best_level_that_there_is_is_taken() {
        let no = || Some(Obstacle::default());
        let with = |no_namespaces, no_landlock| Abilities {
            no_namespaces,
            no_landlock,
            ..Abilities::default()
        };
        assert_eq!(with(None, no()).level(), Some(Level::Namespaces));
        assert_eq!(with(no(), None).level(), Some(Level::Landlock));
        assert_eq!(with(no(), no()).level(), None);
    }
}
