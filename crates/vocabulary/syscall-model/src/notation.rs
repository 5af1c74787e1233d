//! The notation that the tables are written in: a row is a line or two.

use crate::flags::FlagSet;
use crate::row::{Act, Arg, Len, Shape, Special, Ty, When};

pub(crate) const INT: Arg = plain(Ty::Int);
pub(crate) const UINT: Arg = plain(Ty::Uint);
pub(crate) const LONG: Arg = plain(Ty::Long);
pub(crate) const SIZE: Arg = plain(Ty::Size);
pub(crate) const HEX: Arg = plain(Ty::Hex);
pub(crate) const FD: Arg = plain(Ty::Fd);
pub(crate) const DIRFD: Arg = plain(Ty::DirFd);
pub(crate) const PID: Arg = plain(Ty::Pid);
pub(crate) const ID: Arg = plain(Ty::Id);
pub(crate) const MODE: Arg = plain(Ty::Mode);
pub(crate) const SIGNAL: Arg = plain(Ty::Signal);
pub(crate) const ADDRESS: Arg = plain(Ty::Address);
pub(crate) const PATH: Arg = plain(Ty::Path);
pub(crate) const TEXT: Arg = plain(Ty::Text);
pub(crate) const TEXT_LIST: Arg = plain(Ty::TextList);

/// `struct timespec` that the kernel reads.
pub(crate) const TIMESPEC: Arg = reads(Shape::Timespec, Len::Fixed(16));
/// A 32-bit number that the kernel writes.
pub(crate) const I32_OUT: Arg = writes(Shape::I32, Len::Fixed(4));
/// An unsigned 32-bit number that the kernel writes.
pub(crate) const U32_OUT: Arg = writes(Shape::U32, Len::Fixed(4));
/// A 64-bit number that the kernel writes.
pub(crate) const U64_OUT: Arg = writes(Shape::U64, Len::Fixed(8));
/// A 32-bit number that the kernel reads.
pub(crate) const I32_IN: Arg = reads(Shape::I32, Len::Fixed(4));
/// A 64-bit number that the kernel reads.
pub(crate) const U64_IN: Arg = reads(Shape::U64, Len::Fixed(8));
/// A `socklen_t` that the kernel reads and writes back.
pub(crate) const SOCKLEN: Arg = updates(When::Always, Shape::U32, Len::Fixed(4));
/// A file offset that the kernel reads and writes back.
pub(crate) const OFFSET: Arg = updates(When::Always, Shape::U64, Len::Fixed(8));

pub(crate) const DETECT: Act = Act::PageDiff;

const fn plain(ty: Ty) -> Arg {
    Arg::new("", ty)
}

/// A number made of these flags.
pub(crate) const fn of(set: &'static FlagSet) -> Arg {
    plain(Ty::Flags(set))
}

/// Memory that the kernel reads.
pub(crate) const fn reads(shape: Shape, len: Len) -> Arg {
    Arg::shown("", Ty::In(len), shape)
}

/// Memory that the kernel writes in full when it succeeds.
pub(crate) const fn writes(shape: Shape, len: Len) -> Arg {
    Arg::shown("", Ty::Out(len, When::Success), shape)
}

/// Memory that the kernel writes in full in that case.
pub(crate) const fn writes_when(when: When, shape: Shape, len: Len) -> Arg {
    Arg::shown("", Ty::Out(len, when), shape)
}

/// Memory that the kernel reads and writes, or of which it may write only a part:
/// what it leaves alone keeps its content.
pub(crate) const fn updates(when: When, shape: Shape, len: Len) -> Arg {
    Arg::shown("", Ty::InOut(len, when), shape)
}

/// Memory of which the kernel fills as many bytes as it returns.
pub(crate) const fn fills(shape: Shape) -> Arg {
    Arg::shown("", Ty::Out(Len::Ret, When::Positive), shape)
}

pub(crate) const fn iov_in(count: u8) -> Arg {
    plain(Ty::IovIn(count))
}

pub(crate) const fn iov_out(count: u8) -> Arg {
    plain(Ty::IovOut(count))
}

/// `struct msghdr` to send.
pub(crate) const MSG_IN: Arg = plain(Ty::MsgIn);
/// `struct msghdr` to fill.
pub(crate) const MSG_OUT: Arg = plain(Ty::MsgOut);

/// `struct ifconf`, which lists network interfaces.
pub(crate) const IFCONF: Arg = plain(Ty::IfConf);

/// `struct xattr_args` whose value is filled.
pub(crate) const XATTR_OUT: Arg = plain(Ty::XattrOut);

/// The value of an option, whose length another argument points to.
pub(crate) const fn option_out(length: u8) -> Arg {
    Arg::shown("", Ty::OptionOut(length), Shape::Opaque)
}

pub(crate) const fn mmsg_in(count: u8) -> Arg {
    plain(Ty::MmsgIn(count))
}

pub(crate) const fn mmsg_out(count: u8) -> Arg {
    plain(Ty::MmsgOut(count))
}

/// A socket address whose length another argument points to.
pub(crate) const fn sockaddr_out(length: u8) -> Arg {
    Arg::shown("", Ty::OutSockLen(length), Shape::SockAddr)
}

pub(crate) const fn execute(special: Special) -> Act {
    Act::Execute(special)
}

pub(crate) const fn reject(why: &'static str) -> Act {
    Act::Reject(why)
}

/// The same argument under a name.
pub(crate) const fn named(name: &'static str, spec: Arg) -> Arg {
    Arg { name, ty: spec.ty, shape: spec.shape }
}

/// Rows: `number name(argument: kind, ...) => act, blocks, releases, acquires, outward, ...;`. Without an
/// act its result is injected; each of the words behind it is there if it is true.
macro_rules! rows {
    ($($nr:literal $name:tt($($arg:tt: $spec:expr),*) $(=> $act:expr)? $(, $fact:ident)*;)*) => {
        &[$($crate::row::Row {
            nr: $nr,
            name: stringify!($name),
            args: &[$($crate::notation::named(stringify!($arg), $spec)),*],
            act: $crate::notation::act!($($act)?),
            blocks: $crate::row::Facts::NONE$(.$fact())*.blocks,
            releases: $crate::row::Facts::NONE$(.$fact())*.releases,
            acquires: $crate::row::Facts::NONE$(.$fact())*.acquires,
            outward: $crate::row::Facts::NONE$(.$fact())*.outward,
            signals: $crate::row::Facts::NONE$(.$fact())*.signals,
            moves_end: $crate::row::Facts::NONE$(.$fact())*.moves_end,
            changes_ids: $crate::row::Facts::NONE$(.$fact())*.changes_ids,
            changes_rights: $crate::row::Facts::NONE$(.$fact())*.changes_rights,
            shadowed: $crate::row::Facts::NONE$(.$fact())*.shadowed,
        }),*]
    };
}

/// Requests, written as rows are.
macro_rules! requests {
    ($($nr:literal $name:tt($($arg:tt: $spec:expr),*) $(=> $act:expr)? $(, $blocks:ident)?;)*) => {
        &[$($crate::row::Variant {
            request: $nr,
            name: stringify!($name),
            args: &[$($crate::notation::named(stringify!($arg), $spec)),*],
            act: $crate::notation::act!($($act)?),
            blocks: $crate::notation::blocks!($($blocks)?),
        }),*]
    };
}

macro_rules! act {
    () => {
        $crate::row::Act::Inject
    };
    ($act:expr) => {
        $act
    };
}

macro_rules! blocks {
    () => {
        false
    };
    (blocks) => {
        true
    };
}

pub(crate) use {act, blocks, requests, rows};
