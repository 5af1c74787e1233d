//! How large a trace becomes: its limit, and what the user is told while it grows.

use trace_store::TraceWriter;

/// The first size at which the user is told, and then at each double of it.
const TOLD_FROM_BYTES: u64 = 1 << 30;
/// So much is written between two looks at the disk.
const LOOK_EVERY_BYTES: u64 = 64 << 20;

/// What is known of a trace's size.
pub(crate) struct Growth {
    max_bytes: Option<u64>,
    /// Whether the user is told.
    tells: bool,
    told_at_bytes: u64,
    looks_at_bytes: u64,
    /// The user is told once the disk has less than that.
    free_bytes: u64,
}

/// A size for people.
fn shown(bytes: u64) -> String {
    match bytes {
        0..0x4000_0000 => format!("{} MB", bytes >> 20),
        _ => format!("{:.1} GB", bytes as f64 / f64::from(1 << 30)),
    }
}

impl Growth {
    pub fn new(max_bytes: Option<u64>, tells: bool) -> Growth {
        Growth {
            max_bytes,
            tells,
            told_at_bytes: TOLD_FROM_BYTES,
            looks_at_bytes: LOOK_EVERY_BYTES,
            free_bytes: u64::MAX,
        }
    }

    /// Why nothing more is written, where the log has reached its limit.
    pub fn reached(&self, writer: &TraceWriter) -> Option<String> {
        let max_bytes = self.max_bytes.filter(|max_bytes| writer.written_bytes() >= *max_bytes)?;
        Some(format!("recording stopped, because the trace has {max_bytes} bytes (--max-size)"))
    }

    /// A line for the user, where the trace has grown past what was told, or the disk would not
    /// bear as much again.
    pub fn line(&mut self, writer: &TraceWriter) -> Option<String> {
        let bytes = writer.written_bytes();
        if !self.tells || bytes < self.looks_at_bytes {
            return None;
        }
        self.looks_at_bytes = bytes + LOOK_EVERY_BYTES;
        self.line_of(bytes, writer.free_bytes())
    }

    fn line_of(&mut self, bytes: u64, free_bytes: Option<u64>) -> Option<String> {
        let is_large = bytes >= self.told_at_bytes;
        let is_short = free_bytes.is_some_and(|free| free < bytes && free < self.free_bytes);
        if is_large {
            self.told_at_bytes = bytes.saturating_mul(2);
        }
        if is_short {
            self.free_bytes = free_bytes.unwrap_or(0) / 2;
        }
        let free = free_bytes.map(|free| format!(", and the disk has {} left", shown(free)));
        (is_large || is_short).then(|| {
            format!("the trace has {}{} (--max-size bounds it)", shown(bytes), free.unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn a_large_trace_is_told_of_at_each_double() {
        let mut growth = Growth::new(None, true);
        let told = (0..100).filter(|step| growth.line_of(step * 100 * MB, None).is_some()).count();
        assert_eq!(told, 4);
    }

    #[test]
    fn a_disk_that_would_not_bear_as_much_again_is_told_of_at_each_half() {
        let mut growth = Growth::new(None, true);
        assert_eq!(growth.line_of(100 * MB, Some(101 * MB)), None);
        let line = growth.line_of(100 * MB, Some(99 * MB));
        assert_eq!(
            line.as_deref(),
            Some("the trace has 100 MB, and the disk has 99 MB left (--max-size bounds it)")
        );
        assert_eq!(growth.line_of(120 * MB, Some(79 * MB)), None);
        assert!(growth.line_of(170 * MB, Some(29 * MB)).is_some());
    }
}
