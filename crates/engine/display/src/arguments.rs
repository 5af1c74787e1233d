//! Replaces the numbers in a request by those of the display.

use crate::ids::Ids;
use crate::packets::{half, word};
use crate::table::{Act, Field, Row};

/// Why a request cannot be sent on.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// It ends before its arguments do.
    Short,
    Resource(u32),
    Visual(u32),
    Format(u32),
}

impl Unsendable {
    /// In words, behind the request's name.
    pub fn reason(&self) -> String {
        match self {
            Unsendable::Short => "is cut short".to_owned(),
            Unsendable::Resource(id) => format!("names resource {id:#x} of a client that was not recorded"),
            Unsendable::Visual(id) => format!("wants visual {id:#x}, which the display does not have"),
            Unsendable::Format(id) => {
                format!("wants picture format {id:#x}, which the display does not have")
            }
        }
    }
}

/// Replaces all that a row names, and gives the resources as the program named them.
pub fn translate(row: &Row, body: &mut [u8], ids: &Ids) -> Result<Vec<u32>, Unsendable> {
    let mut named = Vec::new();
    for field in row.fields {
        match *field {
            Field::Id(at) => named.push(resource(body, at, ids)?),
            Field::Ids(at, step) => {
                for at in (at..body.len()).step_by(step) {
                    named.push(resource(body, at, ids)?);
                }
            }
            Field::Visual(at) => {
                let id = word(body, at).ok_or(Unsendable::Short)?;
                put(body, at, ids.visual(id).ok_or(Unsendable::Visual(id))?);
            }
            Field::Format(at) => {
                let id = word(body, at).ok_or(Unsendable::Short)?;
                put(body, at, ids.format(id).ok_or(Unsendable::Format(id))?);
            }
            Field::Values(at, mask_bytes, resources) => {
                named.extend(values(body, at, mask_bytes, resources, ids)?);
            }
        }
    }
    match row.act {
        Act::Text(bytes) => fonts(body, bytes, ids)?,
        Act::Glyphs(bytes) => glyph_sets(body, bytes, ids)?,
        _ => {}
    }
    Ok(named)
}

fn put(body: &mut [u8], at: usize, value: u32) {
    if let Some(bytes) = body.get_mut(at..at + 4) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

/// Replaces one resource, and gives what it was.
fn resource(body: &mut [u8], at: usize, ids: &Ids) -> Result<u32, Unsendable> {
    let id = word(body, at).ok_or(Unsendable::Short)?;
    put(body, at, ids.resource(id).ok_or(Unsendable::Resource(id))?);
    Ok(id)
}

/// A list of values: one for each bit of the mask.
fn values(
    body: &mut [u8],
    at: usize,
    mask_bytes: usize,
    resources: u32,
    ids: &Ids,
) -> Result<Vec<u32>, Unsendable> {
    let mask = match mask_bytes {
        2 => half(body, at).map(u32::from),
        _ => word(body, at),
    };
    let mask = mask.ok_or(Unsendable::Short)?;
    let mut named = Vec::new();
    let given = (0..u32::BITS).filter(|bit| mask >> bit & 1 != 0);
    for (index, bit) in given.enumerate() {
        if resources >> bit & 1 != 0 {
            named.push(resource(body, at + 4 + index * 4, ids)?);
        }
    }
    Ok(named)
}

/// PolyText: instead of a text there may be a font, whose number begins with its highest byte.
fn fonts(body: &mut [u8], char_bytes: usize, ids: &Ids) -> Result<(), Unsendable> {
    const FONT: u8 = 255;
    let mut at = 12;
    while let Some(&length) = body.get(at) {
        if length == FONT {
            let bytes: [u8; 4] =
                body.get(at + 1..at + 5).and_then(|bytes| bytes.try_into().ok()).ok_or(Unsendable::Short)?;
            let id = u32::from_be_bytes(bytes);
            let real = ids.resource(id).ok_or(Unsendable::Resource(id))?;
            body[at + 1..at + 5].copy_from_slice(&real.to_be_bytes());
            at += 5;
        } else {
            at += 2 + usize::from(length) * char_bytes;
        }
    }
    Ok(())
}

/// CompositeGlyphs: instead of glyphs there may be the set from which the next ones are.
fn glyph_sets(body: &mut [u8], glyph_bytes: usize, ids: &Ids) -> Result<(), Unsendable> {
    const SET: u8 = 255;
    const ITEM_BYTES: usize = 8;
    let mut at = 24;
    while let Some(&length) = body.get(at) {
        at += ITEM_BYTES;
        if length == SET {
            resource(body, at, ids)?;
            at += 4;
        } else {
            at += (usize::from(length) * glyph_bytes).next_multiple_of(4);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core_requests::REQUESTS;
    use crate::table::find;

    const RECORDED: u32 = 0x20_0005;
    const REAL: u32 = 0x70_0001;

    fn ids() -> Ids {
        let mut ids = Ids::default();
        ids.set(RECORDED, REAL);
        ids
    }

    fn words(list: &[u32]) -> Vec<u8> {
        list.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn values_that_are_resources_are_replaced() {
        let create_gc = find(REQUESTS, 55).expect("CreateGC");
        // Function, foreground, font, clip mask: only the font is a resource that is given.
        let mask = 1 | 1 << 2 | 1 << 14 | 1 << 19;
        let mut body = words(&[RECORDED, RECORDED, mask, 3, RECORDED, RECORDED, 0]);
        assert_eq!(translate(create_gc, &mut body, &ids()), Ok(vec![RECORDED, RECORDED, RECORDED, 0]));
        assert_eq!(body, words(&[REAL, REAL, mask, 3, RECORDED, REAL, 0]));
        let mut cut = words(&[RECORDED, RECORDED, mask, 3]);
        assert_eq!(translate(create_gc, &mut cut, &ids()), Err(Unsendable::Short));
        let mut foreign = words(&[RECORDED, 0x40_0000, 0]);
        assert_eq!(translate(create_gc, &mut foreign, &ids()), Err(Unsendable::Resource(0x40_0000)));
    }

    #[test]
    fn fonts_and_sets_of_glyphs_between_texts_are_replaced() {
        let text = find(REQUESTS, 74).expect("PolyText8");
        let mut body = words(&[RECORDED, RECORDED, 0]);
        body.extend([2, 0, b'a', b'b', 255]);
        body.extend(RECORDED.to_be_bytes());
        body.extend([1, 0, b'c']);
        assert_eq!(translate(text, &mut body, &ids()), Ok(vec![RECORDED, RECORDED]));
        assert_eq!(body[17..21], REAL.to_be_bytes());
        let glyphs = Row { number: 23, name: "CompositeGlyphs8", act: Act::Glyphs(1), fields: &[] };
        let mut body = vec![0; 24];
        body.extend([3, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 0, 255, 0, 0, 0, 0, 0, 0, 0]);
        body.extend(RECORDED.to_le_bytes());
        assert_eq!(translate(&glyphs, &mut body, &ids()), Ok(Vec::new()));
        assert_eq!(body[44..48], REAL.to_le_bytes());
    }
}
