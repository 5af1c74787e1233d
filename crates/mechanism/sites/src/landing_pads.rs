//! Where exceptions enter functions, from their exception tables (the "LSDA" of the Itanium
//! C++ ABI's exception handling, as gcc, clang and rustc write it).
//!
//! Deliberately absent: tables that say where their landing pads begin, which compilers write
//! for functions in several pieces. They count as not readable.

use gimli::{EndianSlice, LittleEndian, Reader};

use crate::image::Image;

/// Left out (DW_EH_PE_omit).
const OMITTED: u8 = 0xff;
/// A number of as many bytes as it needs (DW_EH_PE_uleb128).
const ULEB128: u8 = 0x01;
/// A number of four bytes (DW_EH_PE_udata4).
const FOUR_BYTES: u8 = 0x03;

/// The addresses at which exceptions enter the function that begins at `start` and has its
/// exception table at `table`. `None`: it cannot be read.
pub(crate) fn of_function(image: &Image<'_>, start: u64, table: u64) -> Option<Vec<u64>> {
    let region = image.loaded_at(table)?;
    parse(region.slice(table, region.end()), start)
}

fn parse(bytes: &[u8], start: u64) -> Option<Vec<u64>> {
    let mut reader = EndianSlice::new(bytes, LittleEndian);
    if reader.read_u8().ok()? != OMITTED {
        return None;
    }
    if reader.read_u8().ok()? != OMITTED {
        // Where the types are.
        reader.read_uleb128().ok()?;
    }
    let encoding = reader.read_u8().ok()?;
    let length = usize::try_from(reader.read_uleb128().ok()?).ok()?;
    let mut calls = reader.split(length).ok()?;
    let mut found = Vec::new();
    while !calls.is_empty() {
        let [_, _, pad] =
            [number(&mut calls, encoding)?, number(&mut calls, encoding)?, number(&mut calls, encoding)?];
        // What is to be done there.
        calls.read_uleb128().ok()?;
        if pad != 0 {
            found.push(start.checked_add(pad)?);
        }
    }
    Some(found)
}

fn number(reader: &mut EndianSlice<'_, LittleEndian>, encoding: u8) -> Option<u64> {
    match encoding {
        ULEB128 => reader.read_uleb128().ok(),
        FOUR_BYTES => reader.read_u32().ok().map(u64::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn pads_follow_the_function() {
        let table = [0xff, 0xff, 0x01, 8, 0, 4, 0, 0, 4, 4, 0x90, 1, 9, 9];
        assert_eq!(parse(&table, 0x1000), None, "the table ends within an entry");
        let table = [0xff, 0xff, 0x01, 9, 0, 4, 0, 0, 4, 4, 0x90, 1, 1, 9, 9];
        assert_eq!(parse(&table, 0x1000), Some(vec![0x1090]));
    }

    #[test]
    fn numbers_have_four_bytes() {
        let mut table = vec![0xff, 0x9b, 0x10, 0x03, 13];
        table.extend([0u32, 5, 0x44].iter().flat_map(|number| number.to_le_bytes()));
        table.push(0);
        assert_eq!(parse(&table, 0x1000), Some(vec![0x1044]));
        table[3] = 0x1b;
        assert_eq!(parse(&table, 0x1000), None, "distances are no offsets");
        table[0] = 0x1b;
        assert_eq!(parse(&table, 0x1000), None);
    }
}
