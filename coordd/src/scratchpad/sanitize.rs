//! The name of the folder for a working directory, as Claude Code forms it.

/// Longest name that is used as it is.
const UNITS_MAX: usize = 200;

/// Every UTF-16 unit that is no ASCII letter or digit becomes `-`. A name over 200 units is cut
/// there, and a hash of the whole path tells it from others that begin the same.
pub(crate) fn sanitize(cwd: &str) -> String {
    let plain = |unit: u16| {
        char::from_u32(u32::from(unit)).filter(char::is_ascii_alphanumeric).unwrap_or('-')
    };
    let mut name: String = cwd.encode_utf16().map(plain).collect();
    if name.len() > UNITS_MAX {
        name.truncate(UNITS_MAX);
        name.push('-');
        name.push_str(&base36(hash(cwd).unsigned_abs()));
    }
    name
}

/// `h = h * 31 + unit` in 32 bits, over the UTF-16 units.
fn hash(text: &str) -> i32 {
    text.encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_all_but_letters_and_digits_become_dashes() {
        assert_eq!(
            sanitize("/tmp/example/w odd_Dir.x/ünï-é@1"),
            "-tmp-example-w-odd-Dir-x--n----1"
        );
        assert_eq!(sanitize("/a/b-c"), "-a-b-c");
        // Outside the first plane a character has two units.
        assert_eq!(sanitize("/\u{1F600}"), "---");
    }

    #[test]
    fn s1_a_long_path_is_cut_and_gets_a_hash_of_all_of_it() {
        let exact = format!("/{}", "a".repeat(199));
        assert_eq!(sanitize(&exact), format!("-{}", "a".repeat(199)));
        let long = format!("/{}", "a".repeat(200));
        let name = sanitize(&long);
        let (cut, digits) = name.split_at(201);
        assert_eq!(cut, format!("-{}-", "a".repeat(199)));
        assert_eq!(digits, base36(hash(&long).unsigned_abs()));
        assert_ne!(name, sanitize(&format!("{long}b")));
        let wide = sanitize(&format!("/{}", "\u{fc}".repeat(300)));
        assert!(wide.starts_with(&format!("{}-", "-".repeat(200))) && wide.len() <= 207, "{wide}");
    }

    /// Worked out by hand: 97; 97·31+98; (97·31+98)·31+99.
    #[test]
    fn s1_the_hash_is_the_sum_of_powers_of_31() {
        assert_eq!(hash(""), 0);
        assert_eq!(hash("a"), 97);
        assert_eq!(hash("ab"), 3105);
        assert_eq!(hash("abc"), 96_354);
        // Over 32 bits it wraps, here exactly to the least number.
        assert_eq!(hash("polygenelubricants"), i32::MIN);
    }

    #[test]
    fn s1_the_digits_are_those_of_base_36() {
        assert_eq!(base36(0), "0");
        assert_eq!(base36(35), "z");
        assert_eq!(base36(36), "10");
        assert_eq!(base36(96_354), "22ci");
        assert_eq!(base36(1 << 31), "zik0zk");
    }
}
