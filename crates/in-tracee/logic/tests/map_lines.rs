//! Lines of /proc/PID/maps.

use proptest::prelude::*;
use runtime_logic::map_lines::{Mapping, device, protection, range_of, stat_device};

#[test]
fn a_line_of_each_kind_is_understood() {
    let line = b"7f00a000-7f00c000 rw-s 0001f000 103:02 123456789012 /some/where (deleted)";
    let (mapping, name) = Mapping::of_line(line).expect("a line of a file");
    assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f00_a000, 0x7f00_c000, 0x1f000));
    assert_eq!((mapping.device, mapping.inode), (0x103 << 32 | 2, 123_456_789_012));
    assert_eq!(protection(&mapping), 3);
    assert!(!mapping.private && !mapping.is_stack && !mapping.is_kernels);
    assert_eq!(name, b"/some/where (deleted)");
    let of = |name: &str| {
        let line = format!("7ff000-800000 r-xp 00000000 00:00 0                  {name}");
        Mapping::of_line(line.as_bytes()).expect("a line").0
    };
    assert!(of("[stack]").is_stack && !of("[stack]").is_kernels);
    assert!(of("[vdso]").is_kernels && of("[vvar]").is_kernels && of("[vsyscall]").is_kernels);
    assert!(of("").private && !of("").is_stack && !of("[heap]").is_kernels);
    assert_eq!(protection(&of("")), 5);
}

#[test]
fn lines_that_break_off_are_none() {
    let line = b"7f00a000-7f00c000 rw-s 0001f000 103:02 12";
    // The inode is the last: behind its space it may be of any length.
    for end in 0..line.len() - 2 {
        assert!(Mapping::of_line(&line[..end]).is_none(), "{end}");
    }
    assert_eq!(range_of(line), Some((0x7f00_a000, 0x7f00_c000)));
    assert_eq!(range_of(b"7f00c000-7f00a000 rw"), None);
    assert_eq!(range_of(b"7f00a000-7f00c000"), None);
}

#[test]
fn the_list_of_this_process_is_understood() {
    let list = std::fs::read("/proc/self/maps").expect("there is a list");
    let lines = list.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let mappings: Vec<Mapping> =
        lines.map(|line| Mapping::of_line(line).unwrap_or_else(|| panic!("{line:?}")).0).collect();
    assert!(mappings.windows(2).all(|pair| pair[0].end <= pair[1].start));
    assert_eq!(mappings.iter().filter(|mapping| mapping.is_stack).count(), 1);
}

#[test]
fn mappings_of_one_object_continue_each_other() {
    let first = Mapping { start: 0x1000, end: 0x3000, inode: 7, offset: 0x5000, ..Mapping::NONE };
    let next = Mapping { start: 0x3000, end: 0x4000, offset: 0x7000, ..first };
    assert!(first.continues(&next));
    assert!(!first.continues(&Mapping { offset: 0x8000, ..next }));
    assert!(!first.continues(&Mapping { inode: 8, ..next }));
    assert!(!first.continues(&Mapping { writable: true, ..next }));
    // Where there is no file, the offset means nothing.
    let plain = Mapping { inode: 0, ..first };
    assert!(plain.continues(&Mapping { offset: 0x9000, ..plain }));
}

proptest! {
    #[test]
    fn devices_go_there_and_back(major in 0..1u64 << 32, minor in 0..1u64 << 32) {
        let listed = major << 32 | minor;
        prop_assert_eq!(device(stat_device(listed)), listed);
    }

    #[test]
    fn any_bytes_are_a_line_or_none(line in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = (Mapping::of_line(&line), range_of(&line));
    }

    #[test]
    fn what_nearly_is_a_line_is_one_or_none(line in "[0-9a-f]{0,17}-?[0-9a-f]{0,17} ?[rwxp-]{0,5} ?[0-9a-f:]{0,20} [0-9]{0,30}.{0,5}") {
        let _ = (Mapping::of_line(line.as_bytes()), range_of(line.as_bytes()));
    }
}
