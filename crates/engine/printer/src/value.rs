//! Values as they are shown.

use crate::cpp::{self, StandsFor};
use crate::debug_file::DieId;
use crate::dynamic;
use crate::lists::{self, Count, List};
use crate::nodes::{self, Nodes, Way};
use crate::recorded::{Bytes, Image};
use crate::shown::Shown;
use crate::types::{self, Type};
use crate::variants::{self, Variants};

/// Most elements of an array that are shown.
const ELEMENTS_MAX: u64 = 200;
const DEPTH_MAX: u32 = 20;

pub(crate) fn show(
    file: Image<'_>,
    of: &Type,
    bytes: &Bytes,
    offset: u64,
    bits: Option<(u64, u64)>,
    depth: u32,
) -> Shown {
    if depth < DEPTH_MAX
        && let Some(nodes) = nodes::of_value(&file, of)
    {
        return show_nodes(file, &nodes, bytes, offset, depth);
    }
    if let Type::Struct(id) = of
        && depth < DEPTH_MAX
    {
        return show_structure(file, *id, bytes, offset, depth);
    }
    if let Type::Array(element, counts) = of
        && depth < DEPTH_MAX
    {
        return show_array(file, &types::element(&file, *element, counts), counts, bytes, offset, depth);
    }
    if *of == Type::Void {
        return Shown::Missing(bytes.why.clone());
    }
    let size = match bits {
        Some((first, count)) => (first + count).div_ceil(8),
        None => types::bytes_of(&file, of),
    };
    let Some(data) = bytes.get(offset, size) else { return bytes.missing() };
    show_scalar(file, of, data, bits, || {
        bytes.texts.iter().find(|(at, _)| *at == offset).and_then(|(_, text)| text.clone())
    })
}

fn show_structure(file: Image<'_>, id: DieId, bytes: &Bytes, offset: u64, depth: u32) -> Shown {
    if let Some(list) = lists::of_structure(&file, id) {
        return show_list(file, id, &list, bytes, offset, depth);
    }
    if let Some((_, interface)) = bytes.interfaces.iter().find(|(at, _)| *at == offset)
        && dynamic::interface(&file, id).is_some()
    {
        return match interface {
            Ok((of, value)) => show_interface(file, *of, value, bytes.number(offset + 8, 8), depth),
            Err(why) => Shown::Missing(why.clone()),
        };
    }
    if let Some([invoker, functor]) = dynamic::callable(&file, id) {
        let word = |at| bytes.number(offset + at, 8);
        let (Some(invoker), Some(functor)) = (word(invoker), word(functor)) else { return bytes.missing() };
        let in_file = |address: u64| address.wrapping_sub(file.bias);
        let called = || dynamic::called(&file, in_file(invoker), in_file(functor));
        return match invoker {
            0 => Shown::Name("nullptr".to_owned(), 0),
            _ => called().map_or(Shown::Pointer(invoker, None), |name| Shown::Name(name, 0)),
        };
    }
    match cpp::stands_for(&file, id) {
        Some(StandsFor::Maybe { has_value, .. }) if bytes.number(offset + has_value, 1) == Some(0) => {
            return Shown::Name("nullopt".to_owned(), 0);
        }
        Some(StandsFor::Same(value) | StandsFor::Maybe { value, .. }) => {
            return show(file, &value.of, bytes, offset + value.offset, value.bits, depth + 1);
        }
        Some(StandsFor::All(values)) => {
            let one = |value: &types::Member| {
                show(file, &value.of, bytes, offset + value.offset, value.bits, depth + 1)
            };
            return Shown::List(values.iter().map(one).collect());
        }
        None => {}
    }
    if let Some(variants) = variants::of_structure(&file, id) {
        return show_variant(file, &variants, bytes, offset, depth);
    }
    let show_member = |member: types::Member| {
        let value = show(file, &member.of, bytes, offset + member.offset, member.bits, depth + 1);
        (member.name, value)
    };
    // What it derives from may have nothing.
    let has_something =
        |member: &types::Member| !member.name.is_empty() || !variants::is_empty(&file, &member.of);
    Shown::Members(types::members(&file, id).into_iter().filter(has_something).map(show_member).collect())
}

/// A list, or a text.
fn show_list(file: Image<'_>, id: DieId, list: &List, bytes: &Bytes, offset: u64, depth: u32) -> Shown {
    let at = |place| bytes.number(offset + place, 8);
    let Some((_, elements)) = bytes.lists.iter().find(|(at, _)| *at == offset) else {
        let text = cpp::short_text(&file, id, list).zip(match list.count {
            Count::Number(place) => at(place),
            Count::Behind(_) | Count::Bits(..) => None,
        });
        // It may be in the structure itself.
        let found = text
            .and_then(|((place, room), count)| (count <= room).then(|| bytes.get(offset + place, count))?);
        return match found {
            Some(text) => Shown::Text(String::from_utf8_lossy(text).into_owned()),
            None => Shown::Missing("not recorded".to_owned()),
        };
    };
    let count = match list.count {
        Count::Number(place) => at(place),
        Count::Bits(last, bit) => {
            let words = at(last).zip(at(list.pointer)).and_then(|(last, first)| last.checked_sub(first));
            words.zip(bytes.number(offset + bit, 4)).map(|(bytes, bits)| bytes.saturating_mul(8) + bits)
        }
        Count::Behind(place) => at(place).zip(at(list.pointer)).and_then(|(behind, first)| {
            let each = types::bytes_of(&file, &types::resolve(&file, list.element));
            behind.checked_sub(first)?.checked_div(each)
        }),
    };
    match (elements, count) {
        (_, None) => bytes.missing(),
        (Ok(elements), Some(count)) => show_elements(file, list, elements, count, depth),
        (Err(why), _) => Shown::Missing(why.clone()),
    }
}

