//! Images that lie in memory which the program shares with its server (MIT-SHM), as requests of their own.

use x11rb_protocol::protocol::xproto::Format;

use crate::packets::{Request, half, word};

const Z_PIXMAP: u8 = 2;
const PUT_IMAGE: u8 = 72;
/// The largest image of the protocol in the largest form.
const IMAGE_BYTES_MAX: usize = 1 << 28;
/// Of an image in one request; a server of today takes four times as much.
const STRIP_BYTES_MAX: usize = 4 << 20;

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

    /// The same image in requests of its own, from memory; `None` where it has a form that cannot be cut out of
    /// the segment, or the memory is not there.
    pub fn requests(
        &self,
        formats: &[Format],
        memory: impl Fn(u64, usize) -> Option<Vec<u8>>,
    ) -> Option<Vec<Request>> {
        let form = formats.iter().find(|form| form.depth == self.depth)?;
        let bits = usize::from(form.bits_per_pixel);
        if self.format != Z_PIXMAP || bits % 8 != 0 {
            return None;
        }
        let (stride, out) = (stride(form, self.total_width)?, stride(form, self.size[0])?);
        let [x, y] = self.source;
        if self.size[0] + x > self.total_width {
            return None;
        }
        let lines = memory(self.offset + (y * stride) as u64, image_bytes(stride, self.size[1])?)?;
        let mut image = Vec::with_capacity(out * self.size[1]);
        for line in lines.chunks_exact(stride.max(1)) {
            let begin = x * bits / 8;
            let end = image.len() + out;
            image.extend(line.get(begin..stride.min(begin + out))?);
            image.resize(end, 0);
        }
        let [target_x, target_y] = [half(&self.target, 0)? as i16, half(&self.target, 2)? as i16];
        Some(strips(self.head, [target_x, target_y], self.size[0], self.depth, out, &image))
    }
}

/// Bytes of a line of pixels.
pub fn stride(form: &Format, width: usize) -> Option<usize> {
    let (bits, pad) = (usize::from(form.bits_per_pixel), usize::from(form.scanline_pad));
    matches!(pad, 8 | 16 | 32).then(|| (width * bits).next_multiple_of(pad) / 8)
}

/// Bytes of so many lines, if an image can be that large.
pub fn image_bytes(stride: usize, lines: usize) -> Option<usize> {
    stride.checked_mul(lines).filter(|bytes| *bytes <= IMAGE_BYTES_MAX)
}

/// The requests that put an image to a place of a drawable.
pub fn strips(
    head: [u8; 8],
    [x, y]: [i16; 2],
    width: usize,
    depth: u8,
    stride: usize,
    image: &[u8],
) -> Vec<Request> {
    let lines_max = (STRIP_BYTES_MAX / stride.max(1)).max(1);
    let strip = |(index, part): (usize, &[u8])| {
        let lines = part.len() / stride.max(1);
        let mut body = head.to_vec();
        body.extend([width, lines].iter().flat_map(|side| (*side as u16).to_le_bytes()));
        body.extend(x.to_le_bytes());
        body.extend(y.wrapping_add((index * lines_max) as i16).to_le_bytes());
        body.extend([0, depth, 0, 0]);
        body.extend(part);
        Request { major: PUT_IMAGE, detail: Z_PIXMAP, body }
    };
    image.chunks((lines_max * stride).max(1)).enumerate().map(strip).collect()
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
        let requests = image.requests(&formats, memory).expect("a request");
        let [request] = &requests[..] else { panic!("{requests:?}") };
        assert_eq!(request.body[8..20], [2, 0, 1, 0, 5, 0, 6, 0, 0, 24, 0, 0]);
        assert_eq!(request.body[20..], [4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn large_images_are_cut_into_strips() {
        let stride = 1 << 20;
        let image: Vec<u8> = (0..9).flat_map(|line| vec![line; stride]).collect();
        let found = strips([3; 8], [5, -2], stride / 4, 24, stride, &image);
        let places: Vec<_> =
            found.iter().map(|one| (one.body[10], one.body[14] as i8, one.body[20])).collect();
        assert_eq!(places, [(4, -2, 0), (4, 2, 4), (1, 6, 8)], "lines, place, first pixel");
    }
}
