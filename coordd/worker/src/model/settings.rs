//! Settings of a session for its model client, from the session's environment.

use super::endpoint::Environment;
use super::error::ModelError;

/// How long a server may be silent.
const SILENCE_VARIABLE: &str = "COORDD_SILENCE_S";
/// A server that thinks for an hour without a byte is one that has gone.
const SILENCE_S_MAX: u64 = 3_600;

/// The silence that is set, in milliseconds.
pub(super) fn silence_ms(environment: Environment<'_>) -> Result<Option<u64>, ModelError> {
    Ok(number(environment, SILENCE_VARIABLE, 1, SILENCE_S_MAX)?.map(|seconds| seconds * 1_000))
}

fn number(
    environment: Environment<'_>,
    variable: &'static str,
    least: u64,
    most: u64,
) -> Result<Option<u64>, ModelError> {
    let Some(text) = environment(variable).filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
        Ok(_) | Err(_) => Err(ModelError::BadSetting { variable, least, most }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fm3_the_silence_is_a_setting_and_a_bad_one_is_named() {
        let set = |text: &'static str| silence_ms(&move |_| Some(text.to_owned()));
        assert_eq!(set(" 7 ").unwrap(), Some(7_000));
        assert_eq!(set(" ").unwrap(), None);
        assert_eq!(silence_ms(&|_| None).unwrap(), None);
        for bad in ["0", "3601", "-1", "5m"] {
            let message = set(bad).unwrap_err().to_string();
            assert!(message.contains("COORDD_SILENCE_S") && message.contains("3600"), "{message}");
        }
    }
}
