//! A system call with its meaning: which arguments it has, and how its result reads.

use events::{DETECTED, ENDS_THREAD, Event, REFUSED, Tag};
use syscall_model::variants::ALL;
use syscall_model::{Act, Arg, Row, Ty, Variant, VariantTable, row};

use super::quote::put;
use super::{Showing, arguments, names};
use crate::lane_events::{BlobView, WholeEvent};

/// A call of the log and what the model says of it.
pub struct Call<'a> {
    pub whole: &'a WholeEvent,
    pub event: Event<'a>,
    pub showing: &'a Showing<'a>,
    row: Option<&'static Row>,
    /// The table that an argument selects from, and what it selects.
    table: Option<&'static VariantTable>,
    variant: Option<&'static Variant>,
    model: &'static [Arg],
}

impl<'a> Call<'a> {
    /// Looks up what the call means.
    pub fn new(whole: &'a WholeEvent, showing: &'a Showing<'a>) -> Call<'a> {
        let event = whole.event();
        let row = row(u64::from(whole.code));
        let table = row.and_then(|row| match row.act {
            Act::Variant(table) => Some(table),
            Act::Execute(_) => ALL.iter().find(|table| table.name == row.name).copied(),
            Act::Inject | Act::Reject(_) | Act::PageDiff | Act::Options(_) => None,
        });
        let variant = table.and_then(|table| table.find(event.arg(usize::from(table.selector))));
        let model = variant.map_or_else(|| row.map_or(&[] as &[Arg], |row| row.args), |variant| variant.args);
        Call { whole, event, showing, row, table, variant, model }
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.row.map_or_else(|| format!("syscall_{}", self.whole.code), |row| row.name.to_owned())
    }

    /// The request that an argument selects, if the model knows it.
    pub fn request(&self) -> Option<&'static str> {
        self.variant.map(|variant| variant.name)
    }

    /// Indices of the arguments that are shown.
    pub fn arguments(&self) -> std::ops::Range<usize> {
        let logged = self.event.arg_count();
        let count = if self.model.is_empty() { logged } else { self.model.len().min(logged) };
        let last_is_noise =
            count == 4 && self.is_mode_without_meaning() || count == 3 && self.is_mode_without_meaning();
        0..if last_is_noise { count - 1 } else { count }
    }

    /// The mode of an open that creates nothing is what happened to be in a register.
    fn is_mode_without_meaning(&self) -> bool {
        const CREATING: u64 = 0o100 | 0o20_000_000;
        let flags = match self.row.map(|row| row.name) {
            Some("open") => 1,
            Some("openat") => 2,
            Some(_) | None => return false,
        };
        self.event.arg_count() == flags + 2 && self.event.arg(flags) & CREATING == 0
    }

    /// True if the log does not hold the arguments (the return in a new process).
    pub fn lacks_arguments(&self) -> bool {
        self.event.arg_count() == 0 && !self.model.is_empty()
    }

