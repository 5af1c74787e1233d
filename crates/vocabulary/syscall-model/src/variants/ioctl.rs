//! ioctl(2): files, block devices, and other devices; terminals and sockets
//! have files of their own.

use super::{ioctl_sockets, ioctl_tty};
use crate::notation::*;
use crate::row::{
    Len::Counted, Len::Fixed, Shape::*, Special::DescriptorFlags, Variant, VariantTable, When::Always,
    When::Success,
};

/// Requests, without the descriptor and the request that all have.
macro_rules! ioctls {
    ($($nr:literal $name:tt($($arg:tt: $spec:expr),*) $(=> $act:expr)? $(, $blocks:ident)?;)*) => {
        $crate::notation::requests! {
            $($nr $name(fd: $crate::notation::FD, cmd: $crate::notation::HEX $(, $arg: $spec)*)
                $(=> $act)? $(, $blocks)?;)*
        }
    };
}
pub(super) use ioctls;

/// ioctl(2).
///
/// The direction and size in a request's number are not to be trusted: there are
/// requests that write what they call input (TUNSETIFF) and that write 4 bytes
/// where they say 8 (FS_IOC_GETFLAGS, BLKBSZGET; ioctl_iflags(2)).
pub static IOCTL: VariantTable =
    VariantTable { name: "ioctl", selector: 1, mask: u32::MAX, variants: &SORTED, fallback: DETECT };

const FAMILIES: &[&[Variant]] =
    &[FILES, BLOCK, DEVICES, KERNEL_OBJECTS, ioctl_tty::REQUESTS, ioctl_sockets::REQUESTS];

static SORTED: [Variant; count()] = sort();

const fn count() -> usize {
    let mut count = 0;
    let mut family = 0;
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
}

/// The requests of all families by insertion sort: they are few, and it runs when
/// the crate is compiled.
const fn sort() -> [Variant; count()] {
    let mut sorted = [FILES[0]; count()];
    let mut filled = 0;
    let mut family = 0;
    while family < FAMILIES.len() {
        let mut next = 0;
        while next < FAMILIES[family].len() {
            let variant = FAMILIES[family][next];
            let mut at = filled;
            while at > 0 && sorted[at - 1].request > variant.request {
                sorted[at] = sorted[at - 1];
                at -= 1;
            }
            assert!(at == 0 || sorted[at - 1].request < variant.request, "two requests with one number");
            sorted[at] = variant;
            filled += 1;
            next += 1;
        }
        family += 1;
    }
    sorted
}

const FILES: &[Variant] = ioctls! {
    0x1 FIBMAP(block: updates(Always, I32, Fixed(4)));
    0x2 FIGETBSZ(size: I32_OUT);
    0x5450 FIONCLEX() => execute(DescriptorFlags);
    0x5451 FIOCLEX() => execute(DescriptorFlags);
    0x5460 FIOQSIZE(size: U64_OUT);
    0x40049409 FICLONE(source: FD), blocks;
    0x40086602 FS_IOC_SETFLAGS(flags: I32_IN);
    0x40087602 FS_IOC_SETVERSION(version: I32_IN);
    0x400c6615 FS_IOC_GET_ENCRYPTION_POLICY(policy: writes(Opaque, Fixed(12)));
    0x401c5820 FS_IOC_FSSETXATTR(attributes: reads(Opaque, Fixed(28)));
    0x4020940d FICLONERANGE(range: reads(Opaque, Fixed(32))), blocks;
    0x40305828 FS_IOC_RESVSP(range: reads(Opaque, Fixed(48))), blocks;
    0x40305829 FS_IOC_UNRESVSP(range: reads(Opaque, Fixed(48))), blocks;
    0x4030582a FS_IOC_RESVSP64(range: reads(Opaque, Fixed(48))), blocks;
    0x4030582b FS_IOC_UNRESVSP64(range: reads(Opaque, Fixed(48))), blocks;
    0x40305839 FS_IOC_ZERO_RANGE(range: reads(Opaque, Fixed(48))), blocks;
    0x41009432 FS_IOC_SETFSLABEL(label: TEXT);
    0x80047210 FAT_IOCTL_GET_ATTRIBUTES(attributes: U32_OUT);
    0x40047211 FAT_IOCTL_SET_ATTRIBUTES(attributes: I32_IN);
    0x80086601 FS_IOC_GETFLAGS(flags: I32_OUT);
    0x80087601 FS_IOC_GETVERSION(version: I32_OUT);
    0x80086603 EXT4_IOC_GETVERSION(version: I32_OUT);
    0x80111500 FS_IOC_GETFSUUID(uuid: writes(Opaque, Fixed(17)));
    0x801c581f FS_IOC_FSGETXATTR(attributes: writes(Opaque, Fixed(28)));
    0x80811501 FS_IOC_GETFSSYSFSPATH(path: writes(Opaque, Fixed(129)));
    0x81009431 FS_IOC_GETFSLABEL(label: updates(Success, Bytes, Fixed(256)));
    0xc0045877 FIFREEZE(), blocks;
    0xc0045878 FITHAW(), blocks;
    0xc0185879 FITRIM(range: updates(Always, Opaque, Fixed(24))), blocks;
    0xc0189436 FIDEDUPERANGE(range: updates(Success, Opaque, Counted { header: 24, at: 16, each: 32 })),
        blocks;
    0xc020660b FS_IOC_FIEMAP(map: updates(Always, Opaque, Counted { header: 32, at: 24, each: 56 })), blocks;
};

