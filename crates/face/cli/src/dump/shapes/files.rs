//! What calls on files answer.

use super::super::names::of;
use super::super::quote::{put, quoted};
use super::{Fields, list};

/// Types of files, by the bits of the mode.
const TYPES: [(u64, &str); 7] = [
    (0o140_000, "S_IFSOCK"),
    (0o120_000, "S_IFLNK"),
    (0o100_000, "S_IFREG"),
    (0o060_000, "S_IFBLK"),
    (0o040_000, "S_IFDIR"),
    (0o020_000, "S_IFCHR"),
    (0o010_000, "S_IFIFO"),
];
/// Types of directory entries.
const ENTRY_TYPES: [(u64, &str); 8] = [
    (0, "DT_UNKNOWN"),
    (1, "DT_FIFO"),
    (2, "DT_CHR"),
    (4, "DT_DIR"),
    (6, "DT_BLK"),
    (8, "DT_REG"),
    (10, "DT_LNK"),
    (12, "DT_SOCK"),
];
/// File systems that one meets.
const FILE_SYSTEMS: [(u64, &str); 10] = [
    (0xef53, "EXT4_SUPER_MAGIC"),
    (0x0102_1994, "TMPFS_MAGIC"),
    (0x9fa0, "PROC_SUPER_MAGIC"),
    (0x6265_6572, "SYSFS_MAGIC"),
    (0x794c_7630, "OVERLAYFS_SUPER_MAGIC"),
    (0x9123_683e, "BTRFS_SUPER_MAGIC"),
    (0x5846_5342, "XFS_SUPER_MAGIC"),
    (0x6969, "NFS_SUPER_MAGIC"),
    (0x1cd1, "DEVPTS_SUPER_MAGIC"),
    (0x6367_7270, "CGROUP2_SUPER_MAGIC"),
];

fn mode(mode: u32) -> String {
    let kind = u64::from(mode & 0o170_000);
    let name = TYPES.iter().find(|(value, _)| *value == kind).map(|(_, name)| format!("{name}|"));
    format!("{}0{:o}", name.unwrap_or_default(), mode & 0o7777)
}

fn is_device(mode: u32) -> bool {
    matches!(mode & 0o170_000, 0o060_000 | 0o020_000)
}

/// Major and minor number of a device, as the kernel packs them in 64 bits.
fn device(number: u64) -> String {
    let major = (number >> 8 & 0xfff) | (number >> 32 & 0xffff_f000);
    let minor = (number & 0xff) | (number >> 12 & 0xffff_ff00);
    format!("makedev({major:#x}, {minor:#x})")
}

/// `struct stat`.
pub fn stat(out: &mut String, fields: Fields<'_>) -> Option<()> {
    let bits = fields.u32(24)?;
    put(out, format_args!("{{st_mode={}, ", mode(bits)));
    if is_device(bits) {
        put(out, format_args!("st_rdev={}, ...}}", device(fields.u64(40)?)));
    } else {
        put(out, format_args!("st_size={}, ...}}", fields.i64(48)?));
    }
    Some(())
}

/// `struct statx`.
pub fn statx(out: &mut String, fields: Fields<'_>) -> Option<()> {
    let (mask, attributes, bits, size) = (fields.u32(0)?, fields.u64(8)?, fields.u16(28)?, fields.u64(40)?);
    let mode = mode(u32::from(bits));
    let mask = syscall_model::flags::files::STATX.show(u64::from(mask));
    put(
        out,
        format_args!(
            "{{stx_mask={mask}, stx_attributes={attributes:#x}, stx_mode={mode}, stx_size={size}, ...}}"
        ),
    );
    Some(())
}

/// `struct statfs`.
pub fn statfs(out: &mut String, fields: Fields<'_>) -> Option<()> {
    let magic = fields.u64(0)?;
    let name = match of(&FILE_SYSTEMS, magic) {
        number if number.starts_with(|first: char| first.is_ascii_digit()) => format!("{magic:#x}"),
        name => name,
    };
    let [block, blocks, free] = [fields.i64(8)?, fields.i64(16)?, fields.i64(24)?];
    put(out, format_args!("{{f_type={name}, f_bsize={block}, f_blocks={blocks}, f_bfree={free}, ...}}"));
    Some(())
}

/// What getdents64 fills in: `struct linux_dirent64` after each other.
pub fn entries(out: &mut String, fields: Fields<'_>, total_bytes: u64) {
    let (mut at, mut count) = (0, 0);
    let mut shown = Vec::new();
    while let (Some(len_bytes), Some(kind), Some(name)) =
        (fields.u16(at + 16), fields.data.get(at + 18), fields.text(at + 19))
    {
        count += 1;
        let mut entry = String::from("{d_name=");
        quoted(&mut entry, name);
        put(&mut entry, format_args!(", d_type={}}}", of(&ENTRY_TYPES, u64::from(*kind))));
        shown.push(entry);
        if len_bytes < 19 {
            break;
        }
        at += usize::from(len_bytes);
    }
    // Of a very long list only the beginning is kept.
    let total = if (at as u64) < total_bytes { u64::MAX } else { count };
    list(out, shown.into_iter(), total);
}
