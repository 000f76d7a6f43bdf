//! Programs in front of a command that do not change what it may do: an allow rule for the command covers it with them.

use super::shell::Word;

/// The command behind `timeout`, `nice`, `nohup` or `stdbuf`, if all in front of it is understood.
pub(super) fn wrapped(words: &[Word]) -> Option<&[Word]> {
    let [program, rest @ ..] = words else { return None };
    if !program.is_bare() {
        return None;
    }
    let rest = match program.raw.as_str() {
        "timeout" => {
            let rest = without_options(rest, &["-k", "-s"], &TIMEOUT_ALONE, &TIMEOUT_VALUED)?;
            let (time, rest) = rest.split_first()?;
            is_duration(&time.raw).then_some(rest)?
        }
        "nice" => without_options(rest, &["-n"], &[], &["--adjustment="])?,
        "nohup" => rest,
        "stdbuf" => without_options(rest, &["-i", "-o", "-e"], &[], &["-i", "-o", "-e"])?,
        _ => return None,
    };
    // No option of theirs is left, and no assignment, which would be the program's name.
    let begins = rest.first()?;
    (begins.is_bare() && !begins.raw.starts_with('-')).then_some(rest)
}

const TIMEOUT_ALONE: [&str; 3] = ["--foreground", "--preserve-status", "-v"];
const TIMEOUT_VALUED: [&str; 2] = ["--kill-after=", "--signal="];

/// Skips options that are listed: with the next word as value, alone, or beginning so.
fn without_options<'a>(
    words: &'a [Word],
    valued: &[&str],
    alone: &[&str],
    attached: &[&str],
) -> Option<&'a [Word]> {
    let mut words = words;
    while let [first, rest @ ..] = words {
        let raw = first.raw.as_str();
        let is_attached =
            attached.iter().any(|start| raw.starts_with(start) && raw.len() > start.len());
        if valued.contains(&raw) {
            let value = rest.first()?;
            let is_value = value.is_bare() && !value.raw.starts_with('-');
            words = is_value.then(|| rest.get(1..))??;
        } else if first.is_bare() && (alone.contains(&raw) || is_attached) {
            words = rest;
        } else {
            break;
        }
    }
    Some(words)
}

fn is_duration(text: &str) -> bool {
    let digits = text.trim_end_matches(['s', 'm', 'h', 'd']);
    text.len() <= digits.len() + 1
        && !digits.is_empty()
        && digits.chars().all(|character| character.is_ascii_digit() || character == '.')
}
