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
            self.encode(&mut out).map_err(failed)?;
        }
        out.flush().map_err(failed)
    }

    /// The bytes of a file of PNG.
    ///
    /// # Errors
    /// [`Error::Lost`] for what the encoder refuses.
    pub fn to_png(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes)?;
        Ok(bytes)
    }

    fn encode(&self, out: impl Write) -> std::io::Result<()> {
        let mut encoder = png::Encoder::new(out, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&self.pixels));
        written.map_err(std::io::Error::other)
    }

    /// The same picture with at most so many columns: each pixel is the mean of a square.
    pub fn smaller(&self, width_max: u32) -> Picture {
        let factor = self.width.div_ceil(width_max.max(1)).max(1);
        let (width, height) = (self.width / factor, self.height / factor);
        let mut pixels = Vec::with_capacity((width * height * 3) as usize);
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            for part in 0..3 {
                let at = |dy: u32, dx: u32| ((y * factor + dy) * self.width + x * factor + dx) * 3 + part;
                let square = (0..factor).flat_map(|dy| (0..factor).map(move |dx| (dy, dx)));
                let sum: u32 = square.map(|(dy, dx)| u32::from(self.pixels[at(dy, dx) as usize])).sum();
                pixels.push((sum / (factor * factor)) as u8);
            }
        }
        Picture { width, height, pixels }
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
    fn smaller_pictures_are_means() {
        let pixels = vec![0, 10, 20, 4, 10, 20, 9, 9, 9, 8, 10, 20, 4, 10, 24, 9, 9, 9];
        let picture = Picture { width: 3, height: 2, pixels };
        assert_eq!(picture.smaller(2), Picture { width: 1, height: 1, pixels: vec![4, 10, 21] });
        assert_eq!(picture.smaller(3), picture);
    }

    #[test]
    fn colors_are_found_by_their_masks() {
        let image = [0x33, 0x22, 0x11, 0, 0xff, 0, 0, 0];
        let picture = Picture::of_image(1, 2, &image, 4, 4, [0xff_0000, 0xff00, 0xff]);
        assert_eq!(picture.pixels, [0x11, 0x22, 0x33, 0, 0, 0xff]);
        let picture = Picture::of_image(1, 1, &[0xe0, 0x07, 0, 0], 2, 4, [0xf800, 0x7e0, 0x1f]);
        assert_eq!(picture.pixels, [0, 255, 0]);
    }
}
