//! Images that lie in memory which the program shares with its server (MIT-SHM).

use x11rb_protocol::protocol::xproto::Format;

use crate::packets::{Request, half, word};

const Z_PIXMAP: u8 = 2;
const PUT_IMAGE: u8 = 72;
/// The largest image of the protocol in the largest form.
const IMAGE_BYTES_MAX: usize = 1 << 28;

/// What a request of ShmPutImage says.
#[derive(Debug)]
pub struct SharedImage {
    pub segment: u32,
    offset: u64,
    total_width: usize,
    source: [usize; 2],
    size: [usize; 2],
    depth: u8,
    format: u8,
    /// Drawable, graphics context.
    head: [u8; 8],
    target: [u8; 4],
}

impl SharedImage {
    /// Reads the request, whose resources are those of the display by now.
    pub fn of(body: &[u8]) -> Option<SharedImage> {
        let number = |at: usize| half(body, at).map(usize::from);
        Some(SharedImage {
            head: body.get(..8)?.try_into().ok()?,
            total_width: number(8)?,
            source: [number(12)?, number(14)?],
            size: [number(16)?, number(18)?],
            target: body.get(20..24)?.try_into().ok()?,
            depth: *body.get(24)?,
            format: *body.get(25)?,
            segment: word(body, 28)?,
            offset: u64::from(word(body, 32)?),
        })
    }

    /// The same image in a request of its own, from memory; `None` where it has a form that cannot be cut out of
    /// the segment, or the memory is not there.
    pub fn request(
        &self,
        formats: &[Format],
        memory: impl Fn(u64, usize) -> Option<Vec<u8>>,
    ) -> Option<Request> {
        let form = formats.iter().find(|form| form.depth == self.depth)?;
        let (bits, pad) = (usize::from(form.bits_per_pixel), usize::from(form.scanline_pad));
        if self.format != Z_PIXMAP || bits % 8 != 0 || !matches!(pad, 8 | 16 | 32) {
            return None;
        }
        let line = |width: usize| (width * bits).next_multiple_of(pad) / 8;
        let (stride, out) = (line(self.total_width), line(self.size[0]));
        let [x, y] = self.source;
        if self.size[0] + x > self.total_width || stride.checked_mul(self.size[1])? > IMAGE_BYTES_MAX {
            return None;
        }
        let lines = memory(self.offset + (y * stride) as u64, stride * self.size[1])?;
        let mut body = self.head.to_vec();
        body.extend(self.size.iter().flat_map(|side| (*side as u16).to_le_bytes()));
        body.extend(self.target);
        body.extend([0, self.depth, 0, 0]);
        for line in lines.chunks_exact(stride.max(1)) {
            let begin = x * bits / 8;
            let end = body.len() + out;
            body.extend(line.get(begin..stride.min(begin + out))?);
            body.resize(end, 0);
        }
        Some(Request { major: PUT_IMAGE, detail: Z_PIXMAP, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_segment_is_cut_out() {
        let mut body = vec![7; 8];
        for number in [4u16, 2, 1, 1, 2, 1, 5, 6] {
            body.extend(number.to_le_bytes());
        }
        body.extend([24, Z_PIXMAP, 0, 0]);
        body.extend(9u32.to_le_bytes());
        body.extend(16u32.to_le_bytes());
        let image = SharedImage::of(&body).expect("an image");
        assert_eq!(image.segment, 9);
        let formats = [Format { depth: 24, bits_per_pixel: 32, scanline_pad: 32 }];
        let memory = |offset: u64, bytes: usize| {
            assert_eq!((offset, bytes), (16 + 16, 16), "the second line");
            Some((0..16).collect())
        };
        let request = image.request(&formats, memory).expect("a request");
        assert_eq!(request.body[8..20], [2, 0, 1, 0, 5, 0, 6, 0, 0, 24, 0, 0]);
        assert_eq!(request.body[20..], [4, 5, 6, 7, 8, 9, 10, 11]);
    }
}
