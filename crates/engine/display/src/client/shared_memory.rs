//! Memory that a client shares with its server (MIT-SHM): images that are put from it, and pixmaps in it.
//!
//! The display does not have the memory. A pixmap in it is one of the display's own, which gets what is in
//! the memory before each request that names it, if that has changed.

use std::collections::VecDeque;

use super::*;
use crate::images::{SharedImage, image_bytes, stride, strips};

/// A pixmap that lies in a segment.
#[derive(Debug)]
struct SharedPixmap {
    /// The program's number of it.
    id: u32,
    /// It has not been freed: what pictures still show of it stays as it is.
    is_named: bool,
    segment: Segment,
    offset: u64,
    size: [u16; 2],
    depth: u8,
    /// What was in the memory when the display got it.
    sent: Option<Vec<u8>>,
}

/// What one client shares.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    /// By the program's names for them.
    segments: HashMap<u32, Segment>,
    pixmaps: HashMap<usize, SharedPixmap>,
    /// Pixmaps and pictures that show what is in one of them.
    names: HashMap<u32, usize>,
    made: usize,
    /// Descriptors that came from the server, and went there, and of which no request has told yet.
    pub received: VecDeque<u32>,
    pub sent: VecDeque<u32>,
}

/// Segments are read here, not by the display.
pub(super) fn is_read_here(act: Act) -> bool {
    use Act::{AskSegment, AttachDescriptor, AttachSegment, SharedImage, SharedPixmap};
    matches!(act, AskSegment | AttachDescriptor | AttachSegment | SharedImage | SharedPixmap)
}

impl SharedMemory {
    /// The program tells of a segment.
    pub fn attach(&mut self, act: Act, body: &[u8]) {
        let Some(name) = word(body, 0) else { return };
        let segment = match act {
            Act::AttachDescriptor => self.sent.pop_front().map(Segment::Passed),
            _ => word(body, 4).map(Segment::SystemV),
        };
        if let Some(segment) = segment {
            self.segments.insert(name, segment);
        }
    }

    /// The server made a segment.
    pub fn attach_received(&mut self, name: u32) {
        if let Some(descriptor) = self.received.pop_front() {
            self.segments.insert(name, Segment::Passed(descriptor));
        }
    }

    /// Descriptors that are of no interest.
    pub fn pass_over_received(&mut self, count: usize) {
        self.received.drain(..count.min(self.received.len()));
    }

    /// The same of those that the program sent.
    pub fn pass_over_sent(&mut self, count: usize) {
        self.sent.drain(..count.min(self.sent.len()));
    }

    /// A picture is made of a drawable.
    pub fn note_picture(&mut self, body: &[u8]) {
        let pixmap = word(body, 4).and_then(|drawable| self.names.get(&drawable).copied());
        if let (Some(picture), Some(pixmap)) = (word(body, 0), pixmap) {
            self.names.insert(picture, pixmap);
        }
    }

    /// A pixmap or picture is gone; what the others show stays.
    pub fn forget(&mut self, body: &[u8]) {
        let Some(id) = word(body, 0) else { return };
        let gone = self.names.remove(&id);
        if let Some(pixmap) = gone.and_then(|pixmap| self.pixmaps.get_mut(&pixmap)) {
            pixmap.is_named &= pixmap.id != id;
        }
        if let Some(pixmap) = gone.filter(|pixmap| !self.names.values().any(|other| other == pixmap)) {
            self.pixmaps.remove(&pixmap);
        }
    }
}

