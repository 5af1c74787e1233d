//! Values as they are shown.

use serde_json::json;

use crate::cpp::{self, StandsFor};
use crate::debug_file::{DebugFile, DieId};
use crate::lists::{self, Count, List};
use crate::nodes::{self, Nodes};
use crate::parts::{Part, Parts};
use crate::shape::{Shape, Source};
use crate::types::{self, Type};
use crate::variants::{self, Variants};

/// Most elements of an array that are shown.
const ELEMENTS_MAX: u64 = 200;
const DEPTH_MAX: u32 = 20;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    Number(i128),
    Float(f64),
    Boolean(bool),
    /// A number, and the byte as a character.
    Character(i64),
    Text(String),
    /// A pointer; the text behind it, if it points to some.
    Pointer(u64, Option<String>),
    /// An enumeration's value by its name.
    Name(String, i64),
    List(Vec<Shown>),
    /// A key and its value.
    Pair(Box<(Shown, Shown)>),
    Members(Vec<(String, Shown)>),
    /// One of several that a value may be, and what it has.
    Variant(String, Box<Shown>),
    /// There is none, and why.
    Missing(String),
    Nothing,
}

/// The bytes of a value, as far as they are known.
struct Bytes {
    data: Vec<u8>,
    known: Vec<bool>,
    why: String,
    texts: Vec<(u64, Option<String>)>,
    /// Elements of lists, or why there are none.
    lists: Vec<(u64, Result<Bytes, String>)>,
    /// Elements of collections of nodes, or why there is one of them no more.
    nodes: Vec<(u64, Vec<Result<Bytes, String>>)>,
}

impl Bytes {
    fn new(length: usize) -> Bytes {
        let (data, known) = (vec![0; length], vec![false; length]);
        let (texts, lists, nodes) = Default::default();
        Bytes { data, known, why: String::new(), texts, lists, nodes }
    }

    /// All of which is known.
    fn of(data: &[u8]) -> Bytes {
        Bytes { data: data.to_vec(), known: vec![true; data.len()], ..Bytes::new(0) }
    }

    /// What is shown in place of what is not known.
    fn missing(&self) -> Shown {
        Shown::Missing(if self.why.is_empty() { "not recorded".to_owned() } else { self.why.clone() })
    }

    /// So many bytes from the offset on, if they are known.
    fn get(&self, offset: u64, size: u64) -> Option<&[u8]> {
        let range = offset as usize..offset.checked_add(size)? as usize;
        self.data.get(range.clone()).filter(|_| self.known[range].iter().all(|known| *known))
    }

    /// A number without a sign.
    fn number(&self, offset: u64, size: u64) -> Option<u64> {
        Some(
            self.get(offset, size)?.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
        )
    }
}

/// Reads a value from its program's parts, which are these.
pub(crate) fn read(file: &DebugFile, shape: &Shape, parts: &mut Parts) -> Shown {
    let mut is_over = false;
    let shown = read_from(file, shape, parts, &mut is_over);
    if shape.code.bytes.is_empty() {
        // Its program is empty: there is its end.
        parts.next();
    } else if !is_over {
        parts.finish();
    }
    shown
}

/// Reads a value from the next parts of a program, of which it may be over.
pub(crate) fn read_from(file: &DebugFile, shape: &Shape, parts: &mut Parts, is_over: &mut bool) -> Shown {
    let length = shape.chunks.iter().map(|chunk| chunk.offset + chunk.bytes).max().unwrap_or(0) as usize;
    let mut bytes = Bytes::new(length);
    for chunk in &shape.chunks {
        let mut put = |data: &[u8]| {
            let start = chunk.offset as usize;
            let count = data.len().min(chunk.bytes as usize);
            bytes.data[start..start + count].copy_from_slice(&data[..count]);
            bytes.known[start..start + count].fill(true);
        };
        match &chunk.source {
            Source::Known(data) => put(data),
            Source::Gone(why) => bytes.why = (*why).to_owned(),
            Source::Part if *is_over => {}
            Source::Part => match parts.next() {
                Part::Data(data) => put(data),
                Part::Missing(why) => bytes.why = why,
                Part::End => *is_over = true,
            },
        }
    }
    let mut next = || match *is_over {
        true => None,
        false => match parts.next() {
            Part::Data(data) => Some(Ok(data)),
            Part::Missing(why) => Some(Err(why)),
            Part::End => {
                *is_over = true;
                None
            }
        },
    };
    bytes.texts = texts_at(&shape.texts, &mut next);
    for list in &shape.lists {
        let Some(elements) = next() else { break };
        let mut elements = elements.map(Bytes::of);
        let texts = texts_at(&list.texts, &mut next);
        let inner = list.lists.iter().map_while(|at| Some((*at, next()?.map(Bytes::of)))).collect();
        if let Ok(elements) = &mut elements {
            (elements.texts, elements.lists) = (texts, inner);
        }
        bytes.lists.push((list.offset, elements));
    }
    for (offset, nodes) in &shape.nodes {
        let Some(count) = bytes.number(offset + nodes.count, 8) else { break };
        let elements = (0..count.min(nodes.most(file))).map_while(|_| Some(next()?.map(Bytes::of)));
        bytes.nodes.push((*offset, elements.collect()));
    }
    show(file, &shape.of, &bytes, 0, None, 0)
}

