//! Arguments by their types.

use events::Tag;
use syscall_model::flags::files::OPEN;
use syscall_model::{Arg, FlagSet, Len, Shape, Ty, When};

use super::call::Call;
use super::quote::{bytes, put, quoted};
use super::{messages, shapes};
use crate::wording;

const AT_FDCWD: i32 = -100;

/// Appends the argument at this index.
pub fn show(out: &mut String, call: &Call<'_>, index: usize, arg: &Arg) {
    let value = call.event.arg(index);
    match arg.ty {
        Ty::Int | Ty::Fd | Ty::Pid => put(out, format_args!("{}", value as i32)),
        Ty::Uint => put(out, format_args!("{}", value as u32)),
        Ty::Long => put(out, format_args!("{}", value as i64)),
        Ty::Size => put(out, format_args!("{value}")),
        Ty::Hex if value == 0 => out.push('0'),
        Ty::Hex => put(out, format_args!("{value:#x}")),
        Ty::DirFd if value as i32 == AT_FDCWD => out.push_str("AT_FDCWD"),
        Ty::DirFd => put(out, format_args!("{}", value as i32)),
        Ty::Id if value as u32 == u32::MAX => out.push_str("-1"),
        Ty::Id => put(out, format_args!("{}", value as u32)),
        Ty::Mode => out.push_str(&octal(value & 0xffff_ffff)),
        Ty::Signal => match value as i32 {
            0 => out.push('0'),
            number => out.push_str(&wording::signal(number)),
        },
        Ty::Flags(set) => out.push_str(&flags(set, value)),
        Ty::Address | Ty::TextList | Ty::XattrOut => address(out, value),
        Ty::Path | Ty::Text => text(out, call, value, arg.ty),
        Ty::In(len) => input(out, call, value, arg.shape, len),
        Ty::Out(_, when) | Ty::InOut(_, when) => output(out, call, value, arg.shape, when),
        Ty::OutSockLen(_) | Ty::OptionOut(_) | Ty::IfConf => {
            output(out, call, value, arg.shape, When::Success)
        }
        Ty::IovIn(count) => messages::vectors_in(out, call, value, call.event.arg(usize::from(count))),
        Ty::IovOut(_) => messages::vectors_out(out, call, value),
        Ty::MsgIn => messages::sent(out, call, value),
        Ty::MsgOut => messages::received(out, call, value),
        Ty::MmsgIn(_) | Ty::MmsgOut(_) => messages::lengths(out, call, value),
    }
}

/// Appends an address.
pub fn address(out: &mut String, value: u64) {
    match value {
        0 => out.push_str("NULL"),
        value => put(out, format_args!("{value:#x}")),
    }
}

/// A number in octal, as C writes it.
pub fn octal(value: u64) -> String {
    if value == 0 { "0".to_owned() } else { format!("0{value:o}") }
}

/// A value by the names of its flags.
fn flags(set: &'static FlagSet, value: u64) -> String {
    if std::ptr::eq(set, &OPEN) {
        return open_flags(value);
    }
    // The upper half of an int that is negative, or of a register that held
    // something else before.
    let value = if value >> 32 == 0xffff_ffff { value & 0xffff_ffff } else { value };
    let named = set.show(value).to_string();
    if named == "0x0" { "0".to_owned() } else { named }
}

/// The flags of an open file: reading only is a mode, though no bit is set.
pub fn open_flags(value: u64) -> String {
    const ACCESS_MASK: u64 = 3;
    let value = value & 0xffff_ffff;
    let named = OPEN.show(value).to_string();
    if value & ACCESS_MASK == 0 && value != 0 { format!("O_RDONLY|{named}") } else { named }
}

fn text(out: &mut String, call: &Call<'_>, value: u64, ty: Ty) {
    match call.blob(Tag::Text, value) {
        // Paths are what one looks for: they are not cut.
        Some(blob) if matches!(ty, Ty::Path) => quoted(out, without_end(blob.data)),
        Some(blob) => {
            let text = without_end(blob.data);
            bytes(out, text, text.len() as u64, call.showing.string_bytes_max);
        }
        None => address(out, value),
    }
}

fn without_end(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn input(out: &mut String, call: &Call<'_>, value: u64, shape: Shape, len: Len) {
    match call.blob(Tag::Sent, value) {
        Some(blob) => {
            let total = length(len, call).unwrap_or(blob.total_bytes).max(blob.total_bytes);
            shapes::show(out, shape, blob.data, total, call.showing.string_bytes_max);
        }
        None if value != 0 && length(len, call) == Some(0) && shape == Shape::Bytes => out.push_str("\"\""),
        None => address(out, value),
    }
}

fn output(out: &mut String, call: &Call<'_>, value: u64, shape: Shape, when: When) {
    match call.blob(Tag::Memory, value) {
        Some(blob) => shapes::show(out, shape, blob.data, blob.total_bytes, call.showing.string_bytes_max),
        // End of file: nothing was written, and that is what there is to read.
        None if value != 0 && shape == Shape::Bytes && when == When::Positive && call.event.result() == 0 => {
            out.push_str("\"\"");
        }
        None => address(out, value),
    }
}

/// Bytes behind an input, where the arguments tell.
fn length(len: Len, call: &Call<'_>) -> Option<u64> {
    let arg = |index: u8| call.event.arg(usize::from(index));
    let result = call.event.result().max(0) as u64;
    match len {
        Len::Fixed(bytes) => Some(u64::from(bytes)),
        Len::Arg(index) => Some(arg(index)),
        Len::ArgPlus(index, more) => Some(arg(index).saturating_add(u64::from(more))),
        Len::ArgTimes(index, size) => Some((arg(index) & 0xffff_ffff).saturating_mul(u64::from(size))),
        Len::Ret => Some(result),
        Len::RetPlus(more) => Some(result.saturating_add(u64::from(more))),
        Len::RetTimes(size) => Some(result.saturating_mul(u64::from(size))),
        Len::RetOrArg(index) => Some(result.min(arg(index))),
        Len::RetOrArgTimes(index, size) => Some(result.min(arg(index)).saturating_mul(u64::from(size))),
        Len::BitsOfArg(index) => Some((arg(index) & 0x7fff_ffff).div_ceil(64) * 8),
        Len::NodeMask(_)
        | Len::PagesOfArg(_)
        | Len::AtArg32(..)
        | Len::AtArg64(..)
        | Len::SelfSized32
        | Len::Text
        | Len::Counted { .. } => None,
    }
}
