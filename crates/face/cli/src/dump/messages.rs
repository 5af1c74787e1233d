//! Vectors and messages: memory that memory points to.

use events::Tag;
use syscall_model::Shape;
use syscall_model::flags::sockets::MSG;

use super::arguments::address;
use super::call::Call;
use super::quote::{bytes, put};
use super::shapes;
use crate::control_messages::{ControlMessage, control_messages};

/// Bytes of `struct msghdr`.
const HEADER_BYTES: u64 = 56;
/// Bytes of `struct mmsghdr`.
const COUNTED_HEADER_BYTES: u64 = 64;
/// Where the address of the control data stands in it.
const CONTROL_AT: u64 = 32;
/// Messages of which the lengths are shown.
const SHOWN_MAX: u64 = 16;

/// Vectors that the kernel reads: the log holds the start of the first.
pub fn vectors_in(out: &mut String, call: &Call<'_>, value: u64, count: u64) {
    let Some(blob) = call.loose_blobs(Tag::Sent).next() else { return address(out, value) };
    // The log holds at most so much of what is sent: there may be more.
    let more = u64::from(blob.total_bytes >= 48);
    out.push_str("[{iov_base=");
    bytes(out, blob.data, blob.total_bytes + more, call.showing.string_bytes_max);
    out.push_str(if count > 1 { "}, ...]" } else { "}]" });
}

/// Vectors that the kernel filled.
pub fn vectors_out(out: &mut String, call: &Call<'_>, value: u64) {
    let mut separator = "[";
    for blob in call.loose_blobs(Tag::Memory) {
        put(out, format_args!("{separator}{{iov_base="));
        bytes(out, blob.data, blob.total_bytes, call.showing.string_bytes_max);
        put(out, format_args!(", {} bytes}}", blob.total_bytes));
        separator = ", ";
    }
    if separator == "[" { address(out, value) } else { out.push(']') }
}

/// A message that was received: name, data, control data, flags.
pub fn received(out: &mut String, call: &Call<'_>, value: u64) {
    let header = call.blob(Tag::Memory, value).filter(|blob| blob.total_bytes == HEADER_BYTES);
    let Some(header) = header else { return address(out, value) };
    let word = |index: usize| {
        let at = index * 8;
        header.data.get(at..at + 8).and_then(|data| data.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    let (name, control, flags) = (word(0), word(4), word(6) & 0xffff_ffff);
    let shown_max = call.showing.string_bytes_max;
    out.push_str("{msg_name=");
    match call.blob(Tag::Memory, name).filter(|_| name != 0) {
        Some(blob) => shapes::show(out, Shape::SockAddr, blob.data, blob.total_bytes, shown_max),
        None => address(out, name),
    }
    out.push_str(", msg_iov=[");
    let mut separator = "";
    for blob in call.loose_blobs(Tag::Memory).filter(|blob| blob.address != name && blob.address != control) {
        put(out, format_args!("{separator}{{iov_base="));
        bytes(out, blob.data, blob.total_bytes, shown_max);
        out.push('}');
        separator = ", ";
    }
    out.push(']');
    if let Some(blob) = call.blob(Tag::Memory, control).filter(|_| control != 0) {
        out.push_str(", msg_control=");
        show_control(out, blob.data);
    }
    put(out, format_args!(", msg_flags={}}}", MSG.show(flags)));
}

/// Control data: descriptors that were passed by their numbers, else the sizes.
fn show_control(out: &mut String, data: &[u8]) {
    out.push('[');
    let mut separator = "";
    for message in control_messages(data) {
        out.push_str(separator);
        match message {
            ControlMessage::Descriptors(descriptors) => {
                let descriptors: Vec<String> = descriptors.iter().map(i32::to_string).collect();
                put(out, format_args!("{{SCM_RIGHTS [{}]}}", descriptors.join(", ")));
            }
            ControlMessage::Other { level, kind, content } => {
                put(out, format_args!("{{level={level}, type={kind}, {} bytes}}", content.len()));
            }
        }
        separator = ", ";
    }
    out.push(']');
}

/// A message that was sent: of it the log has the descriptors that went with it.
pub fn sent(out: &mut String, call: &Call<'_>, value: u64) {
    let Some(control) = call.loose_blobs(Tag::Sent).next() else { return address(out, value) };
    out.push_str("{msg_control=");
    show_control(out, control.data);
    out.push('}');
}

/// Several messages: how long each of them was.
pub fn lengths(out: &mut String, call: &Call<'_>, value: u64) {
    let count = call.event.result().clamp(0, SHOWN_MAX as i64) as u64;
    let length = |index: u64| {
        let at = value.wrapping_add(index * COUNTED_HEADER_BYTES);
        // Sent: one blob with all the headers. Received: a blob for each length.
        let received = call.blob(Tag::Memory, at.wrapping_add(HEADER_BYTES)).map(|blob| blob.data);
        let sent = || {
            let all = call.blob(Tag::Memory, value)?;
            all.data.get((index * COUNTED_HEADER_BYTES + HEADER_BYTES) as usize..)
        };
        let data = received.or_else(sent)?;
        Some(u32::from_le_bytes(data.get(..4)?.try_into().ok()?))
    };
    let control = |index: u64| {
        let at = (index * COUNTED_HEADER_BYTES + CONTROL_AT) as usize;
        let all = call.blob(Tag::Memory, value)?;
        let address = u64::from_le_bytes(all.data.get(at..at + 8)?.try_into().ok()?);
        let mut shown = ", msg_control=".to_owned();
        show_control(&mut shown, call.blob(Tag::Sent, address)?.data);
        Some(shown)
    };
    let shown =
        |index: u64| Some(format!("{{msg_len={}{}}}", length(index)?, control(index).unwrap_or_default()));
    let lengths: Vec<String> = (0..count).filter_map(shown).collect();
    if lengths.is_empty() { address(out, value) } else { put(out, format_args!("[{}]", lengths.join(", "))) }
}
