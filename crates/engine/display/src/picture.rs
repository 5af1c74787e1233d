//! A picture of the screen.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::Error;

/// Three bytes a pixel: red, green, blue.
#[derive(Debug, PartialEq, Eq)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub pixels: Vec<u8>,
}

impl Picture {
    /// From the bytes of an image, and the masks of its colors.
    pub fn of_image(
        width: u32,
        height: u32,
        image: &[u8],
        bytes_per_pixel: usize,
        stride: usize,
        masks: [u32; 3],
    ) -> Picture {
        let mut pixels = Vec::with_capacity((width * height * 3) as usize);
        for line in image.chunks_exact(stride.max(1)).take(height as usize) {
            for pixel in line.chunks_exact(bytes_per_pixel.max(1)).take(width as usize) {
                let value = pixel.iter().rev().fold(0u32, |value, &byte| value << 8 | u32::from(byte));
                pixels.extend(masks.map(|mask| color(value, mask)));
            }
        }
        pixels.resize((width * height * 3) as usize, 0);
        Picture { width, height, pixels }
    }

    /// Writes it as PNG, or as PPM where the file's name ends so.
    ///
    /// # Errors
    /// [`Error::Write`]
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let failed = |source: std::io::Error| Error::Write { path: path.to_owned(), source };
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("ppm")) {
            let head = format!("P6\n{} {}\n255\n", self.width, self.height);
            out.write_all(head.as_bytes()).and_then(|()| out.write_all(&self.pixels)).map_err(failed)?;
        } else {
            let mut encoder = png::Encoder::new(&mut out, self.width, self.height);
            encoder.set_color(png::ColorType::Rgb);
            let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&self.pixels));
            written.map_err(|error| failed(std::io::Error::other(error)))?;
        }
        out.flush().map_err(failed)
    }
}

/// One color of a pixel, as a byte.
fn color(value: u32, mask: u32) -> u8 {
    if mask == 0 {
        return 0;
    }
    let most = mask >> mask.trailing_zeros();
    let part = (value & mask) >> mask.trailing_zeros();
    (u64::from(part) * 255 / u64::from(most)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_found_by_their_masks() {
        let image = [0x33, 0x22, 0x11, 0, 0xff, 0, 0, 0];
        let picture = Picture::of_image(1, 2, &image, 4, 4, [0xff_0000, 0xff00, 0xff]);
        assert_eq!(picture.pixels, [0x11, 0x22, 0x33, 0, 0, 0xff]);
        let picture = Picture::of_image(1, 1, &[0xe0, 0x07, 0, 0], 2, 4, [0xf800, 0x7e0, 0x1f]);
        assert_eq!(picture.pixels, [0, 255, 0]);
    }
}
