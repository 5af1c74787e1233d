//! How the tables of requests say what is in a request.
//!
//! Offsets are in bytes of the body, which begins behind a request's length.

/// A number in a request that is another one on another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A resource.
    Id(usize),
    /// Resources from here on, one in each so many bytes.
    Ids(usize, usize),
    Visual(usize),
    /// A format of pictures.
    Format(usize),
    /// A mask of so many bytes, and a list of values, which begins behind the word of the mask. Those of these
    /// bits are resources.
    Values(usize, usize, u32),
}

/// What is done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It is sent on.
    Draw,
    /// It only asks.
    Ask,
    /// It is about input, grabs, selections, or settings of the server: it changes no picture.
    Other,
    /// It changes the picture, in a way that cannot be had here.
    Cannot,
    /// It is sent on, and tells of a window.
    Window,
    AskAtom,
    AskAtomName,
    AskExtension,
    AskFormats,
    Property,
    /// Texts, with fonts among them; bytes of a character.
    Text(usize),
    /// Glyphs, with sets of them among them; bytes of a glyph's number.
    Glyphs(usize),
    AttachSegment,
    /// The same of memory whose descriptor goes along.
    AttachDescriptor,
    /// The same of memory whose descriptor the reply brings.
    AskSegment,
    SharedImage,
    /// A pixmap in a segment.
    SharedPixmap,
    /// A picture of a drawable, which it names second.
    Picture,
    /// It names what is no more.
    Free,
    /// It says which version the program speaks; without it the others are refused.
    Version,
    /// A pixmap is to be shown at a time, and fences are waited for.
    Present,
    /// It asks, and descriptors come with the reply.
    AskDescriptors,
    /// It changes the picture by what descriptors lead to; so many of them, or as many as the body says there.
    TakesDescriptor,
    TakesDescriptors(usize),
}

/// One request: its number (of an extension the minor one), its name.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub number: u8,
    pub name: &'static str,
    pub act: Act,
    pub fields: &'static [Field],
}

pub const fn draw(number: u8, name: &'static str, fields: &'static [Field]) -> Row {
    Row { number, name, act: Act::Draw, fields }
}

pub const fn ask(number: u8, name: &'static str) -> Row {
    Row { number, name, act: Act::Ask, fields: &[] }
}

pub const fn other(number: u8, name: &'static str) -> Row {
    Row { number, name, act: Act::Other, fields: &[] }
}

pub const fn cannot(number: u8, name: &'static str) -> Row {
    Row { number, name, act: Act::Cannot, fields: &[] }
}

pub const fn special(number: u8, name: &'static str, act: Act, fields: &'static [Field]) -> Row {
    Row { number, name, act, fields }
}

/// The row of a number.
pub fn find(rows: &'static [Row], number: u8) -> Option<&'static Row> {
    rows.iter().find(|row| row.number == number)
}
