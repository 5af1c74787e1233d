//! Numbers of the recorded server, and what they are on the display.

use std::collections::HashMap;

use x11rb_protocol::protocol::xproto::{Format, Screen, Setup, VisualClass};

use crate::error::Error;
use crate::packets::{half, word};

/// None, CopyFromParent and ParentRelative are no resources.
const NO_RESOURCE_MAX: u32 = 1;

/// The numbers that one client may give, and what begins them on the display.
#[derive(Debug, Clone, Copy)]
struct Range {
    base: u32,
    mask: u32,
    real_base: u32,
    real_mask: u32,
}

/// What has which number on the display.
#[derive(Debug, Default)]
pub struct Ids {
    ranges: Vec<Range>,
    /// The recorded screen's window and its colormap.
    fixed: HashMap<u32, u32>,
    visuals: HashMap<u32, u32>,
    formats: HashMap<u32, u32>,
}

impl Ids {
    /// A client's numbers. The recorded server may give those of one that has gone to another.
    pub fn add_client(&mut self, recorded: &Setup, real: &Setup) {
        self.ranges.retain(|range| range.base != recorded.resource_id_base);
        self.ranges.push(Range {
            base: recorded.resource_id_base,
            mask: recorded.resource_id_mask,
            real_base: real.resource_id_base,
            real_mask: real.resource_id_mask,
        });
    }

    /// What stands for something that the recorded server had.
    pub fn set(&mut self, recorded: u32, real: u32) {
        self.fixed.insert(recorded, real);
    }

    pub fn resource(&self, id: u32) -> Option<u32> {
        if id <= NO_RESOURCE_MAX {
            return Some(id);
        }
        if let Some(&real) = self.fixed.get(&id) {
            return Some(real);
        }
        let range = self.ranges.iter().find(|range| id & !range.mask == range.base)?;
        let own = id & range.mask;
        (own & !range.real_mask == 0).then_some(range.real_base | own)
    }

    pub fn visual(&self, id: u32) -> Option<u32> {
        if id == 0 { Some(0) } else { self.visuals.get(&id).copied() }
    }

    pub fn format(&self, id: u32) -> Option<u32> {
        if id == 0 { Some(0) } else { self.formats.get(&id).copied() }
    }

    /// Finds each visual of the recorded screen on the display's.
    ///
    /// # Errors
    /// [`Error::Unlike`] where the screen's own is not there, or images have another form.
    pub fn match_screens(&mut self, recorded: &Setup, real: &Setup) -> Result<(), Error> {
        let (Some(screen), Some(other)) = (recorded.roots.first(), real.roots.first()) else {
            return Err(Error::NoX11("a server without a screen"));
        };
        let form = |setup: &Setup| (setup.image_byte_order, setup.bitmap_format_bit_order);
        if form(recorded) != form(real) {
            return Err(Error::Unlike(
                "the display has images of another byte order than the recorded one".to_owned(),
            ));
        }
        for (id, key) in visuals(screen) {
            if let Some((own, _)) = visuals(other).into_iter().find(|(_, other)| *other == key) {
                self.visuals.insert(id, own);
            }
        }
        if !self.visuals.contains_key(&screen.root_visual) {
            return Err(Error::Unlike(format!(
                "the recorded screen has colors of {} bits, and the display has none like that: start a virtual one (Xvfb :5 -screen 0 {}x{}x{}) and give --display :5",
                screen.root_depth, screen.width_in_pixels, screen.height_in_pixels, screen.root_depth
            )));
        }
        for format in &recorded.pixmap_formats {
            let shape = |of: &Format| (of.bits_per_pixel, of.scanline_pad);
            let own = real.pixmap_formats.iter().find(|own| own.depth == format.depth);
            if own.is_some_and(|own| shape(own) != shape(format)) {
                return Err(Error::Unlike(format!(
                    "the display has images of {} bits in another form than the recorded one",
                    format.depth
                )));
            }
        }
        Ok(())
    }

    /// Finds formats of pictures by what they are.
    pub fn match_formats(&mut self, recorded: &[u8], real: &[u8]) {
        let own = formats(real);
        for (id, key) in formats(recorded) {
            if let Some((real, _)) = own.iter().find(|(_, other)| *other == key) {
                self.formats.insert(id, *real);
            }
        }
    }
}

/// Depth, class and masks of a visual.
type VisualKey = (u8, u8, [u32; 3]);

/// The visuals of a screen where a color is its own number.
fn visuals(screen: &Screen) -> Vec<(u32, VisualKey)> {
    let is_direct =
        |class: VisualClass| class == VisualClass::TRUE_COLOR || class == VisualClass::DIRECT_COLOR;
    let mut found = Vec::new();
    for depth in &screen.allowed_depths {
        for visual in depth.visuals.iter().filter(|visual| is_direct(visual.class)) {
            let masks = [visual.red_mask, visual.green_mask, visual.blue_mask];
            found.push((visual.visual_id, (depth.depth, u8::from(visual.class), masks)));
        }
    }
    found
}

/// Numbers of formats in a reply to QueryPictFormats, each with its kind, depth, shifts and masks. Those with a
/// colormap are left out.
fn formats(reply: &[u8]) -> Vec<(u32, Vec<u8>)> {
    const HEADER_BYTES: usize = 32;
    const FORMAT_BYTES: usize = 28;
    const DIRECT: u8 = 1;
    let count = word(reply, 8).unwrap_or(0) as usize;
    let formats = reply.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(FORMAT_BYTES).take(count);
    let is_direct = |format: &&[u8]| format[4] == DIRECT && half(format, 6).is_some();
    formats
        .filter(is_direct)
        .filter_map(|format| {
            let key = [&format[4..6], &format[8..24]].concat();
            Some((word(format, 0)?, key))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_keep_their_lower_bits() {
        let mut ids = Ids::default();
        ids.ranges.push(Range { base: 0x20_0000, mask: 0x1f_ffff, real_base: 0x60_0000, real_mask: 0xffff });
        ids.set(0x3a1, 0x60_0001);
        assert_eq!(ids.resource(0x20_0007), Some(0x60_0007));
        assert_eq!(ids.resource(0x3a1), Some(0x60_0001));
        assert_eq!(ids.resource(1), Some(1));
        assert_eq!(ids.resource(0x21_0000), None, "more than the display has numbers for");
        assert_eq!(ids.resource(0x40_0000), None, "another client's, which was not recorded");
    }
}