const BLOCK: &[Variant] = ioctls! {
    0x301 HDIO_GETGEO(geometry: writes(Opaque, Fixed(16)));
    0x125d BLKROSET(read_only: I32_IN);
    0x125e BLKROGET(read_only: I32_OUT);
    0x125f BLKRRPART(), blocks;
    0x1260 BLKGETSIZE(sectors: U64_OUT);
    0x1261 BLKFLSBUF(), blocks;
    0x1262 BLKRASET(sectors: SIZE);
    0x1263 BLKRAGET(sectors: U64_OUT);
    0x1264 BLKFRASET(sectors: SIZE);
    0x1265 BLKFRAGET(sectors: U64_OUT);
    0x1267 BLKSECTGET(sectors: writes(Opaque, Fixed(2)));
    0x1268 BLKSSZGET(size: I32_OUT);
    0x1277 BLKDISCARD(range: reads(Opaque, Fixed(16))), blocks;
    0x1278 BLKIOMIN(size: U32_OUT);
    0x1279 BLKIOOPT(size: U32_OUT);
    0x127a BLKALIGNOFF(offset: I32_OUT);
    0x127b BLKPBSZGET(size: U32_OUT);
    0x127c BLKDISCARDZEROES(zeroes: U32_OUT);
    0x127d BLKSECDISCARD(range: reads(Opaque, Fixed(16))), blocks;
    0x127e BLKROTATIONAL(rotational: writes(Opaque, Fixed(2)));
    0x127f BLKZEROOUT(range: reads(Opaque, Fixed(16))), blocks;
    0x40081271 BLKBSZSET(size: I32_IN);
    0x80041284 BLKGETZONESZ(sectors: U32_OUT);
    0x80041285 BLKGETNRZONES(zones: U32_OUT);
    0x80081270 BLKBSZGET(size: I32_OUT);
    0x80081272 BLKGETSIZE64(bytes: U64_OUT);
    0x80081280 BLKGETDISKSEQ(sequence: U64_OUT);
    0x4c00 LOOP_SET_FD(file: FD);
    0x4c01 LOOP_CLR_FD();
    0x4c02 LOOP_SET_STATUS(info: reads(Opaque, Fixed(168)));
    0x4c03 LOOP_GET_STATUS(info: writes(Opaque, Fixed(168)));
    0x4c04 LOOP_SET_STATUS64(info: reads(Opaque, Fixed(232)));
    0x4c05 LOOP_GET_STATUS64(info: writes(Opaque, Fixed(232)));
    0x4c06 LOOP_CHANGE_FD(file: FD);
    0x4c07 LOOP_SET_CAPACITY();
    0x4c08 LOOP_SET_DIRECT_IO(on: INT);
    0x4c09 LOOP_SET_BLOCK_SIZE(size: SIZE);
    0x4c0a LOOP_CONFIGURE(config: reads(Opaque, Fixed(304)));
    0x4c80 LOOP_CTL_ADD(number: INT);
    0x4c81 LOOP_CTL_REMOVE(number: INT);
    0x4c82 LOOP_CTL_GET_FREE();
    0x5309 CDROMEJECT(), blocks;
    0x5325 CDROM_MEDIA_CHANGED(slot: INT);
    0x5326 CDROM_DRIVE_STATUS(slot: INT);
    0x5327 CDROM_DISC_STATUS();
    0x5331 CDROM_GET_CAPABILITY();
};

const DEVICES: &[Variant] = ioctls! {
    0x4600 FBIOGET_VSCREENINFO(info: writes(Opaque, Fixed(160)));
    0x4602 FBIOGET_FSCREENINFO(info: writes(Opaque, Fixed(80)));
    0x5204 RNDZAPENTCNT();
    0x5206 RNDCLEARPOOL();
    0x5207 RNDRESEEDCRNG();
    0x40045201 RNDADDTOENTCNT(bits: I32_IN);
    0x40085203 RNDADDENTROPY(pool: reads(Opaque, Counted { header: 8, at: 4, each: 1 })), blocks;
    0x80045200 RNDGETENTCNT(bits: I32_OUT);
    0x7001 RTC_AIE_ON();
    0x7002 RTC_AIE_OFF();
    0x7003 RTC_UIE_ON();
    0x7004 RTC_UIE_OFF();
    0x7005 RTC_PIE_ON();
    0x7006 RTC_PIE_OFF();
    0x700f RTC_WIE_ON();
    0x7010 RTC_WIE_OFF();
    0x7014 RTC_VL_CLR();
    0x40247007 RTC_ALM_SET(time: reads(Opaque, Fixed(36)));
    0x4024700a RTC_SET_TIME(time: reads(Opaque, Fixed(36)));
    0x4008700c RTC_IRQP_SET(rate: SIZE);
    0x4008700e RTC_EPOCH_SET(epoch: SIZE);
    0x4028700f RTC_WKALM_SET(alarm: reads(Opaque, Fixed(40)));
    0x80047013 RTC_VL_READ(flags: U32_OUT);
    0x8008700b RTC_IRQP_READ(rate: U64_OUT);
    0x8008700d RTC_EPOCH_READ(epoch: U64_OUT);
    0x80247008 RTC_ALM_READ(time: writes(Opaque, Fixed(36)));
    0x80247009 RTC_RD_TIME(time: writes(Opaque, Fixed(36)));
    0x80287010 RTC_WKALM_RD(alarm: writes(Opaque, Fixed(40)));
    0x80045705 WDIOC_KEEPALIVE();
    0x80045707 WDIOC_GETTIMEOUT(seconds: I32_OUT);
    0x80285700 WDIOC_GETSUPPORT(info: writes(Opaque, Fixed(40)));
    0xc0045706 WDIOC_SETTIMEOUT(seconds: updates(Success, I32, Fixed(4)));
    0xae00 KVM_GET_API_VERSION(zero: HEX);
    0xae01 KVM_CREATE_VM(type: HEX)
        => reject("a virtual machine writes the program's memory while no call of the program shows it");
};