/// What an interface has: `word` is in it itself, for a value that is an address.
fn show_interface(file: Image<'_>, of: u64, value: &Bytes, word: Option<u64>, depth: u32) -> Shown {
    if of == 0 {
        return Shown::Name("nil".to_owned(), 0);
    }
    let Some(id) = dynamic::type_at(&file, of.wrapping_sub(file.bias)) else {
        return Shown::Missing(format!("a value of a type at {of:#x} that is not known"));
    };
    let (name, of) = dynamic::named(&file, id);
    let shown = match (value.data.is_empty(), word) {
        (true, Some(word)) if types::bytes_of(&file, &of) != 0 => {
            show(file, &of, &Bytes::of(&word.to_le_bytes()), 0, None, depth + 1)
        }
        _ => show(file, &of, value, 0, None, depth + 1),
    };
    Shown::Variant(name, Box::new(shown))
}

/// A list whose elements are elsewhere, of which these were recorded.
fn show_elements(file: Image<'_>, list: &List, bytes: &Bytes, count: u64, depth: u32) -> Shown {
    if list.is_text {
        return Shown::Text(String::from_utf8_lossy(&bytes.data).into_owned());
    }
    let element = types::resolve(&file, list.element);
    let each = types::bytes_of(&file, &element);
    let length = bytes.data.len() as u64;
    let (mut all, recorded): (Vec<Shown>, u64) = if let Count::Bits(..) = list.count {
        let recorded = (length * 8).min(count).min(ELEMENTS_MAX);
        let bit = |number: u64| bytes.data[number as usize / 8] >> (number % 8) & 1 != 0;
        ((0..recorded).map(|number| Shown::Boolean(bit(number))).collect(), recorded)
    } else {
        let recorded = length.checked_div(each).unwrap_or(0).min(count).min(ELEMENTS_MAX);
        let one = |number| show(file, &element, bytes, number * each, None, depth + 1);
        ((0..recorded).map(one).collect(), recorded)
    };
    if recorded < count {
        all.push(Shown::Missing(format!("{} more", count - recorded)));
    }
    Shown::List(all)
}

/// A collection with elements in nodes.
fn show_nodes(file: Image<'_>, nodes: &Nodes, bytes: &Bytes, offset: u64, depth: u32) -> Shown {
    if matches!(nodes.way, Way::Map(_)) && bytes.number(offset, 8) == Some(0) {
        return Shown::Name("nil".to_owned(), 0);
    }
    let recorded = bytes.nodes.iter().find(|(at, _)| *at == offset).map(|(_, recorded)| recorded);
    let (count, recorded) = match recorded {
        Some(Ok((count, recorded))) => (*count, recorded),
        Some(Err(why)) => return Shown::Missing(why.clone()),
        None => {
            return match nodes.way.count().map(|count| bytes.number(offset + count, 8)) {
                Some(None) => bytes.missing(),
                Some(Some(0)) => Shown::List(Vec::new()),
                Some(Some(count)) => Shown::Missing(format!("{count} elements, which are not recorded")),
                None => Shown::Missing("not recorded".to_owned()),
            };
        }
    };
    let show_piece = |(piece, of_one): (&DieId, &Result<Bytes, String>)| match of_one {
        Ok(of_one) => show(file, &types::resolve(&file, *piece), of_one, 0, None, depth + 1),
        Err(why) => Shown::Missing(why.clone()),
    };
    let show_element = |pieces: &Vec<Result<Bytes, String>>| {
        let mut shown: Vec<Shown> = nodes.pieces.iter().zip(pieces).map(show_piece).collect();
        match (shown.pop(), shown.pop()) {
            (Some(value), Some(key)) => Shown::Pair(Box::new((key, value))),
            (Some(shown), None) if nodes.are_pairs => shown.into_pair(),
            (Some(shown), None) => shown,
            (None, _) => Shown::Nothing,
        }
    };
    let mut all: Vec<Shown> = recorded.iter().map(show_element).collect();
    if matches!(nodes.way, Way::One { .. }) {
        return all.pop().unwrap_or_else(|| bytes.missing());
    }
    let known = recorded.iter().filter(|pieces| pieces.iter().all(Result::is_ok)).count() as u64;
    if known < count {
        all.push(Shown::Missing(format!("{} more", count - known)));
    }
    Shown::List(all)
}

