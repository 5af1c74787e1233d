//! What was recorded of a value: its bytes, and what it has elsewhere.

use crate::debug_file::DebugFile;
use crate::dynamic::INTERFACE_PARTS;
use crate::nodes::Nodes;
use crate::parts::{Part, Parts};
use crate::shape::{Shape, Source, parts_of_piece};
use crate::shown::Shown;
use crate::value;

/// A file, and what is to be added to its addresses where it is mapped.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    pub file: &'a DebugFile,
    pub bias: u64,
}

impl std::ops::Deref for Image<'_> {
    type Target = DebugFile;

    fn deref(&self) -> &DebugFile {
        self.file
    }
}

/// The bytes of a value, as far as they are known.
pub(crate) struct Bytes {
    pub data: Vec<u8>,
    pub known: Vec<bool>,
    pub why: String,
    pub texts: Vec<(u64, Option<String>)>,
    /// Elements of lists, or why there are none.
    pub lists: Vec<(u64, Result<Bytes, String>)>,
    /// Of collections in nodes how many elements they have, and the pieces of those that were recorded.
    pub nodes: Vec<(u64, Recorded)>,
    /// Of interfaces their types' addresses, and the values.
    pub interfaces: Vec<(u64, Result<Typed, String>)>,
}

/// A value, and the address of its type.
pub(crate) type Typed = (u64, Bytes);

/// The elements of a collection in nodes.
pub(crate) type Recorded = Result<(u64, Vec<Vec<Result<Bytes, String>>>), String>;

impl Bytes {
    pub fn new(length: usize) -> Bytes {
        let (data, known) = (vec![0; length], vec![false; length]);
        let (texts, lists, nodes, interfaces) = Default::default();
        Bytes { data, known, why: String::new(), texts, lists, nodes, interfaces }
    }

    /// All of which is known.
    pub fn of(data: &[u8]) -> Bytes {
        Bytes { data: data.to_vec(), known: vec![true; data.len()], ..Bytes::new(0) }
    }

    /// What is shown in place of what is not known.
    pub fn missing(&self) -> Shown {
        Shown::Missing(if self.why.is_empty() { "not recorded".to_owned() } else { self.why.clone() })
    }

    /// So many bytes from the offset on, if they are known.
    pub fn get(&self, offset: u64, size: u64) -> Option<&[u8]> {
        let range = offset as usize..offset.checked_add(size)? as usize;
        self.data.get(range.clone()).filter(|_| self.known[range].iter().all(|known| *known))
    }

    /// A number without a sign.
    pub fn number(&self, offset: u64, size: u64) -> Option<u64> {
        Some(
            self.get(offset, size)?.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
        )
    }
}

/// Reads a value from its program's parts, which are these.
pub(crate) fn read(file: Image<'_>, shape: &Shape, parts: &mut Parts) -> Shown {
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
pub(crate) fn read_from(file: Image<'_>, shape: &Shape, parts: &mut Parts, is_over: &mut bool) -> Shown {
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
        let Some(count) = next() else { break };
        let count = count.map(|count| count.first_chunk().map_or(0, |count| u64::from_le_bytes(*count)));
        let recorded = count.map(|count| {
            let mut elements: Vec<Vec<_>> = Vec::new();
            // Behind what cannot be read nothing more was recorded.
            let is_whole = |pieces: &Vec<Result<Bytes, String>>| pieces.iter().all(Result::is_ok);
            while (elements.len() as u64) < count.min(nodes.most(&file))
                && elements.last().is_none_or(is_whole)
                && let Some(pieces) = element_of(file, nodes, &mut next)
            {
                elements.push(pieces);
            }
            (count, elements)
        });
        bytes.nodes.push((*offset, recorded));
    }
    for offset in &shape.interfaces {
        let parts: [_; INTERFACE_PARTS] = std::array::from_fn(|_| next());
        let [Some(Ok(of)), Some(value), text] = parts else { break };
        let value = value.map(|data| {
            let mut value = Bytes::of(data);
            let text = text.and_then(Result::ok).unwrap_or_default();
            value.lists.push((0, Ok(Bytes::of(text))));
            (of.first_chunk().map_or(0, |of| u64::from_le_bytes(*of)), value)
        });
        bytes.interfaces.push((*offset, value));
    }
    value::show(file, &shape.of, &bytes, 0, None, 0)
}

type Next<'a, 'b> = dyn FnMut() -> Option<Result<&'b [u8], String>> + 'a;

/// The pieces of an element with what they have elsewhere.
fn element_of(file: Image<'_>, nodes: &Nodes, next: &mut Next<'_, '_>) -> Option<Vec<Result<Bytes, String>>> {
    let mut pieces = Vec::new();
    for piece in &nodes.pieces {
        let mut bytes = match next()? {
            Ok(data) => Bytes::of(data),
            Err(why) => {
                pieces.push(Err(why));
                break;
            }
        };
        let (texts, lists) = parts_of_piece(&file, *piece);
        bytes.texts = texts_at(&texts, next);
        bytes.lists = lists.iter().map_while(|(at, _)| Some((*at, next()?.map(Bytes::of)))).collect();
        pieces.push(Ok(bytes));
    }
    Some(pieces)
}

/// The texts behind the pointers at these offsets.
fn texts_at(offsets: &[u64], next: &mut Next<'_, '_>) -> Vec<(u64, Option<String>)> {
    let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
    offsets.iter().map_while(|at| Some((*at, next()?.ok().map(text)))).collect()
}