const KERNEL_OBJECTS: &[Variant] = ioctls! {
    0x5760 IOC_WATCH_QUEUE_SET_SIZE(notes: SIZE);
    0x5761 IOC_WATCH_QUEUE_SET_FILTER(filter: ADDRESS);
    0xb701 NS_GET_USERNS();
    0xb702 NS_GET_PARENT();
    0xb703 NS_GET_NSTYPE();
    0xb704 NS_GET_OWNER_UID(uid: U32_OUT);
    0x8004b706 NS_GET_PID_FROM_PIDNS(pid: PID);
    0x8004b707 NS_GET_TGID_FROM_PIDNS(pid: PID);
    0x8004b708 NS_GET_PID_IN_PIDNS(pid: PID);
    0x8004b709 NS_GET_TGID_IN_PIDNS(pid: PID);
    0x8008b705 NS_GET_MNTNS_ID(id: U64_OUT);
    0x8010b70a NS_MNT_GET_INFO(info: writes(Opaque, Fixed(16)));
    0x8010b70b NS_MNT_GET_NEXT(info: writes(Opaque, Fixed(16)));
    0x8010b70c NS_MNT_GET_PREV(info: writes(Opaque, Fixed(16)));
    0x2400 PERF_EVENT_IOC_ENABLE(flags: HEX);
    0x2401 PERF_EVENT_IOC_DISABLE(flags: HEX);
    0x2402 PERF_EVENT_IOC_REFRESH(count: INT);
    0x2403 PERF_EVENT_IOC_RESET(flags: HEX);
    0x2405 PERF_EVENT_IOC_SET_OUTPUT(output: FD);
    0x40042408 PERF_EVENT_IOC_SET_BPF(program: FD);
    0x40042409 PERF_EVENT_IOC_PAUSE_OUTPUT(paused: UINT);
    0x40082404 PERF_EVENT_IOC_PERIOD(period: U64_IN);
    0x40082406 PERF_EVENT_IOC_SET_FILTER(filter: TEXT);
    0x80082407 PERF_EVENT_IOC_ID(id: U64_OUT);
    0xff01 PIDFD_GET_CGROUP_NAMESPACE();
    0xff02 PIDFD_GET_IPC_NAMESPACE();
    0xff03 PIDFD_GET_MNT_NAMESPACE();
    0xff04 PIDFD_GET_NET_NAMESPACE();
    0xff05 PIDFD_GET_PID_NAMESPACE();
    0xff06 PIDFD_GET_PID_FOR_CHILDREN_NAMESPACE();
    0xff07 PIDFD_GET_TIME_NAMESPACE();
    0xff08 PIDFD_GET_TIME_FOR_CHILDREN_NAMESPACE();
    0xff09 PIDFD_GET_USER_NAMESPACE();
    0xff0a PIDFD_GET_UTS_NAMESPACE();
    0x40044900 INOTIFY_IOC_SETNEXTWD(wd: INT);
    0x40085400 TFD_IOC_SET_TICKS(ticks: U64_IN);
    0x40088a01 EPIOCSPARAMS(parameters: reads(Opaque, Fixed(8)));
    0x80088a02 EPIOCGPARAMS(parameters: writes(Opaque, Fixed(8)));
    0x40082102 SECCOMP_IOCTL_NOTIF_ID_VALID(id: U64_IN);
    0x40182103 SECCOMP_IOCTL_NOTIF_ADDFD(add: reads(Opaque, Fixed(24)));
    0xc0182101 SECCOMP_IOCTL_NOTIF_SEND(response: reads(Opaque, Fixed(24)));
    0xc0502100 SECCOMP_IOCTL_NOTIF_RECV(notification: updates(Success, Opaque, Fixed(80))), blocks;
    0x8004e500 FUSE_DEV_IOC_CLONE(device: I32_IN);
};
