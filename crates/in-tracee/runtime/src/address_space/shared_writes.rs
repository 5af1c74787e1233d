//! Replay under the debugger: the pages of shared memory that a process writes while it has the
//! token, for the one that is debugged, see `imports`.
//!
//! They are found by asynchronous write protection, as for preemptions (see `page_tracker`, which has
//! no part in replay), of what the process shares and of nothing else. Where protection is refused,
//! at first, and where mappings of shared memory changed, any page may have been written. What the
//! kernel takes out of the page table while memory is short counts as written if it was.
//!
//! Invariant: what a process wrote to shared memory is noted before another one holds the token.

use crate::address_space::written_pages::Uffd;
use crate::address_space::{mapped_files, written_pages as kernel_view};
use crate::ground::owned::{Held, Owned};
use crate::state::block::{process, session};
use crate::state::group_replay;
use crate::state::own_descriptors::{close, open_high};

const PAGE_BYTES: u64 = 4096;
const VIEWS: usize = 256;

/// A mapping of shared memory.
#[derive(Clone, Copy)]
struct View {
    start: u64,
    end: u64,
    inode: u64,
    offset: u64,
}

struct Watch {
    /// Plus one; 0: none.
    uffd: i32,
    /// The page map, plus one; 0: none.
    pagemap: i32,
    /// `views` are under protection.
    is_listed: bool,
    /// Something happened to mappings since.
    is_disturbed: bool,
    count: usize,
    views: [View; VIEWS],
}

const NO_VIEW: View = View { start: 0, end: 0, inode: 0, offset: 0 };
static WATCH: Owned<Watch> = Owned::new(Watch {
    uffd: 0,
    pagemap: 0,
    is_listed: false,
    is_disturbed: false,
    count: 0,
    views: [NO_VIEW; VIEWS],
});

fn watch() -> Held<Watch> {
    WATCH.hold()
}

/// The process is about to release the token to another one.
pub fn tell() {
    // The one that is debugged knows what it wrote.
    if !group_replay::are_wanted() || process().has_agent() {
        return;
    }
    let written = &session().imports.written;
    // Descriptors are its parent's.
    if process().slot != 0 {
        return written.note_any();
    }
    if !watch().look() {
        written.note_any();
    }
}

/// A child of fork: nothing of its memory is protected, and the descriptors are its parent's.
pub fn begin_child() {
    watch().close();
}

/// Memory at these addresses is no more what it was, or is about to be moved.
pub fn disturb(start: u64, bytes: u64) {
    let watch = &mut *watch();
    let end = start.saturating_add(bytes);
    if watch.views[..watch.count].iter().any(|view| view.start < end && start < view.end) {
        watch.is_disturbed = true;
        // mremap(2) is refused where a part is protected.
        watch.unregister();
    }
}

/// What stands for shared memory was opened, or is longer or shorter.
pub fn disturb_all() {
    watch().is_disturbed = true;
}

impl Watch {
    /// False: what was written is not known.
    fn look(&mut self) -> bool {
        if core::mem::take(&mut self.is_disturbed) || !self.is_listed {
            self.unregister();
            self.is_listed = self.begin();
            return false;
        }
        let written = &session().imports.written;
        let pagemap = self.pagemap - 1;
        self.views[..self.count].iter().all(|view| {
            kernel_view::scan_written(pagemap, view.start, view.end, &mut |start, end| {
                view.note(start, end, written);
            })
        })
    }

    /// Lists what is shared, and protects it; false if it is not, and the next look begins anew.
    fn begin(&mut self) -> bool {
        let mut is_complete = true;
        self.count = 0;
        let views = mapped_files::for_each_view(&mut |mapping| {
            let [start, end, inode, offset] = [mapping.start, mapping.end, mapping.inode, mapping.offset];
            match self.views.get_mut(self.count) {
                Some(view) => {
                    *view = View { start, end, inode, offset };
                    self.count += 1;
                }
                None => is_complete = false,
            }
        });
        if !views || !is_complete || !self.open() {
            return false;
        }
        let (uffd, pagemap) = (Uffd { fd: self.uffd - 1 }, self.pagemap - 1);
        self.views[..self.count].iter().all(|view| {
            uffd.register(view.start, view.end) && kernel_view::protect(pagemap, view.start, view.end)
        })
    }

    fn open(&mut self) -> bool {
        if self.uffd == 0 {
            self.uffd = Uffd::open().map_or(0, |uffd| uffd.fd + 1);
        }
        if self.pagemap == 0 {
            self.pagemap = open_high(kernel_view::PAGEMAP).map_or(0, |fd| fd + 1);
        }
        self.uffd != 0 && self.pagemap != 0
    }

    fn unregister(&mut self) {
        if self.uffd != 0 {
            let uffd = Uffd { fd: self.uffd - 1 };
            self.views[..self.count].iter().for_each(|view| uffd.unregister(view.start, view.end));
        }
        self.is_listed = false;
        self.count = 0;
    }

    fn close(&mut self) {
        for own in [&mut self.uffd, &mut self.pagemap] {
            if *own != 0 {
                close(*own - 1);
                *own = 0;
            }
        }
        (self.is_listed, self.is_disturbed, self.count) = (false, false, 0);
    }
}

impl View {
    fn note(&self, start: u64, end: u64, written: &lane_protocol::WrittenPages) {
        for address in (start..end).step_by(PAGE_BYTES as usize) {
            let page = (self.offset + (address - self.start)) / PAGE_BYTES;
            written.note(lane_protocol::WrittenPages::page_of(self.inode, page));
        }
    }
}
