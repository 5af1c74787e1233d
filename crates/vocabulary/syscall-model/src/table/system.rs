//! The machine as a whole.

use crate::flags::system::{GETRANDOM, MODULE, REBOOT, SYSLOG};
use crate::notation::*;
use crate::row::Act::Variant;
use crate::row::{Len::*, Row, Shape::*, Special::PerfEventOpen, When::*};
use crate::variants::{QUOTACTL, QUOTACTL_FD, SYSFS};

const PORTS: &str = "instructions that reach the ports of devices cannot be recorded";

pub(super) const ROWS: &[Row] = rows! {
    63 uname(name: writes(Utsname, Fixed(390)));
    99 sysinfo(info: writes(Opaque, Fixed(112)));
    103 syslog(type: of(&SYSLOG), buf: updates(Positive, Bytes, RetOrArg(2)), len: INT), blocks;
    134 uselib(library: PATH);
    139 sysfs(option: INT, arg1: HEX, arg2: HEX) => Variant(&SYSFS);
    153 vhangup();
    156 _sysctl(args: ADDRESS);
    163 acct(name: PATH);
    167 swapon(specialfile: PATH, swap_flags: HEX), blocks;
    168 swapoff(specialfile: PATH), blocks;
    169 reboot(magic1: HEX, magic2: HEX, cmd: of(&REBOOT), arg: ADDRESS);
    170 sethostname(name: reads(Bytes, Arg(1)), len: INT);
    171 setdomainname(name: reads(Bytes, Arg(1)), len: INT);
    172 iopl(level: UINT) => reject(PORTS);
    173 ioperm(from: HEX, num: SIZE, turn_on: INT) => reject(PORTS);
    174 create_module();
    175 init_module(umod: reads(Opaque, Arg(1)), len: SIZE, uargs: TEXT), blocks;
    176 delete_module(name_user: TEXT, flags: HEX), blocks;
    177 get_kernel_syms();
    178 query_module();
    179 quotactl(cmd: HEX, special: PATH, id: ID, addr: ADDRESS) => Variant(&QUOTACTL), blocks;
    180 nfsservctl();
    181 getpmsg();
    182 putpmsg();
    183 afs_syscall();
    184 tuxcall();
    185 security();
    236 vserver();
    246 kexec_load(entry: ADDRESS, nr_segments: SIZE, segments: reads(Opaque, ArgTimes(1, 32)), flags: HEX);
    // Where it does not know the size it writes the one that it knows.
    298 perf_event_open(attr: updates(Always, Opaque, Counted { header: 0, at: 4, each: 1 }), pid: PID,
        cpu: INT, group_fd: INT, flags: HEX) => execute(PerfEventOpen);
    313 finit_module(fd: FD, uargs: TEXT, flags: of(&MODULE)), blocks;
    318 getrandom(buf: fills(Bytes), count: SIZE, flags: of(&GETRANDOM)), blocks;
    320 kexec_file_load(kernel_fd: FD, initrd_fd: FD, cmdline_len: SIZE, cmdline: reads(Bytes, Arg(2)),
        flags: HEX);
    321 bpf(cmd: INT, uattr: updates(Always, Opaque, Arg(2)), size: UINT)
        => reject("its maps are memory that the kernel writes at any time");
    443 quotactl_fd(fd: FD, cmd: HEX, id: ID, addr: ADDRESS) => Variant(&QUOTACTL_FD), blocks;
};
