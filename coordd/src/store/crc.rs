//! CRC-32C, the checksum that tells a damaged row from a whole one.

/// The polynomial of Castagnoli, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

const TABLE: [u32; 256] = table();

/// The checksum of a row: its place in the order, and its text.
pub(super) fn of_row(seq: i64, body: &str) -> u32 {
    of(of(0, &seq.to_le_bytes()), body.as_bytes())
}

/// Goes on from the checksum of what came before.
fn of(before: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!before, |crc, byte| {
        let [low, ..] = (crc ^ u32::from(*byte)).to_le_bytes();
        (crc >> 8) ^ TABLE.get(usize::from(low)).copied().unwrap_or(0)
    })
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses a bad index")]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_check_value_comes_out() {
        assert_eq!(of(0, b"123456789"), 0xE306_9283);
        assert_eq!(of(of(0, b"1234"), b"56789"), 0xE306_9283);
    }

    #[test]
    fn rel41_a_flipped_bit_or_a_moved_row_changes_it() {
        let whole = of_row(7, "{\"a\":1}");
        assert_ne!(whole, of_row(7, "{\"a\":0}"));
        assert_ne!(whole, of_row(8, "{\"a\":1}"));
    }
}
