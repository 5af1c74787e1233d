//! Descriptors, paths, directories and what belongs to files.

use crate::flags::files::*;
use crate::flags::process::CLONE;
use crate::notation::*;
use crate::row::Act::Variant;
use crate::row::{Len::*, Row, Shape::*, Special::*, When::*};
use crate::variants::FCNTL;
use crate::variants::IOCTL;

pub(super) const ROWS: &[Row] = rows! {
    2 open(filename: PATH, flags: of(&OPEN), mode: MODE), blocks;
    3 close(fd: FD) => execute(Close), blocks, releases;
    4 stat(filename: PATH, statbuf: writes(Stat, Fixed(144)));
    5 fstat(fd: FD, statbuf: writes(Stat, Fixed(144))) => execute(AskDescriptor);
    6 lstat(filename: PATH, statbuf: writes(Stat, Fixed(144)));
    16 ioctl(fd: FD, cmd: HEX, arg: ADDRESS) => Variant(&IOCTL), blocks;
    21 access(filename: PATH, mode: of(&ACCESS));
    22 pipe(fildes: writes(I32Pair, Fixed(8)));
    32 dup(fildes: FD) => execute(AskDescriptor);
    33 dup2(oldfd: FD, newfd: FD) => execute(DupTo);
    72 fcntl(fd: FD, cmd: INT, arg: HEX) => Variant(&FCNTL), releases, acquires;
    73 flock(fd: FD, cmd: of(&FLOCK)), blocks, releases, acquires, shadowed;
    74 fsync(fd: FD), blocks;
    75 fdatasync(fd: FD), blocks;
    76 truncate(path: PATH, length: LONG), outward, moves_end;
    77 ftruncate(fd: FD, length: LONG), moves_end;
    78 getdents(fd: FD, dirent: updates(Positive, Opaque, RetOrArg(2)), count: UINT);
    79 getcwd(buf: fills(Bytes), size: SIZE);
    80 chdir(filename: PATH);
    81 fchdir(fd: FD);
    82 rename(oldname: PATH, newname: PATH), outward;
    83 mkdir(pathname: PATH, mode: MODE), outward;
    84 rmdir(pathname: PATH), outward;
    85 creat(pathname: PATH, mode: MODE), blocks, outward;
    86 link(oldname: PATH, newname: PATH), outward;
    87 unlink(pathname: PATH), outward;
    88 symlink(oldname: TEXT, newname: PATH), outward;
    89 readlink(path: PATH, buf: fills(Bytes), bufsiz: INT);
    90 chmod(filename: PATH, mode: MODE), outward;
    91 fchmod(fd: FD, mode: MODE);
    92 chown(filename: PATH, user: ID, group: ID), outward;
    93 fchown(fd: FD, user: ID, group: ID);
    94 lchown(filename: PATH, user: ID, group: ID), outward;
    95 umask(mask: MODE);
    132 utime(filename: PATH, times: reads(Opaque, Fixed(16)));
    133 mknod(filename: PATH, mode: MODE, dev: HEX), outward;
    136 ustat(dev: HEX, ubuf: writes(Opaque, Fixed(32)));
    137 statfs(pathname: PATH, buf: writes(Statfs, Fixed(120)));
    138 fstatfs(fd: FD, buf: writes(Statfs, Fixed(120)));
    155 pivot_root(new_root: PATH, put_old: PATH) => execute(ChangeRoot), changes_rights;
    161 chroot(filename: PATH) => execute(ChangeRoot), outward, changes_rights;
    162 sync(), blocks;
    165 mount(dev_name: TEXT, dir_name: PATH, type: TEXT, flags: of(&MOUNT), data: ADDRESS), blocks, outward;
    166 umount2(name: PATH, flags: of(&UMOUNT)), blocks, outward;
    188 setxattr(path: PATH, name: TEXT, value: reads(Bytes, Arg(3)), size: SIZE, flags: of(&XATTR)), outward;
    189 lsetxattr(path: PATH, name: TEXT, value: reads(Bytes, Arg(3)), size: SIZE, flags: of(&XATTR));
    190 fsetxattr(fd: FD, name: TEXT, value: reads(Bytes, Arg(3)), size: SIZE, flags: of(&XATTR));
    191 getxattr(path: PATH, name: TEXT, value: updates(Positive, Bytes, RetOrArg(3)), size: SIZE);
    192 lgetxattr(path: PATH, name: TEXT, value: updates(Positive, Bytes, RetOrArg(3)), size: SIZE);
    193 fgetxattr(fd: FD, name: TEXT, value: updates(Positive, Bytes, RetOrArg(3)), size: SIZE);
    194 listxattr(path: PATH, list: updates(Positive, Bytes, RetOrArg(2)), size: SIZE);
    195 llistxattr(path: PATH, list: updates(Positive, Bytes, RetOrArg(2)), size: SIZE);
    196 flistxattr(fd: FD, list: updates(Positive, Bytes, RetOrArg(2)), size: SIZE);
    197 removexattr(path: PATH, name: TEXT);
    198 lremovexattr(path: PATH, name: TEXT);
    199 fremovexattr(fd: FD, name: TEXT);
    212 lookup_dcookie(cookie: HEX, buf: fills(Bytes), len: SIZE);
    217 getdents64(fd: FD, dirent: updates(Positive, Dirents, RetOrArg(2)), count: UINT) => execute(ListDirectory);
    235 utimes(filename: PATH, utimes: reads(Opaque, Fixed(32)));
    253 inotify_init();
    254 inotify_add_watch(fd: FD, pathname: PATH, mask: of(&INOTIFY)), outward;
    255 inotify_rm_watch(fd: FD, wd: INT);
    257 openat(dfd: DIRFD, filename: PATH, flags: of(&OPEN), mode: MODE), blocks;
    258 mkdirat(dfd: DIRFD, pathname: PATH, mode: MODE), outward;
    259 mknodat(dfd: DIRFD, filename: PATH, mode: MODE, dev: HEX), outward;
    260 fchownat(dfd: DIRFD, filename: PATH, user: ID, group: ID, flag: of(&AT)), outward;
    261 futimesat(dfd: DIRFD, filename: PATH, utimes: reads(Opaque, Fixed(32)));
    262 newfstatat(dfd: DIRFD, filename: PATH, statbuf: writes(Stat, Fixed(144)), flag: of(&AT))
        => execute(AskDescriptor);
    263 unlinkat(dfd: DIRFD, pathname: PATH, flag: of(&UNLINKAT)), outward;
    264 renameat(olddfd: DIRFD, oldname: PATH, newdfd: DIRFD, newname: PATH), outward;
    265 linkat(olddfd: DIRFD, oldname: PATH, newdfd: DIRFD, newname: PATH, flags: of(&AT)), outward;
    266 symlinkat(oldname: TEXT, newdfd: DIRFD, newname: PATH), outward;
    267 readlinkat(dfd: DIRFD, path: PATH, buf: fills(Bytes), bufsiz: INT);
    268 fchmodat(dfd: DIRFD, filename: PATH, mode: MODE), outward;
    269 faccessat(dfd: DIRFD, filename: PATH, mode: of(&ACCESS));
    280 utimensat(dfd: DIRFD, filename: PATH, utimes: reads(Opaque, Fixed(32)), flags: of(&AT)), outward;
    284 eventfd(count: UINT);
    290 eventfd2(count: UINT, flags: of(&CLOEXEC_NONBLOCK));
    292 dup3(oldfd: FD, newfd: FD, flags: of(&CLOEXEC_NONBLOCK)) => execute(DupTo);
    293 pipe2(fildes: writes(I32Pair, Fixed(8)), flags: of(&PIPE));
    294 inotify_init1(flags: of(&CLOEXEC_NONBLOCK));
    300 fanotify_init(flags: of(&FAN_INIT), event_f_flags: of(&OPEN));
    301 fanotify_mark(fanotify_fd: FD, flags: of(&FAN_MARK), mask: HEX, dfd: DIRFD, pathname: PATH);
    303 name_to_handle_at(dfd: DIRFD, name: PATH, handle: updates(Always, Opaque, Counted { header: 8, at: 0,
        each: 1 }), mnt_id: updates(Always, I32, Fixed(8)), flag: of(&HANDLE_AT));
    304 open_by_handle_at(mountdirfd: DIRFD, handle: reads(Opaque, Counted { header: 8, at: 0, each: 1 }),
        flags: of(&OPEN)), blocks;
    306 syncfs(fd: FD), blocks;
    308 setns(fd: FD, nstype: of(&CLONE)) => execute(Namespaces), changes_rights;
    316 renameat2(olddfd: DIRFD, oldname: PATH, newdfd: DIRFD, newname: PATH, flags: of(&RENAME)), outward;
    319 memfd_create(uname: TEXT, flags: of(&MEMFD));
    332 statx(dfd: DIRFD, filename: PATH, flags: of(&AT), mask: of(&STATX),
        buffer: writes(Statx, Fixed(256))) => execute(AskDescriptor);
    428 open_tree(dfd: DIRFD, filename: PATH, flags: of(&OPEN_TREE));
    429 move_mount(from_dfd: DIRFD, from_path: PATH, to_dfd: DIRFD, to_path: PATH, flags: of(&MOVE_MOUNT));
    430 fsopen(fs_name: TEXT, flags: HEX);
    431 fsconfig(fd: FD, cmd: of(&FSCONFIG), key: TEXT, value: ADDRESS, aux: INT), blocks;
    432 fsmount(fs_fd: FD, flags: HEX, attr_flags: HEX);
    433 fspick(dfd: DIRFD, path: PATH, flags: HEX);
    436 close_range(fd: UINT, max_fd: UINT, flags: of(&CLOSE_RANGE)) => execute(CloseRange), blocks;
    437 openat2(dfd: DIRFD, filename: PATH, how: reads(Opaque, Arg(3)), usize: SIZE), blocks, outward;
    439 faccessat2(dfd: DIRFD, filename: PATH, mode: of(&ACCESS), flags: of(&FACCESSAT));
    442 mount_setattr(dfd: DIRFD, path: PATH, flags: of(&AT), uattr: reads(Opaque, Arg(4)), usize: SIZE);
    452 fchmodat2(dfd: DIRFD, filename: PATH, mode: MODE, flags: of(&AT));
    457 statmount(req: reads(Opaque, SelfSized32), buf: writes(Opaque, SelfSized32), bufsize: SIZE,
        flags: HEX);
    458 listmount(req: reads(Opaque, SelfSized32), mnt_ids: writes_when(Positive, U64, RetTimes(8)),
        nr_mnt_ids: SIZE, flags: HEX);
    463 setxattrat(dfd: DIRFD, path: PATH, at_flags: of(&AT), name: TEXT, uargs: reads(Opaque, Arg(5)),
        usize: SIZE);
    464 getxattrat(dfd: DIRFD, path: PATH, at_flags: of(&AT), name: TEXT, uargs: XATTR_OUT, usize: SIZE);
    465 listxattrat(dfd: DIRFD, path: PATH, at_flags: of(&AT), list: updates(Positive, Bytes, RetOrArg(4)),
        size: SIZE);
    466 removexattrat(dfd: DIRFD, path: PATH, at_flags: of(&AT), name: TEXT);
    467 open_tree_attr(dfd: DIRFD, filename: PATH, flags: of(&OPEN_TREE), uattr: reads(Opaque, Arg(4)),
        usize: SIZE);
    468 file_getattr(dfd: DIRFD, filename: PATH, ufattr: updates(Success, Opaque, Arg(3)), usize: SIZE,
        at_flags: of(&AT));
    469 file_setattr(dfd: DIRFD, filename: PATH, ufattr: reads(Opaque, Arg(3)), usize: SIZE,
        at_flags: of(&AT));
};