impl Client {
    pub(super) fn shared_image(
        &mut self,
        row: &Row,
        mut request: Request,
        segments: &dyn Segments,
    ) -> Result<(), Error> {
        let translated = translate(row, &mut request.body, &self.world.state().ids);
        let formats = self.recorded.as_ref().map_or(&[][..], |setup| &setup.pixmap_formats);
        let image = SharedImage::of(&request.body);
        let put = image.as_ref().and_then(|image| {
            let segment = *self.memory.segments.get(&image.segment)?;
            image.requests(formats, |offset, bytes| segments.read(segment, offset, bytes))
        });
        match (translated, put, &mut self.server) {
            (Ok(_), Some(put), Some(server)) => {
                put.iter().try_for_each(|strip| server.send_tagged("MIT-SHM PutImage", self.sequence, strip))
            }
            (Err(why), ..) => {
                self.world.state().note_unsent(format!("MIT-SHM PutImage {}", why.reason()));
                Ok(())
            }
            _ => {
                let why = "MIT-SHM PutImage shows memory that is not known here".to_owned();
                self.world.state().note_unsent(why);
                Ok(())
            }
        }
    }

    /// A pixmap is made in a segment.
    pub(super) fn shared_pixmap(&mut self, row: &Row, mut request: Request) -> Result<(), Error> {
        const CREATE_PIXMAP: u8 = 53;
        let body = &request.body;
        let shared = || {
            Some(SharedPixmap {
                id: word(body, 0)?,
                is_named: true,
                segment: *self.memory.segments.get(&word(body, 16)?)?,
                offset: word(body, 20)?.into(),
                size: [half(body, 8)?, half(body, 10)?],
                depth: *body.get(12)?,
                sent: None,
            })
        };
        let Some(shared) = shared() else {
            let why = "MIT-SHM CreatePixmap has memory that is not known here".to_owned();
            self.world.state().note_unsent(why);
            return Ok(());
        };
        if let Err(why) = translate(row, &mut request.body, &self.world.state().ids) {
            self.world.state().note_unsent(format!("MIT-SHM CreatePixmap {}", why.reason()));
            return Ok(());
        }
        request = Request { major: CREATE_PIXMAP, detail: shared.depth, body: request.body };
        // Drawable and size stand at the same places there.
        request.body.truncate(12);
        self.memory.made += 1;
        self.memory.names.insert(shared.id, self.memory.made);
        self.memory.pixmaps.insert(self.memory.made, shared);
        match &mut self.server {
            Some(server) => server.send_tagged("MIT-SHM CreatePixmap", self.sequence, &request),
            None => Ok(()),
        }
    }

    /// Pixmaps among these resources get what is in their memory.
    pub(super) fn refresh(&mut self, named: &[u32], segments: &dyn Segments) -> Result<(), Error> {
        for id in named {
            let Some(&pixmap) = self.memory.names.get(id) else { continue };
            let pixmap = self.memory.pixmaps.get_mut(&pixmap).filter(|pixmap| pixmap.is_named);
            let Some(pixmap) = pixmap else { continue };
            let formats = self.recorded.as_ref().map_or(&[][..], |setup| &setup.pixmap_formats);
            let form = formats.iter().find(|form| form.depth == pixmap.depth);
            let [width, height] = pixmap.size.map(usize::from);
            let Some(stride) = form.and_then(|form| stride(form, width)) else { continue };
            let bytes = image_bytes(stride, height);
            let now = bytes.and_then(|bytes| segments.read(pixmap.segment, pixmap.offset, bytes));
            let mut state = self.world.state();
            let Some(now) = now else {
                // Memory that is gone shows what it had.
                if pixmap.sent.is_none() {
                    state.note_unsent("a pixmap of MIT-SHM has memory that is not known here".to_owned());
                }
                continue;
            };
            if pixmap.sent.as_ref() == Some(&now) {
                continue;
            }
            let target = state.ids.resource(pixmap.id);
            let (Some(context), Some(target)) = (state.context(pixmap.depth)?, target) else { continue };
            drop(state);
            let Some(server) = &mut self.server else { continue };
            let mut head = [0; 8];
            head[..4].copy_from_slice(&target.to_le_bytes());
            head[4..].copy_from_slice(&context.to_le_bytes());
            for strip in strips(head, [0, 0], width, pixmap.depth, stride, &now) {
                server.send_tagged("the memory of a pixmap of MIT-SHM", self.sequence, &strip)?;
            }
            pixmap.sent = Some(now);
        }
        Ok(())
    }
}
