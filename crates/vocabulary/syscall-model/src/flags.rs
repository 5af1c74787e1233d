//! Names of flag bits and enumerated values, for `dump` and the documentation.

pub mod files;
pub mod memory;
pub mod polling;
pub mod process;
pub mod signals;
pub mod sockets;
pub mod system;

use core::fmt;

/// One named value.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    pub name: &'static str,
    pub value: u64,
}

/// A set of named values: bits that may be or-ed, or one of an enumeration.
///
/// In a set of bits a name that covers several bits stands before the names of
/// its parts, because [`FlagSet::show`] takes the names from the left.
#[derive(Debug)]
pub struct FlagSet {
    /// True where values are or-ed together, false where exactly one applies.
    pub bits: bool,
    pub flags: &'static [Flag],
}

impl FlagSet {
    /// The value as the names of its flags, what has no name in hexadecimal.
    pub const fn show(&'static self, value: u64) -> Shown {
        Shown { set: self, value }
    }
}

/// A value and the names for it.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    set: &'static FlagSet,
    value: u64,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flag) = self.set.flags.iter().find(|flag| flag.value == self.value) {
            return f.write_str(flag.name);
        }
        if !self.set.bits {
            return write!(f, "{:#x}", self.value);
        }
        let mut rest = self.value;
        let mut separator = "";
        for flag in self.set.flags {
            if flag.value != 0 && rest & flag.value == flag.value {
                write!(f, "{separator}{}", flag.name)?;
                separator = "|";
                rest &= !flag.value;
            }
        }
        if rest != 0 || separator.is_empty() { write!(f, "{separator}{rest:#x}") } else { Ok(()) }
    }
}

/// `bits` or `one_of`, then names with their values.
macro_rules! flag_sets {
    ($($(#[$doc:meta])* $set:ident $kind:ident { $($name:ident $value:literal),* $(,)? })*) => {
        $($(#[$doc])*
        pub static $set: $crate::flags::FlagSet = $crate::flags::FlagSet {
            bits: $crate::flags::flag_sets!(@$kind),
            flags: &[$($crate::flags::Flag { name: stringify!($name), value: $value }),*],
        };)*
    };
    (@bits) => { true };
    (@one_of) => { false };
}
pub(crate) use flag_sets;
