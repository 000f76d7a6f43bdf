//! CRC-32C, the checksum that tells a damaged row from a whole one. It is made for every row that
//! is written and read, so it goes eight bytes at a time.

/// The polynomial of Castagnoli, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// What a byte does to the checksum, with so many zero bytes after it.
const TABLES: [[u32; 256]; 8] = tables();

/// The checksum of a row: its place in the order, and its text.
pub(super) fn of_row(seq: i64, body: &str) -> u32 {
    of(of(0, &seq.to_le_bytes()), body.as_bytes())
}

/// Goes on from the checksum of what came before.
fn of(before: u32, bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let crc = eights.iter().fold(!before, |crc, eight| {
        // The first four meet what came before; each byte has the table for its distance from the
        // end.
        let before = crc.to_le_bytes().into_iter().chain([0; 4]);
        let met = eight.iter().zip(before).map(|(byte, before)| byte ^ before);
        met.zip((0..8).rev()).fold(0, |sum, (byte, table)| sum ^ look_up(table, byte))
    });
    !rest.iter().fold(crc, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        (crc >> 8) ^ look_up(0, low ^ byte)
    })
}

#[expect(clippy::indexing_slicing, reason = "the table is a number, and a byte fits into 256")]
fn look_up(table: usize, byte: u8) -> u32 {
    TABLES[table][usize::from(byte)]
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses a bad index")]
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte as usize] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_check_value_comes_out() {
        assert_eq!(of(0, b"123456789"), 0xE306_9283);
        assert_eq!(of(of(0, b"1234"), b"56789"), 0xE306_9283);
    }

    /// Bit by bit, as the polynomial has it, for every length and every cut.
    #[test]
    fn any_length_and_any_cut_give_the_same() {
        let slow = |bytes: &[u8]| {
            !bytes.iter().fold(!0_u32, |crc, byte| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                    if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 }
                })
            })
        };
        let bytes: Vec<u8> = (0..100_u32).map(|it| (it * 37 % 251) as u8).collect();
        for end in 0..bytes.len() {
            assert_eq!(of(0, &bytes[..end]), slow(&bytes[..end]), "{end}");
            assert_eq!(of(of(0, &bytes[..end]), &bytes[end..]), slow(&bytes), "cut at {end}");
        }
    }

    #[test]
    fn rel41_a_flipped_bit_or_a_moved_row_changes_it() {
        let whole = of_row(7, "{\"a\":1}");
        assert_ne!(whole, of_row(7, "{\"a\":0}"));
        assert_ne!(whole, of_row(8, "{\"a\":1}"));
    }
}
