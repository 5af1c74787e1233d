//! Names of flag bits and enumerated values, for `dump` and the documentation.

/// One named value.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    pub name: &'static str,
    pub value: u64,
}

/// A set of named values: bits that may be or-ed, or one of an enumeration.
#[derive(Debug)]
pub struct FlagSet {
    /// True where values are or-ed together, false where exactly one applies.
    pub bits: bool,
    pub flags: &'static [Flag],
}