type Next<'a, 'b> = dyn FnMut() -> Option<Result<&'b [u8], String>> + 'a;

/// The texts behind the pointers at these offsets.
fn texts_at(offsets: &[u64], next: &mut Next<'_, '_>) -> Vec<(u64, Option<String>)> {
    let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
    offsets.iter().map_while(|at| Some((*at, next()?.ok().map(text)))).collect()
}

fn show(
    file: &DebugFile,
    of: &Type,
    bytes: &Bytes,
    offset: u64,
    bits: Option<(u64, u64)>,
    depth: u32,
) -> Shown {
    if let Type::Struct(id) = of
        && depth < DEPTH_MAX
    {
        return show_structure(file, *id, bytes, offset, depth);
    }
    if let Type::Array(element, counts) = of
        && depth < DEPTH_MAX
    {
        return show_array(file, &types::element(file, *element, counts), counts, bytes, offset, depth);
    }
    if *of == Type::Void {
        return Shown::Missing(bytes.why.clone());
    }
    let size = match bits {
        Some((first, count)) => (first + count).div_ceil(8),
        None => types::bytes_of(file, of),
    };
    let Some(data) = bytes.get(offset, size) else { return bytes.missing() };
    show_scalar(file, of, data, bits, || {
        bytes.texts.iter().find(|(at, _)| *at == offset).and_then(|(_, text)| text.clone())
    })
}

