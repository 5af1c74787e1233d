//! How much memory a process of a node has, without the runtime's.

use std::cell::Cell;

use injector::{Mapping, read_maps};

/// How much memory a process has: all that is mapped, and what is its own and can be written. In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub mapped: u64,
    pub own: u64,
}

/// Sizes, and what proc_pid_statm(5) said of all that is mapped, with the runtime's, when they were read.
pub type Known = Cell<Option<([u64; 2], Sizes)>>;

/// Reads them where what is mapped, or what of it is written to, has another size than when they were read last: to have
/// the kernel name all that is mapped takes a hundred times as long as to have it say how much.
pub fn known_sizes(pid: i32, known: &Known) -> Option<Sizes> {
    let counts = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut words = counts.split(' ');
    // In pages: all that is mapped, and, the sixth, what of that is written to.
    let key = [words.next()?.parse().ok()?, words.nth(4)?.parse().ok()?];
    let sizes = match known.get() {
        Some((before, sizes)) if before == key => sizes,
        _ => sizes_of(&read_maps(pid).ok()?),
    };
    known.set(Some((key, sizes)));
    Some(sizes)
}

fn sizes_of(maps: &[Mapping]) -> Sizes {
    let mut sizes = Sizes { mapped: 0, own: 0 };
    for mapping in maps.iter().filter_map(sizes_of_mapping) {
        sizes.mapped += mapping.mapped;
        sizes.own += mapping.own;
    }
    sizes
}

/// Those of a mapping, by its line in proc_pid_maps(5); `None` for one of the runtime's, or what is no such line.
pub fn sizes_of_line(line: &str) -> Option<Sizes> {
    sizes_of_mapping(&Mapping::of_line(line.as_bytes())?)
}

fn sizes_of_mapping(mapping: &Mapping) -> Option<Sizes> {
    let mapped = mapping.end - mapping.start;
    let is_own = mapping.rights() == "rw-p";
    (!mapping.is_of_runtime()).then_some(Sizes { mapped, own: if is_own { mapped } else { 0 } })
}

#[cfg(test)]
mod tests {
    use lane_protocol::REGION_START;

    use super::*;

    #[test]
    fn memory_of_the_runtime_is_not_a_processes() {
        let ours = format!("{REGION_START:x}-{:x} rw-p 0 00:00 0", REGION_START + 4096);
        let lines = ["1000-3000 rw-p 0 00:00 0 ", "3000-4000 r--p 0 00:00 0 ", &ours];
        let maps = lines.map(|line| Mapping::of_line(line.as_bytes()).expect("well formed"));
        assert_eq!(sizes_of(&maps), Sizes { mapped: 0x3000, own: 0x2000 });
        assert_eq!(sizes_of_line(&ours), None);
    }
}
