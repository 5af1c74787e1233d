//! What the birth of an image tells: the path, and the arguments on its stack.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use events::Tag;

use crate::lane_events::WholeEvent;

/// Most arguments that are looked at.
const ARGUMENTS_MAX: u64 = 4096;

/// A new image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub path: OsString,
    /// `None` where the log does not hold the stack.
    pub arguments: Option<Vec<OsString>>,
    pub environment_count: Option<u64>,
    /// `name=value`, in order; empty where the log does not hold it.
    pub environment: Vec<OsString>,
    pub entry: u64,
    pub map_count: usize,
}

impl Image {
    /// Reads a birth; `None` for another event.
    pub fn of(whole: &WholeEvent) -> Option<Image> {
        let event = whole.event();
        let birth = event.birth()?;
        let stack = Stack { whole };
        let arguments = stack.list(birth.stack_pointer.wrapping_add(8));
        let environment_count = arguments.as_ref().and_then(|list| {
            let start = birth.stack_pointer.wrapping_add(8 * (list.len() as u64 + 2));
            (0..ARGUMENTS_MAX * 16)
                .find(|index| stack.word(start.wrapping_add(8 * index)).is_none_or(|word| word == 0))
        });
        let environment = arguments
            .as_ref()
            .and_then(|list| stack.list(birth.stack_pointer.wrapping_add(8 * (list.len() as u64 + 2))));
        Some(Image {
            path: OsString::from_vec(birth.path.to_vec()),
            arguments,
            environment_count,
            environment: environment.unwrap_or_default(),
            entry: birth.entry,
            map_count: birth.maps().count(),
        })
    }

    /// What a user calls the program: its arguments, or its path.
    pub fn command(&self) -> Vec<OsString> {
        match &self.arguments {
            Some(arguments) if !arguments.is_empty() => arguments.clone(),
            Some(_) | None => vec![self.path.clone()],
        }
    }
}

/// The memory that the log holds of the new image.
struct Stack<'a> {
    whole: &'a WholeEvent,
}

impl<'a> Stack<'a> {
    fn at(&self, address: u64) -> Option<&'a [u8]> {
        self.whole.blobs().filter(|blob| blob.tag == Tag::Memory).find_map(|blob| {
            let offset = usize::try_from(address.checked_sub(blob.address)?).ok()?;
            blob.data.get(offset..).filter(|rest| !rest.is_empty())
        })
    }

    fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.at(address)?.get(..8)?.try_into().ok()?))
    }

    fn text(&self, address: u64) -> Option<OsString> {
        let bytes = self.at(address)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        Some(OsString::from_vec(bytes[..end].to_vec()))
    }

    /// A NULL-terminated array of strings.
    fn list(&self, start: u64) -> Option<Vec<OsString>> {
        let mut list = Vec::new();
        for index in 0..ARGUMENTS_MAX {
            match self.word(start.wrapping_add(8 * index))? {
                0 => break,
                address => list.push(self.text(address)?),
            }
        }
        Some(list)
    }
}