fn show_structure(file: &DebugFile, id: DieId, bytes: &Bytes, offset: u64, depth: u32) -> Shown {
    if let Some(list) = lists::of_structure(file, id) {
        let at = |place| bytes.number(offset + place, 8);
        let Some((_, elements)) = bytes.lists.iter().find(|(at, _)| *at == offset) else {
            let text = cpp::short_text(file, id, &list).zip(match list.count {
                Count::Number(place) => at(place),
                Count::Behind(_) => None,
            });
            // It may be in the structure itself.
            let found = text.and_then(|((place, room), count)| {
                (count <= room).then(|| bytes.get(offset + place, count))?
            });
            return match found {
                Some(text) => Shown::Text(String::from_utf8_lossy(text).into_owned()),
                None => Shown::Missing("not recorded".to_owned()),
            };
        };
        let count = match list.count {
            Count::Number(place) => at(place),
            Count::Behind(place) => at(place).zip(at(list.pointer)).and_then(|(behind, first)| {
                let each = types::bytes_of(file, &types::resolve(file, list.element));
                behind.checked_sub(first)?.checked_div(each)
            }),
        };
        return match (elements, count) {
            (_, None) => bytes.missing(),
            (Ok(elements), Some(count)) => show_elements(file, &list, elements, count, depth),
            (Err(why), _) => Shown::Missing(why.clone()),
        };
    }
    if let Some(nodes) = nodes::of_structure(file, id) {
        return show_nodes(file, &nodes, bytes, offset, depth);
    }
    match cpp::stands_for(file, id) {
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
    if let Some(variants) = variants::of_structure(file, id) {
        return show_variant(file, &variants, bytes, offset, depth);
    }
    let show_member = |member: types::Member| {
        let value = show(file, &member.of, bytes, offset + member.offset, member.bits, depth + 1);
        (member.name, value)
    };
    Shown::Members(types::members(file, id).into_iter().map(show_member).collect())
}

/// A list whose elements are elsewhere, of which these were recorded.
fn show_elements(file: &DebugFile, list: &List, bytes: &Bytes, count: u64, depth: u32) -> Shown {
    if list.is_text {
        return Shown::Text(String::from_utf8_lossy(&bytes.data).into_owned());
    }
    let element = types::resolve(file, list.element);
    let each = types::bytes_of(file, &element);
    let recorded = (bytes.data.len() as u64).checked_div(each).unwrap_or(0).min(count).min(ELEMENTS_MAX);
    let shown = (0..recorded).map(|number| show(file, &element, bytes, number * each, None, depth + 1));
    let mut all: Vec<Shown> = shown.collect();
    if recorded < count {
        all.push(Shown::Missing(format!("{} more", count - recorded)));
    }
    Shown::List(all)
}

/// A collection with elements in nodes.
fn show_nodes(file: &DebugFile, nodes: &Nodes, bytes: &Bytes, offset: u64, depth: u32) -> Shown {
    let Some(count) = bytes.number(offset + nodes.count, 8) else { return bytes.missing() };
    let Some((_, recorded)) = bytes.nodes.iter().find(|(at, _)| *at == offset) else {
        return match count {
            0 => Shown::List(Vec::new()),
            _ => Shown::Missing(format!("{count} elements, which are not recorded")),
        };
    };
    let element = types::resolve(file, nodes.element);
    let shown = recorded.iter().map(|one| match one {
        Ok(of_one) if nodes.are_pairs => show(file, &element, of_one, 0, None, depth + 1).into_pair(),
        Ok(of_one) => show(file, &element, of_one, 0, None, depth + 1),
        Err(why) => Shown::Missing(why.clone()),
    });
    let mut all: Vec<Shown> = shown.collect();
    let known = recorded.iter().filter(|element| element.is_ok()).count() as u64;
    if known < count {
        all.push(Shown::Missing(format!("{} more", count - known)));
    }
    Shown::List(all)
}

fn show_variant(file: &DebugFile, variants: &Variants, bytes: &Bytes, offset: u64, depth: u32) -> Shown {
    let number = match &variants.tag {
        Some(tag) => match bytes.number(offset + tag.offset, types::bytes_of(file, &tag.of)) {
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
    if variants::is_empty(file, &member.of) {
        return Shown::Name(member.name.clone(), number as i64);
    }
    let value = show(file, &member.of, bytes, offset + member.offset, None, depth + 1);
    Shown::Variant(member.name.clone(), Box::new(value))
}

fn show_array(
    file: &DebugFile,
    element: &Type,
    counts: &[u64],
    bytes: &Bytes,
    offset: u64,
    depth: u32,
) -> Shown {
    let count = counts.first().copied().unwrap_or(0);
    let each = types::bytes_of(file, element);
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
    file: &DebugFile,
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
        Type::Pointer(target) => {
            let is_text = crate::shape::is_text(file, *target);
            Shown::Pointer(unsigned as u64, if is_text { text() } else { None })
        }
        Type::Reference(_) => Shown::Pointer(unsigned as u64, None),
        Type::Enum(id) => {
            let value = if types::is_enum_signed(file, *id) { signed as i64 } else { unsigned as i64 };
            match types::enumerators(file, *id).into_iter().find(|(_, known)| *known == value) {
                Some((name, _)) => Shown::Name(name, value),
                None => Shown::Number(i128::from(value)),
            }
        }
        Type::Void | Type::Function | Type::Struct(_) | Type::Array(..) | Type::Other(_) => {
            Shown::Missing("a type that is not understood".to_owned())
        }
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

impl Shown {
    /// A structure of two as a key and its value.
    fn into_pair(self) -> Shown {
        let Shown::Members(mut members) = self else { return self };
        let place = |wanted: [&str; 2]| members.iter().position(|(name, _)| wanted.contains(&name.as_str()));
        let (Some(key), Some(value)) = (place(["first", "__0"]), place(["second", "__1"])) else {
            return Shown::Members(members);
        };
        let mut take = |at: usize| std::mem::replace(&mut members[at].1, Shown::Nothing);
        Shown::Pair(Box::new((take(key), take(value))))
    }

    /// The members of a structure whose members are numbered, as a tuple's are in Rust.
    pub(crate) fn places(&self) -> Option<impl Iterator<Item = &Shown>> {
        let Shown::Members(members) = self else { return None };
        let is_place = |(name, _): &(String, Shown)| name.starts_with("__");
        members.iter().all(is_place).then(|| members.iter().map(|(_, value)| value))
    }

    /// As JSON: a number, a text, a list, an object. What is missing is an object with
    /// the one field `missing`.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Shown::Number(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => json!(number),
                (_, Ok(number)) => json!(number),
                _ => json!(number.to_string()),
            },
            Shown::Float(number) if number.is_finite() => json!(number),
            Shown::Float(number) => json!(number.to_string()),
            Shown::Boolean(value) => json!(value),
            Shown::Character(value) => json!(value),
            Shown::Text(text) | Shown::Pointer(_, Some(text)) => json!(text),
            Shown::Pointer(address, None) => json!(format!("{address:#x}")),
            Shown::Name(name, _) => json!(name),
            Shown::List(list) => list.iter().map(Shown::to_json).collect(),
            Shown::Pair(pair) => json!([pair.0.to_json(), pair.1.to_json()]),
            Shown::Members(members) => {
                let named = members.iter().enumerate().map(|(index, (name, value))| {
                    let name = if name.is_empty() { format!("unnamed {}", index + 1) } else { name.clone() };
                    (name, value.to_json())
                });
                serde_json::Value::Object(named.collect())
            }
            Shown::Variant(name, value) => {
                let places = value.places().map(|places| places.map(Shown::to_json).collect::<Vec<_>>());
                let value = match places {
                    Some(mut places) if places.len() == 1 => places.remove(0),
                    Some(places) => places.into(),
                    None => value.to_json(),
                };
                json!({ name: value })
            }
            Shown::Missing(why) => json!({ "missing": why }),
            Shown::Nothing => serde_json::Value::Null,
        }
    }
}
