//! Numbers as people read them: durations, tokens, bytes, ages, plurals.

/// The wall clock, in milliseconds.
pub(crate) use coordd_common::wall_ms as now_ms;
/// Appends formatted text to a string, which cannot fail.
#[macro_export]
macro_rules! push {
    ($text:expr, $($arg:tt)*) => {{
        use std::fmt::Write as _;
        let _fits = write!($text, $($arg)*);
    }};
}

/// A duration: `0.8s`, `12s`, `3m05s`, `2h10m`, `3d4h`.
pub(crate) fn duration(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..10 => format!("{s}.{}s", ms % 1000 / 100),
        10..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d{}h", s / 86_400, s % 86_400 / 3600),
    }
}

/// How long ago a wall-clock time is: `just now`, `12s ago`, `3m ago`, `5h ago`, `2d ago`.
pub(crate) fn ago(now_ms: u64, then_ms: u64) -> String {
    let s = now_ms.saturating_sub(then_ms) / 1000;
    match s {
        0..3 => "just now".to_owned(),
        3..60 => format!("{s}s ago"),
        60..3600 => format!("{}m ago", s / 60),
        3600..86_400 => format!("{}h ago", s / 3600),
        _ => format!("{}d ago", s / 86_400),
    }
}

/// A number of tokens: `950`, `1.2k`, `34k`, `1.2M`.
pub(crate) fn tokens(n: u64) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..10_000 => format!("{}.{}k", n / 1000, n % 1000 / 100),
        10_000..1_000_000 => format!("{}k", n / 1000),
        _ => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}

/// Millionths of a dollar: `$1.20`, `$0.0012`, and nothing for none.
pub(crate) fn cost(micro_usd: u64) -> String {
    match micro_usd {
        0 => String::new(),
        1..10_000 => format!("$0.{:04}", micro_usd.div_ceil(100)),
        _ => format!("${}.{:02}", micro_usd / 1_000_000, micro_usd % 1_000_000 / 10_000),
    }
}

/// A size: `812 B`, `1.5 KiB`, `3.0 MiB`, `2.1 GiB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut tenths = n.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS.get(unit).unwrap_or(&"TiB"))
}

/// `1 tool`, `3 tools`.
pub(crate) fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// A wall-clock time as `2026-01-31T12:00:00Z`.
pub(crate) fn timestamp(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| "?".to_owned(), |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A wall-clock time of day, UTC.
pub(crate) fn clock(ms: u64) -> String {
    let s = ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", s / 3600, s % 3600 / 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let shown: Vec<_> =
            [0, 812, 9_999, 12_345, 185_000, 7_800_000, 273_600_000].map(duration).into();
        assert_eq!(shown, ["0.0s", "0.8s", "9.9s", "12s", "3m05s", "2h10m", "3d4h"]);
    }

    #[test]
    fn ages() {
        let shown: Vec<_> = [0, 2, 12, 185, 7_800, 273_600].map(|s| ago(s * 1000, 0)).into();
        assert_eq!(shown, ["just now", "just now", "12s ago", "3m ago", "2h ago", "3d ago"]);
        assert_eq!(ago(0, 5), "just now");
    }

    #[test]
    fn token_counts() {
        let shown: Vec<_> = [0, 950, 1_249, 34_900, 1_234_567].map(tokens).into();
        assert_eq!(shown, ["0", "950", "1.2k", "34k", "1.2M"]);
    }

    #[test]
    fn sizes() {
        let shown: Vec<_> = [812, 1536, 3 << 20, u64::MAX].map(bytes).into();
        assert_eq!(shown, ["812 B", "1.5 KiB", "3.0 MiB", "1677721.5 TiB"]);
    }

    #[test]
    fn times() {
        assert_eq!(timestamp(1_000), "1970-01-01T00:00:01Z");
        assert_eq!(clock(86_400_000 + 3_661_000), "01:01:01");
        assert_eq!(count(1, "tool") + &count(2, "tool"), "1 tool2 tools");
    }
}
