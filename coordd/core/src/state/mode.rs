//! Which of the three modes a session has (G-1 to G-4).

pub use proto_words::agent::Mode;

use crate::state::denial::Denial;

/// Whether a variable's value means yes (G-2).
pub fn is_truthy(value: Option<&str>) -> bool {
    let Some(value) = value else { return false };
    let value = value.trim();
    ["1", "true", "yes", "on"].iter().any(|it| it.eq_ignore_ascii_case(value))
}

/// The mode that the environment alone would give.
pub fn from_variable(variable: Option<&str>) -> Mode {
    if is_truthy(variable) { Mode::Coordinator } else { Mode::Normal }
}

/// The mode of a new session. A word on the command line wins over the variable.
pub fn choose(flag: Option<&str>, variable: Option<&str>) -> Result<Mode, Denial> {
    let mode = match flag {
        None => from_variable(variable),
        Some("coordinator") => Mode::Coordinator,
        Some("normal") => Mode::Normal,
        Some("fork") => Mode::Fork,
        Some(_) => return Err(Denial::NoSuchMode),
    };
    match mode {
        Mode::Coordinator if cfg!(not(feature = "coordinator")) => {
            Err(Denial::CoordinatorNotCompiledIn)
        }
        Mode::Fork => Err(Denial::NotThereYet { what: "fork mode" }),
        Mode::Coordinator | Mode::Normal => Ok(mode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g2_truthy_values() {
        for yes in ["1", "true", "TRUE", " yes ", "On", "\ton\n"] {
            assert!(is_truthy(Some(yes)), "{yes:?}");
        }
        for no in ["", "0", "false", "no", "off", "2", "y", "enabled", "1 1"] {
            assert!(!is_truthy(Some(no)), "{no:?}");
        }
        assert!(!is_truthy(None));
    }

    #[test]
    #[cfg(feature = "coordinator")]
    fn g1_g2_the_flag_wins_over_the_variable() {
        assert_eq!(choose(None, Some("1")), Ok(Mode::Coordinator));
        assert_eq!(choose(None, None), Ok(Mode::Normal));
        assert_eq!(choose(Some("normal"), Some("1")), Ok(Mode::Normal));
        assert_eq!(choose(Some("coordinator"), None), Ok(Mode::Coordinator));
        assert_eq!(choose(Some("fork"), None), Err(Denial::NotThereYet { what: "fork mode" }));
        assert_eq!(choose(Some("boss"), None), Err(Denial::NoSuchMode));
    }

    #[test]
    #[cfg(not(feature = "coordinator"))]
    fn g3_a_build_without_the_feature_says_so() {
        assert_eq!(choose(Some("coordinator"), None), Err(Denial::CoordinatorNotCompiledIn));
        assert_eq!(choose(None, Some("1")), Err(Denial::CoordinatorNotCompiledIn));
        assert_eq!(choose(None, None), Ok(Mode::Normal));
    }
}
