//! quotactl(2) and quotactl_fd(2): the command stands above the byte that says
//! whose quota it is.

use crate::notation::*;
use crate::row::{Arg, Len::Fixed, Shape::Opaque, VariantTable};

const COMMAND: u32 = !0xff;

const DQBLK: u32 = 72;
const DQINFO: u32 = 24;
const FS_DISK_QUOTA: u32 = 112;

const fn quota_in(size: u32) -> Arg {
    reads(Opaque, Fixed(size))
}

const fn quota_out(size: u32) -> Arg {
    writes(Opaque, Fixed(size))
}

/// quotactl(2).
pub static QUOTACTL: VariantTable = VariantTable {
    name: "quotactl",
    selector: 0,
    mask: COMMAND,
    variants: requests! {
        0x580100 Q_XQUOTAON(cmd: HEX, special: PATH, id: ID, flags: I32_IN);
        0x580200 Q_XQUOTAOFF(cmd: HEX, special: PATH, id: ID, flags: I32_IN);
        0x580300 Q_XGETQUOTA(cmd: HEX, special: PATH, id: ID, addr: quota_out(FS_DISK_QUOTA));
        0x580400 Q_XSETQLIM(cmd: HEX, special: PATH, id: ID, addr: quota_in(FS_DISK_QUOTA));
        0x580700 Q_XQUOTASYNC(cmd: HEX, special: PATH);
        0x580900 Q_XGETNEXTQUOTA(cmd: HEX, special: PATH, id: ID, addr: quota_out(FS_DISK_QUOTA));
        0x80000100 Q_SYNC(cmd: HEX, special: PATH), blocks;
        0x80000200 Q_QUOTAON(cmd: HEX, special: PATH, format: ID, file: PATH);
        0x80000300 Q_QUOTAOFF(cmd: HEX, special: PATH);
        0x80000400 Q_GETFMT(cmd: HEX, special: PATH, id: ID, format: U32_OUT);
        0x80000500 Q_GETINFO(cmd: HEX, special: PATH, id: ID, addr: quota_out(DQINFO));
        0x80000600 Q_SETINFO(cmd: HEX, special: PATH, id: ID, addr: quota_in(DQINFO));
        0x80000700 Q_GETQUOTA(cmd: HEX, special: PATH, id: ID, addr: quota_out(DQBLK));
        0x80000800 Q_SETQUOTA(cmd: HEX, special: PATH, id: ID, addr: quota_in(DQBLK));
        0x80000900 Q_GETNEXTQUOTA(cmd: HEX, special: PATH, id: ID, addr: quota_out(DQBLK));
    },
    fallback: DETECT,
};

/// quotactl_fd(2).
pub static QUOTACTL_FD: VariantTable = VariantTable {
    name: "quotactl_fd",
    selector: 1,
    mask: COMMAND,
    variants: requests! {
        0x580100 Q_XQUOTAON(fd: FD, cmd: HEX, id: ID, flags: I32_IN);
        0x580200 Q_XQUOTAOFF(fd: FD, cmd: HEX, id: ID, flags: I32_IN);
        0x580300 Q_XGETQUOTA(fd: FD, cmd: HEX, id: ID, addr: quota_out(FS_DISK_QUOTA));
        0x580400 Q_XSETQLIM(fd: FD, cmd: HEX, id: ID, addr: quota_in(FS_DISK_QUOTA));
        0x580700 Q_XQUOTASYNC(fd: FD, cmd: HEX);
        0x580900 Q_XGETNEXTQUOTA(fd: FD, cmd: HEX, id: ID, addr: quota_out(FS_DISK_QUOTA));
        0x80000100 Q_SYNC(fd: FD, cmd: HEX), blocks;
        0x80000300 Q_QUOTAOFF(fd: FD, cmd: HEX);
        0x80000400 Q_GETFMT(fd: FD, cmd: HEX, id: ID, format: U32_OUT);
        0x80000500 Q_GETINFO(fd: FD, cmd: HEX, id: ID, addr: quota_out(DQINFO));
        0x80000600 Q_SETINFO(fd: FD, cmd: HEX, id: ID, addr: quota_in(DQINFO));
        0x80000700 Q_GETQUOTA(fd: FD, cmd: HEX, id: ID, addr: quota_out(DQBLK));
        0x80000800 Q_SETQUOTA(fd: FD, cmd: HEX, id: ID, addr: quota_in(DQBLK));
        0x80000900 Q_GETNEXTQUOTA(fd: FD, cmd: HEX, id: ID, addr: quota_out(DQBLK));
    },
    fallback: DETECT,
};