fn show_variant(file: Image<'_>, variants: &Variants, bytes: &Bytes, offset: u64, depth: u32) -> Shown {
    let number = match &variants.tag {
        Some(tag) => match bytes.number(offset + tag.offset, types::bytes_of(&file, &tag.of)) {
            Some(number) => number,
            None => return bytes.missing(),
        },
        None => 0,
    };
    let Some(member) = variants.find(number) else {
        return Shown::Missing(format!("no variant has the number {number}"));
    };
    if member.name.is_empty() {
        return show(file, &member.of, bytes, offset + member.offset, None, depth + 1);
    }
    if variants::is_empty(&file, &member.of) {
        return Shown::Name(member.name.clone(), number as i64);
    }
    let value = show(file, &member.of, bytes, offset + member.offset, None, depth + 1);
    Shown::Variant(member.name.clone(), Box::new(value))
}

fn show_array(
    file: Image<'_>,
    element: &Type,
    counts: &[u64],
    bytes: &Bytes,
    offset: u64,
    depth: u32,
) -> Shown {
    let count = counts.first().copied().unwrap_or(0);
    let each = types::bytes_of(&file, element);
    let start = offset as usize;
    if let Type::Character { bytes: 1, .. } = element
        && let Some(data) = bytes.data.get(start..start + count as usize)
        && bytes.known[start..start + count as usize].iter().all(|known| *known)
    {
        let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
        return Shown::Text(String::from_utf8_lossy(&data[..end]).into_owned());
    }
    let shown = (0..count.min(ELEMENTS_MAX))
        .take_while(|number| offset + (number + 1) * each <= bytes.data.len() as u64)
        .map(|number| show(file, element, bytes, offset + number * each, None, depth + 1));
    let mut list: Vec<Shown> = shown.collect();
    if list.is_empty() && count > 0 {
        return bytes.missing();
    }
    if (list.len() as u64) < count {
        list.push(Shown::Missing(format!("{} more", count - list.len() as u64)));
    }
    Shown::List(list)
}

fn show_scalar(
    file: Image<'_>,
    of: &Type,
    data: &[u8],
    bits: Option<(u64, u64)>,
    text: impl Fn() -> Option<String>,
) -> Shown {
    let raw = data.iter().take(16).rev().fold(0u128, |value, byte| value << 8 | u128::from(*byte));
    let (first, count) = bits.unwrap_or((0, data.len() as u64 * 8));
    let unused = 128u64.saturating_sub(count) as u32;
    let moved = raw >> first << unused;
    let unsigned = if count == 0 { 0 } else { moved >> unused };
    let signed = if count == 0 { 0 } else { moved as i128 >> unused };
    match of {
        Type::Integer { signed: true, .. } => Shown::Number(signed),
        Type::Integer { .. } => Shown::Number(unsigned as i128),
        Type::Boolean { .. } => match unsigned {
            0 | 1 => Shown::Boolean(unsigned == 1),
            _ => Shown::Number(unsigned as i128),
        },
        Type::Character { signed: true, .. } => Shown::Character(signed as i64),
        Type::Character { .. } => Shown::Character(unsigned as i64),
        Type::Float { .. } => match data.len() {
            4 => Shown::Float(f64::from(f32::from_bits(unsigned as u32))),
            8 => Shown::Float(f64::from_bits(unsigned as u64)),
            16 => Shown::Float(extended(raw)),
            other => Shown::Missing(format!("a floating-point number of {other} bytes")),
        },
        Type::Complex { bytes: 8 } => {
            let half = |moved: u32| f64::from(f32::from_bits((raw >> moved) as u32));
            Shown::Complex(half(0), half(32))
        }
        Type::Complex { bytes: 16 } => {
            let half = |moved: u32| f64::from_bits((raw >> moved) as u64);
            Shown::Complex(half(0), half(64))
        }
        Type::Pointer(target) => {
            let is_text = crate::shape::is_text(&file, *target);
            Shown::Pointer(unsigned as u64, if is_text { text() } else { None })
        }
        Type::Reference(_) => Shown::Pointer(unsigned as u64, None),
        Type::Enum(id) => {
            let value = if types::is_enum_signed(&file, *id) { signed as i64 } else { unsigned as i64 };
            match types::enumerators(&file, *id).into_iter().find(|(_, known)| *known == value) {
                Some((name, _)) => Shown::Name(name, value),
                None => Shown::Number(i128::from(value)),
            }
        }
        Type::Void
        | Type::Function
        | Type::Struct(_)
        | Type::Array(..)
        | Type::Complex { .. }
        | Type::Other(_) => Shown::Missing("a type that is not understood".to_owned()),
    }
}

/// A number of x87's 80 bits.
fn extended(raw: u128) -> f64 {
    let mantissa = raw as u64;
    let top = (raw >> 64) as u16;
    let sign = if top >> 15 != 0 { -1.0 } else { 1.0 };
    match top & 0x7fff {
        0 if mantissa == 0 => 0.0 * sign,
        0x7fff if mantissa << 1 == 0 => f64::INFINITY * sign,
        0x7fff => f64::NAN,
        exponent => sign * mantissa as f64 * 2f64.powi(i32::from(exponent) - 16383 - 63),
    }
}
