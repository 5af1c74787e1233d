//! The structures behind pointers.
//!
//! Architecture invariant: bytes of a trace are bytes of a program, which may be
//! anything: a structure that is too short is shown as bytes, and nothing here
//! can fail.

mod files;
mod polling;
mod processes;
mod sockets;

use syscall_model::Shape;

use super::quote::{bytes, put};
use crate::wording;

/// Elements of a list that are shown.
const ELEMENTS_MAX: usize = 32;

/// Numbers at places in bytes, little-endian.
#[derive(Clone, Copy)]
struct Fields<'a> {
    data: &'a [u8],
}

impl<'a> Fields<'a> {
    fn u16(self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.data.get(at..at + 2)?.try_into().ok()?))
    }

    fn u32(self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.data.get(at..at + 4)?.try_into().ok()?))
    }

    fn i32(self, at: usize) -> Option<i32> {
        self.u32(at).map(|value| value as i32)
    }

    fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.data.get(at..at + 8)?.try_into().ok()?))
    }

    fn i64(self, at: usize) -> Option<i64> {
        self.u64(at).map(|value| value as i64)
    }

    /// The elements of an array, as far as they are whole.
    fn each(self, element_bytes: usize) -> impl Iterator<Item = Fields<'a>> {
        self.data.chunks_exact(element_bytes).map(|data| Fields { data })
    }

    /// The NUL-terminated string that starts here.
    fn text(self, at: usize) -> Option<&'a [u8]> {
        self.data.get(at..)?.split(|&byte| byte == 0).next()
    }
}

/// Appends a structure. `data` is its beginning, `total_bytes` how long it is,
/// `shown_max` how many bytes of a string are shown.
pub fn show(out: &mut String, shape: Shape, data: &[u8], total_bytes: u64, shown_max: usize) {
    let fields = Fields { data };
    let start = out.len();
    if structure(out, shape, fields, total_bytes, shown_max).is_none() {
        out.truncate(start);
        opaque(out, data, total_bytes, shown_max);
    }
}

fn structure(
    out: &mut String,
    shape: Shape,
    fields: Fields<'_>,
    total_bytes: u64,
    shown_max: usize,
) -> Option<()> {
    match shape {
        Shape::Bytes => bytes(out, fields.data, total_bytes, shown_max),
        Shape::Plain | Shape::Opaque => return None,
        Shape::I32 => put(out, format_args!("[{}]", fields.i32(0)?)),
        Shape::U32 => put(out, format_args!("[{}]", fields.u32(0)?)),
        Shape::U64 if total_bytes > 8 => {
            let numbers = fields.each(8).map(|each| each.u64(0).unwrap_or(0).to_string());
            list(out, numbers, total_bytes / 8);
        }
        Shape::U64 => put(out, format_args!("[{}]", fields.u64(0)?)),
        Shape::I32Pair => put(out, format_args!("[{}, {}]", fields.i32(0)?, fields.i32(4)?)),
        Shape::Timespec => out.push_str(&time(fields, 0, "tv_nsec")?),
        Shape::Timeval => out.push_str(&time(fields, 0, "tv_usec")?),
        Shape::Itimerspec => timer(out, fields, "tv_nsec")?,
        Shape::Itimerval => timer(out, fields, "tv_usec")?,
        Shape::Stat => files::stat(out, fields)?,
        Shape::Statx => files::statx(out, fields)?,
        Shape::Statfs => files::statfs(out, fields)?,
        Shape::Dirents => files::entries(out, fields, total_bytes),
        Shape::SockAddr => sockets::address(out, fields, total_bytes, shown_max)?,
        Shape::PollFds => polling::poll(out, fields, total_bytes),
        Shape::EpollEvents => polling::epoll(out, fields, total_bytes),
        Shape::FdSet => polling::descriptors(out, fields),
        Shape::Sigset => out.push_str(&signals(fields.u64(0)?)),
        Shape::Sigaction => processes::action(out, fields)?,
        Shape::Siginfo => processes::signal_info(out, fields)?,
        Shape::WaitStatus => processes::wait_status(out, fields.u32(0)?),
        Shape::Rlimit => processes::limit(out, fields)?,
        Shape::Rusage => processes::usage(out, fields)?,
        Shape::Utsname => processes::system_name(out, fields)?,
        Shape::Winsize => {
            let [rows, columns, width, height] =
                [fields.u16(0)?, fields.u16(2)?, fields.u16(4)?, fields.u16(6)?];
            put(
                out,
                format_args!("{{ws_row={rows}, ws_col={columns}, ws_xpixel={width}, ws_ypixel={height}}}"),
            );
        }
        Shape::Termios => {
            let [input, output, control, local] =
                [fields.u32(0)?, fields.u32(4)?, fields.u32(8)?, fields.u32(12)?];
            put(
                out,
                format_args!(
                    "{{c_iflag={input:#x}, c_oflag={output:#x}, c_cflag={control:#x}, c_lflag={local:#x}, ...}}"
                ),
            );
        }
    }
    Some(())
}

/// Bytes that nobody prints field by field: in hexadecimal.
fn opaque(out: &mut String, data: &[u8], total_bytes: u64, shown_max: usize) {
    put(out, format_args!("{{{total_bytes} bytes:"));
    let shown = &data[..data.len().min(shown_max)];
    for byte in shown {
        put(out, format_args!(" {byte:02x}"));
    }
    out.push_str(if (shown.len() as u64) < total_bytes { " ...}" } else { "}" });
}

/// A list of at most [`ELEMENTS_MAX`] elements of `total`.
fn list(out: &mut String, elements: impl Iterator<Item = String>, total: u64) {
    let shown: Vec<String> = elements.take(ELEMENTS_MAX).collect();
    let more = if (shown.len() as u64) < total { ", ..." } else { "" };
    put(out, format_args!("[{}{}]", shown.join(", "), if shown.is_empty() { "" } else { more }));
}

/// `struct timespec` or `struct timeval` at this place.
fn time(fields: Fields<'_>, at: usize, fraction: &str) -> Option<String> {
    let (seconds, rest) = (fields.i64(at)?, fields.i64(at + 8)?);
    // UTIME_NOW and UTIME_OMIT of utimensat.
    Some(match rest {
        0x3fff_ffff => "UTIME_NOW".to_owned(),
        0x3fff_fffe => "UTIME_OMIT".to_owned(),
        _ => format!("{{tv_sec={seconds}, {fraction}={rest}}}"),
    })
}

fn timer(out: &mut String, fields: Fields<'_>, fraction: &str) -> Option<()> {
    let (interval, value) = (time(fields, 0, fraction)?, time(fields, 16, fraction)?);
    put(out, format_args!("{{it_interval={interval}, it_value={value}}}"));
    Some(())
}

/// A set of signals; of a nearly full one the signals that it lacks.
fn signals(set: u64) -> String {
    let names = |set: u64| {
        let of = |number: i32| wording::signal(number).trim_start_matches("SIG").to_owned();
        let all: Vec<String> = (1..=64).filter(|number| set & 1 << (number - 1) != 0).map(of).collect();
        all.join(" ")
    };
    if set.count_ones() > 32 { format!("~[{}]", names(!set)) } else { format!("[{}]", names(set)) }
}

#[cfg(test)]
mod tests;
