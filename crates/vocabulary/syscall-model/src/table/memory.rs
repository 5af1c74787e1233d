//! Memory of the process.

use crate::flags::memory::*;
use crate::notation::*;
use crate::row::{Len::*, Row, Shape::*, Special::*, When::*};

const PKEY: &str = "protection keys are state of the processor that replay does not rebuild";

pub(super) const ROWS: &[Row] = rows! {
    9 mmap(addr: ADDRESS, len: SIZE, prot: of(&PROT), flags: of(&MAP), fd: FD, off: HEX)
        => execute(Mmap), blocks;
    10 mprotect(start: ADDRESS, len: SIZE, prot: of(&PROT)) => execute(Mprotect);
    11 munmap(addr: ADDRESS, len: SIZE) => execute(Munmap);
    12 brk(brk: ADDRESS) => execute(Brk);
    25 mremap(addr: ADDRESS, old_len: SIZE, new_len: SIZE, flags: of(&MREMAP), new_addr: ADDRESS)
        => execute(Mremap);
    26 msync(start: ADDRESS, len: SIZE, flags: of(&MSYNC)), blocks;
    27 mincore(start: ADDRESS, len: SIZE, vec: updates(Always, Bytes, PagesOfArg(1)));
    28 madvise(start: ADDRESS, len: SIZE, behavior: of(&MADVISE)) => execute(Madvise), blocks;
    149 mlock(start: ADDRESS, len: SIZE);
    150 munlock(start: ADDRESS, len: SIZE);
    151 mlockall(flags: of(&MLOCKALL));
    152 munlockall();
    216 remap_file_pages(start: ADDRESS, size: SIZE, prot: of(&PROT), pgoff: SIZE, flags: of(&MAP))
        => reject("no file is named whose content could be kept; mmap(2) does the same");
    237 mbind(start: ADDRESS, len: SIZE, mode: of(&MEMPOLICY), nmask: reads(Opaque, NodeMask(4)),
        maxnode: SIZE, flags: of(&MPOL_MOVE));
    238 set_mempolicy(mode: of(&MEMPOLICY), nmask: reads(Opaque, NodeMask(2)), maxnode: SIZE);
    239 get_mempolicy(policy: writes_when(Always, I32, Fixed(4)),
        nmask: updates(Success, Opaque, NodeMask(2)), maxnode: SIZE, addr: ADDRESS, flags: of(&MPOL_GET));
    256 migrate_pages(pid: PID, maxnode: SIZE, old_nodes: reads(Opaque, NodeMask(1)),
        new_nodes: reads(Opaque, NodeMask(1)));
    279 move_pages(pid: PID, nr_pages: SIZE, pages: reads(Opaque, ArgTimes(1, 8)),
        nodes: reads(Opaque, ArgTimes(1, 4)), status: updates(Always, Opaque, ArgTimes(1, 4)),
        flags: of(&MPOL_MOVE));
    310 process_vm_readv(pid: PID, lvec: iov_out(2), liovcnt: SIZE, rvec: reads(Opaque, ArgTimes(4, 16)),
        riovcnt: SIZE, flags: HEX) => execute(ProcessVm), acquires;
    311 process_vm_writev(pid: PID, lvec: iov_in(2), liovcnt: SIZE, rvec: reads(Opaque, ArgTimes(4, 16)),
        riovcnt: SIZE, flags: HEX) => execute(ProcessVm), releases, outward;
    323 userfaultfd(flags: HEX)
        => reject("faults would be answered by another thread, in an order that no call shows");
    324 membarrier(cmd: of(&MEMBARRIER), flags: HEX, cpu_id: INT);
    325 mlock2(start: ADDRESS, len: SIZE, flags: of(&MLOCK));
    329 pkey_mprotect(start: ADDRESS, len: SIZE, prot: of(&PROT), pkey: INT) => execute(PkeyMprotect);
    330 pkey_alloc(flags: HEX, init_val: HEX) => reject(PKEY);
    331 pkey_free(pkey: INT) => reject(PKEY);
    440 process_madvise(pidfd: FD, vec: reads(Opaque, ArgTimes(2, 16)), vlen: SIZE, behavior: of(&MADVISE),
        flags: HEX) => reject("it may drop what memory holds, the caller's or another's; madvise(2) is followed");
    447 memfd_secret(flags: HEX) => reject("the kernel hides its pages from every reader, the recorder too");
    448 process_mrelease(pidfd: FD, flags: HEX);
    450 set_mempolicy_home_node(start: ADDRESS, len: SIZE, home_node: SIZE, flags: HEX);
    453 map_shadow_stack(addr: ADDRESS, size: SIZE, flags: HEX)
        => reject("a shadow stack would reject the return addresses that the runtime writes");
    462 mseal(start: ADDRESS, len: SIZE, flags: HEX);
};
