//! How long to wait before the model is asked again, and when to give up. Pure: no clock, no sleep,
//! no source of randomness of its own.

use jiff::Timestamp;

/// What bounds the waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    /// The first wait when the server does not say how long.
    pub(super) first_ms: u64,
    /// No wait of our own choice is longer.
    pub(super) cap_ms: u64,
    /// Requests in all, for one answer.
    pub(super) tries_max: u32,
    /// The limit when nobody answers at all: that is more often a wrong address than a short
    /// outage, and a person waits for the error.
    pub(super) unreachable_tries_max: u32,
    /// From the first request until no more is begun, waits and answers that failed included.
    pub(super) total_ms: u64,
}

/// With its seven waits a server gets about two minutes to recover; told waits may take ten.
pub(super) const POLICY: Policy = Policy {
    first_ms: 1_000,
    cap_ms: 60_000,
    tries_max: 8,
    unreachable_tries_max: 4,
    total_ms: 600_000,
};

/// What was done for this answer so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) tries: u32,
    /// Since the first request.
    pub(super) passed_ms: u64,
}

impl Policy {
    /// The wait before the next try, or `None` to give up. `random` is any number: it spreads
    /// agents that were turned away at the same moment.
    pub(super) fn wait_ms(
        &self,
        tally: Tally,
        unreachable: bool,
        told_ms: Option<u64>,
        random: u64,
    ) -> Option<u64> {
        let tries_max = if unreachable { self.unreachable_tries_max } else { self.tries_max };
        if tally.tries >= tries_max {
            return None;
        }
        let wait_ms = if let Some(told_ms) = told_ms {
            // Never sooner than told; up to a tenth later.
            told_ms.saturating_add(random % (told_ms / 10).clamp(1, 5_000))
        } else {
            let doublings = tally.tries.saturating_sub(1).min(20);
            let full_ms = self.first_ms.saturating_mul(1 << doublings).min(self.cap_ms);
            full_ms / 2 + random % (full_ms / 2).saturating_add(1)
        };
        let in_all_ms = tally.passed_ms.saturating_add(wait_ms);
        (in_all_ms <= self.total_ms).then_some(wait_ms)
    }
}

/// Reads `Retry-After`: seconds, or an HTTP date.
pub(super) fn retry_after_ms(value: &str, now: Timestamp) -> Option<u64> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(seconds.saturating_mul(1_000));
    }
    if let Ok(seconds) = value.parse::<f64>() {
        return seconds_to_ms(seconds);
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    // A date that is past means now.
    Some(u64::try_from(at.as_millisecond() - now.as_millisecond()).unwrap_or(0))
}

/// Reads a span as servers write it: `34.5s`, `7m12s`, `20ms`, `1h`.
pub(super) fn span_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut in_all = 0_u64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, behind) = rest.split_at(end);
        let amount = amount.parse::<f64>().ok()?;
        let (unit_s, behind) = [("ms", 0.001), ("h", 3_600.0), ("m", 60.0), ("s", 1.0)]
            .into_iter()
            .find_map(|(unit, seconds)| Some((seconds, behind.strip_prefix(unit)?)))?;
        in_all = in_all.saturating_add(seconds_to_ms(amount * unit_s)?);
        rest = behind;
    }
    (!text.trim().is_empty()).then_some(in_all)
}

fn seconds_to_ms(seconds: f64) -> Option<u64> {
    u64::try_from(std::time::Duration::try_from_secs_f64(seconds).ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    /// W-8: 429 and 529 wait as told.
    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        for (value, expected) in [
            ("0", Some(0)),
            ("7", Some(7_000)),
            (" 12 ", Some(12_000)),
            ("1.5", Some(1_500)),
            ("Fri, 02 Jan 2026 03:04:35 GMT", Some(30_000)),
            ("Fri, 02 Jan 2026 03:04:00 GMT", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("-3", None),
            ("NaN", None),
            ("inf", None),
            ("1e300", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after_ms(value, now()), expected, "{value:?}");
        }
    }

    #[test]
    fn spans_are_read_in_all_their_units() {
        for (text, expected) in [
            ("34.5s", Some(34_500)),
            ("7m12s", Some(432_000)),
            ("1h", Some(3_600_000)),
            ("20ms", Some(20)),
            ("20", None),
            ("s", None),
            ("", None),
            ("soon", None),
        ] {
            assert_eq!(span_ms(text), expected, "{text}");
        }
    }

    /// W-8: exponential from one second to sixty, with jitter between half and whole.
    #[test]
    fn untold_waits_double_up_to_the_cap() {
        for (tries, least, most) in [
            (1, 500, 1_000),
            (2, 1_000, 2_000),
            (3, 2_000, 4_000),
            (4, 4_000, 8_000),
            (5, 8_000, 16_000),
            (6, 16_000, 32_000),
            (7, 30_000, 60_000),
        ] {
            let tally = Tally { tries, passed_ms: 0 };
            assert_eq!(POLICY.wait_ms(tally, false, None, 0), Some(least));
            assert_eq!(POLICY.wait_ms(tally, false, None, most - least), Some(most));
            for random in [1, 77, 12_345, u64::MAX] {
                let wait = POLICY.wait_ms(tally, false, None, random).unwrap();
                assert!((least..=most).contains(&wait), "{tries}: {wait}");
            }
        }
    }

    #[test]
    fn a_told_wait_is_never_shortened() {
        let tally = Tally { tries: 1, passed_ms: 0 };
        for (told, random, expected) in [
            (0, 0, 0),
            (0, u64::MAX, 0),
            (7_000, 0, 7_000),
            (7_000, 699, 7_699),
            (7_000, 700, 7_000),
        ] {
            assert_eq!(POLICY.wait_ms(tally, false, Some(told), random), Some(expected));
        }
    }

    #[test]
    fn tries_and_time_are_bounded() {
        let tried = |tries, passed_ms| Tally { tries, passed_ms };
        for (tally, unreachable, told, goes_on) in [
            (tried(7, 0), false, None, true),
            (tried(8, 0), false, None, false),
            (tried(3, 0), true, None, true),
            (tried(4, 0), true, None, false),
            (tried(1, 0), false, Some(600_000), true),
            (tried(1, 1), false, Some(600_000), false),
            (tried(1, 0), false, Some(3_600_000), false),
            (tried(1, u64::MAX), false, Some(u64::MAX), false),
            (tried(2, 600_000), false, None, false),
        ] {
            let wait = POLICY.wait_ms(tally, unreachable, told, 0);
            assert_eq!(wait.is_some(), goes_on, "{tally:?} {unreachable} {told:?}");
        }
    }
}
