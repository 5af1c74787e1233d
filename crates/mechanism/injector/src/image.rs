//! The runtime's image, as the build script made it.

use lane_protocol::{DATA_BYTES_MAX, DATA_START, TEXT_BYTES_MAX, TEXT_START};
use object::{Object, ObjectSegment};

use crate::error::InjectError;

/// The linked runtime, an ELF file.
pub(crate) static RUNTIME: &[u8] = include_bytes!(env!("RETROVANE_RUNTIME"));

/// What is loaded of the runtime, each segment at its offset from its area's start.
pub(crate) struct RuntimeImage {
    pub text: Vec<(u64, &'static [u8])>,
    pub data: Vec<(u64, &'static [u8])>,
    /// Bytes from TEXT_START to the end of code and constants, whole pages.
    pub text_bytes: u64,
}

/// Reads the embedded image and checks that it fits its areas.
pub(crate) fn runtime_image() -> Result<RuntimeImage, InjectError> {
    let file = object::File::parse(RUNTIME).map_err(|error| InjectError::RuntimeImage(error.to_string()))?;
    let mut image = RuntimeImage { text: Vec::new(), data: Vec::new(), text_bytes: 0 };
    for segment in file.segments() {
        let bytes = segment.data().map_err(|error| InjectError::RuntimeImage(error.to_string()))?;
        let (start, memory_bytes) = (segment.address(), segment.size());
        if memory_bytes == 0 {
            continue;
        }
        if start >= TEXT_START && start + memory_bytes <= TEXT_START + TEXT_BYTES_MAX {
            image.text.push((start - TEXT_START, bytes));
            let end = start - TEXT_START + memory_bytes;
            image.text_bytes = image.text_bytes.max(end.next_multiple_of(4096));
        } else if start >= DATA_START && start + memory_bytes <= DATA_START + DATA_BYTES_MAX {
            image.data.push((start - DATA_START, bytes));
        } else {
            return Err(InjectError::RuntimeImage(format!(
                "a segment at {start:#x} is outside of the areas"
            )));
        }
    }
    if image.text.is_empty() {
        return Err(InjectError::RuntimeImage("it has no code".into()));
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_image_fits_and_begins_with_the_entries() {
        let image = runtime_image().expect("the build script made it");
        assert!(image.text.iter().any(|(offset, bytes)| *offset == 0 && bytes.len() > 16));
        assert!(image.text_bytes <= TEXT_BYTES_MAX);
    }
}
