//! A list of switches to other threads that a recording forces, as a file: one switch a line, its words
//! the thread (of another process than the first: LANE/THREAD), the place, the address of the instruction (0 for a
//! call), and which execution it is.

use std::fmt::Write;
use std::path::Path;

use lane_protocol::{FORCED_MAX, ForcedPlace, ForcedSwitch};

use crate::exit::CommandError;

const PLACES: [(&str, ForcedPlace); 3] = [
    ("instruction", ForcedPlace::Instruction),
    ("in-instruction", ForcedPlace::InInstruction),
    ("call", ForcedPlace::Call),
];

/// Reads a file of switches.
pub fn read(path: &Path) -> Result<Vec<ForcedSwitch>, CommandError> {
    let failed = |source| CommandError::Read { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let switches = parse_all(&text).filter(|switches| switches.len() <= FORCED_MAX);
    switches.ok_or_else(|| {
        CommandError::Usage(format!(
            "{}: at most {FORCED_MAX} lines are wanted, as `1 instruction 0x401136 3`",
            path.display()
        ))
    })
}

/// The switches of such a text.
pub fn parse_all(text: &str) -> Option<Vec<ForcedSwitch>> {
    text.lines().map(parse).collect()
}

fn parse(line: &str) -> Option<ForcedSwitch> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [thread, place, address, ordinal] = words[..] else { return None };
    let (lane, thread) = thread.split_once('/').unwrap_or(("0", thread));
    let (_, place) = PLACES.iter().find(|(name, _)| *name == place)?;
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).ok()?;
    Some(ForcedSwitch {
        lane: lane.parse().ok()?,
        thread: thread.parse().ok()?,
        place: *place as u32,
        address,
        ordinal: ordinal.parse().ok()?,
    })
}

/// The text of such a file.
pub fn text(switches: &[ForcedSwitch]) -> String {
    let mut text = String::new();
    for switch in switches {
        let name =
            PLACES.iter().find(|(_, place)| *place as u32 == switch.place).map_or("", |(name, _)| name);
        // Writing to a string does not fail.
        let _ = match switch.lane {
            0 => write!(text, "{}", switch.thread),
            lane => write!(text, "{lane}/{}", switch.thread),
        };
        let _ = writeln!(text, " {name} {:#x} {}", switch.address, switch.ordinal);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let switches = [
            ForcedSwitch {
                lane: 2,
                thread: 1,
                place: ForcedPlace::Instruction as u32,
                address: 0x40_1136,
                ordinal: 3,
            },
            ForcedSwitch { lane: 0, thread: 0, place: ForcedPlace::Call as u32, address: 0, ordinal: 12 },
        ];
        let again: Option<Vec<ForcedSwitch>> = parse_all(&text(&switches));
        assert_eq!(again.as_deref(), Some(&switches[..]));
        for wrong in
            ["", "1 instruction 0x4", "1 nowhere 0x4 1", "x call 0 1", "x/1 call 0 1", "1 call 0 1 1"]
        {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