    /// What the model says of an argument.
    pub fn model(&self, index: usize) -> Option<&'static Arg> {
        self.model.get(index)
    }

    /// An argument's name, or its number where nobody knows it.
    pub fn argument_name(&self, index: usize) -> String {
        self.model(index).map_or_else(|| format!("arg{index}"), |arg| arg.name.to_owned())
    }

    /// Appends an argument.
    pub fn argument(&self, out: &mut String, index: usize) {
        let value = self.event.arg(index);
        if let (Some(table), Some(variant)) = (self.table, self.variant)
            && usize::from(table.selector) == index
        {
            out.push_str(variant.name);
            return;
        }
        match self.model(index) {
            Some(arg) => arguments::show(out, self, index, arg),
            None => put(out, format_args!("{value:#x}")),
        }
        if let (Some(Ty::Fd), Some(path)) = (self.model(index).map(|arg| arg.ty), self.mapped_path()) {
            put(out, format_args!("<{}>", crate::wording::printable(path)));
        }
    }

    /// Path of the file that a mapping shows.
    fn mapped_path(&self) -> Option<&[u8]> {
        self.showing.files.get(&self.mapped_file()?).copied()
    }

    fn mapped_file(&self) -> Option<u32> {
        let data = self.whole.blob(Tag::FileRef)?.data;
        Some(u32::from_le_bytes(data.get(..4)?.try_into().ok()?))
    }

    /// The blob with this tag at an address.
    pub fn blob(&self, tag: Tag, address: u64) -> Option<BlobView<'a>> {
        self.whole.blobs().find(|blob| blob.tag == tag && blob.address == address)
    }

    /// Blobs with this tag that no argument points to directly: the targets of vectors.
    pub fn loose_blobs(&self, tag: Tag) -> impl Iterator<Item = BlobView<'a>> {
        let count = self.event.arg_count();
        let pointed = move |address: u64| {
            (0..count).any(|index| self.event.arg(index) == address && self.points(index))
        };
        self.whole.blobs().filter(move |blob| blob.tag == tag && !pointed(blob.address))
    }

    /// True if the kernel takes the argument for an address.
    fn points(&self, index: usize) -> bool {
        self.model(index).is_some_and(|arg| match arg.ty {
            Ty::In(_) | Ty::Out(..) | Ty::InOut(..) | Ty::OutSockLen(_) | Ty::OptionOut(_) | Ty::IfConf => {
                true
            }
            Ty::MsgIn | Ty::MsgOut | Ty::MmsgIn(_) | Ty::MmsgOut(_) | Ty::Path | Ty::Text => true,
            Ty::IovIn(_) | Ty::IovOut(_) | Ty::TextList | Ty::Address | Ty::XattrOut => false,
            Ty::Int | Ty::Uint | Ty::Long | Ty::Size | Ty::Hex | Ty::Fd | Ty::DirFd | Ty::Pid => false,
            Ty::Id | Ty::Mode | Ty::Signal | Ty::Flags(_) => false,
        })
    }

    /// Appends the result with what it means.
    pub fn result(&self, out: &mut String) {
        let result = self.event.result();
        if self.whole.is_filtered() && result == ENDS_THREAD {
            out.push('?');
            return;
        }
        if let Some(number) = names::error_of(result) {
            let (name, text) = names::error(number);
            let shown = if name.starts_with("ERESTART") { "?" } else { "-1" };
            put(out, format_args!("{shown} {name} ({text})"));
            return;
        }
        match (self.row.map_or("", |row| row.name), self.request()) {
            ("mmap" | "brk" | "mremap" | "shmat" | "map_shadow_stack", _) => {
                put(out, format_args!("{result:#x}"))
            }
            ("umask", _) => put(out, format_args!("{}", arguments::octal(result as u64))),
            ("fcntl", Some("F_GETFL")) => {
                put(out, format_args!("{result:#x} (flags {})", arguments::open_flags(result as u64)));
            }
            _ => put(out, format_args!("{result}")),
        }
    }

    /// Appends what retrovane has to say of the call.
    pub fn marks(&self, out: &mut String) {
        if self.whole.is_filtered() {
            out.push_str(" <filtered>");
            return;
        }
        if self.whole.has_flag(REFUSED) {
            out.push_str(" <refused>");
        }
        let file = self.whole.read_file.or_else(|| self.mapped_file());
        if let Some(path) = file.and_then(|file| self.showing.referred.get(&file)) {
            put(out, format_args!(" <refer: {}>", crate::wording::printable(path)));
        }
        if self.whole.has_flag(DETECTED) {
            match self.loose_blobs(Tag::Memory).next() {
                Some(blob) => {
                    put(out, format_args!(" <detected: {} bytes at {:#x}>", blob.total_bytes, blob.address))
                }
                None => out.push_str(" <detected>"),
            }
        }
    }
}
