//! Reading, writing and copying of what descriptors hold.

use crate::flags::files::*;
use crate::notation::*;
use crate::row::{Len::*, Row, Shape::*, Special::*, When::*};

const AIO: &str = "its operations write memory when they complete, outside of any call";

pub(super) const ROWS: &[Row] = rows! {
    0 read(fd: FD, buf: fills(Bytes), count: SIZE), blocks, acquires;
    1 write(fd: FD, buf: reads(Bytes, Arg(2)), count: SIZE) => execute(Output), blocks, releases;
    8 lseek(fd: FD, offset: LONG, whence: of(&SEEK));
    17 pread64(fd: FD, buf: fills(Bytes), count: SIZE, pos: LONG), blocks, acquires;
    18 pwrite64(fd: FD, buf: reads(Bytes, Arg(2)), count: SIZE, pos: LONG)
        => execute(Output), blocks, releases;
    19 readv(fd: FD, vec: iov_out(2), vlen: SIZE), blocks, acquires;
    20 writev(fd: FD, vec: iov_in(2), vlen: SIZE) => execute(Output), blocks, releases;
    40 sendfile(out_fd: FD, in_fd: FD, offset: OFFSET, count: SIZE)
        => execute(KernelCopy), blocks, releases, acquires;
    187 readahead(fd: FD, offset: LONG, count: SIZE), blocks;
    206 io_setup(nr_events: UINT, ctx: U64_OUT) => reject(AIO);
    207 io_destroy(ctx: HEX) => reject(AIO);
    208 io_getevents(ctx: HEX, min_nr: LONG, nr: LONG, events: writes_when(Positive, Opaque, RetTimes(32)),
        timeout: TIMESPEC) => reject(AIO), blocks;
    209 io_submit(ctx: HEX, nr: LONG, iocbpp: reads(Opaque, ArgTimes(1, 8))) => reject(AIO);
    210 io_cancel(ctx: HEX, iocb: reads(Opaque, Fixed(64)), result: writes(Opaque, Fixed(32))) => reject(AIO);
    221 fadvise64(fd: FD, offset: LONG, len: SIZE, advice: of(&FADVISE));
    275 splice(fd_in: FD, off_in: OFFSET, fd_out: FD, off_out: OFFSET, len: SIZE, flags: of(&SPLICE))
        => execute(KernelCopy), blocks, releases, acquires;
    276 tee(fdin: FD, fdout: FD, len: SIZE, flags: of(&SPLICE))
        => execute(KernelCopy), blocks, releases, acquires;
    277 sync_file_range(fd: FD, offset: LONG, nbytes: LONG, flags: of(&SYNC_RANGE)), blocks;
    278 vmsplice(fd: FD, iov: iov_in(2), nr_segs: SIZE, flags: of(&SPLICE))
        => reject("the pages stay shared with the pipe, so that later stores change what is read from it"),
        blocks, releases, acquires;
    285 fallocate(fd: FD, mode: of(&FALLOCATE), offset: LONG, len: LONG), blocks, moves_end;
    295 preadv(fd: FD, vec: iov_out(2), vlen: SIZE, pos_l: HEX, pos_h: HEX), blocks, acquires;
    296 pwritev(fd: FD, vec: iov_in(2), vlen: SIZE, pos_l: HEX, pos_h: HEX)
        => execute(Output), blocks, releases;
    326 copy_file_range(fd_in: FD, off_in: OFFSET, fd_out: FD, off_out: OFFSET, len: SIZE, flags: HEX)
        => execute(KernelCopy), blocks, releases, acquires;
    327 preadv2(fd: FD, vec: iov_out(2), vlen: SIZE, pos_l: HEX, pos_h: HEX, flags: of(&RWF)),
        blocks, acquires;
    328 pwritev2(fd: FD, vec: iov_in(2), vlen: SIZE, pos_l: HEX, pos_h: HEX, flags: of(&RWF))
        => execute(Output), blocks, releases;
    333 io_pgetevents(ctx: HEX, min_nr: LONG, nr: LONG, events: writes_when(Positive, Opaque, RetTimes(32)),
        timeout: TIMESPEC, usig: reads(Opaque, Fixed(16))) => reject(AIO), blocks;
    425 io_uring_setup(entries: UINT, params: updates(Always, Opaque, Fixed(120)))
        => reject("its rings are memory that the kernel writes at any time");
    426 io_uring_enter(fd: FD, to_submit: UINT, min_complete: UINT, flags: HEX, argp: reads(Opaque, Arg(5)),
        argsz: SIZE) => reject("its rings are memory that the kernel writes at any time"), blocks;
    427 io_uring_register(fd: FD, opcode: UINT, arg: ADDRESS, nr_args: UINT)
        => reject("its rings are memory that the kernel writes at any time"), blocks;
    451 cachestat(fd: FD, range: reads(Opaque, Fixed(16)), cstat: writes(Opaque, Fixed(40)), flags: HEX);
};
