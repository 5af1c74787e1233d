//! fcntl(2).

use crate::flags::files::{DNOTIFY, FD_FLAGS, LEASE, OPEN, SEALS};
use crate::notation::*;
use crate::row::{
    Arg,
    Len::Fixed,
    Shape::Opaque,
    Special::{AskDescriptor, DescriptorFlags},
    VariantTable,
    When::Success,
};

macro_rules! commands {
    ($($nr:literal $name:tt($($arg:tt: $spec:expr),*) $(=> $act:expr)? $(, $blocks:ident)?;)*) => {
        requests! { $($nr $name(fd: FD, cmd: INT $(, $arg: $spec)*) $(=> $act)? $(, $blocks)?;)* }
    };
}

const LOCK: Arg = reads(Opaque, Fixed(32));
const LOCK_ASKED: Arg = updates(Success, Opaque, Fixed(32));

/// fcntl(2).
pub static FCNTL: VariantTable = VariantTable {
    name: "fcntl",
    selector: 1,
    mask: u32::MAX,
    variants: commands! {
        0 F_DUPFD(min: INT) => execute(AskDescriptor);
        1 F_GETFD() => execute(AskDescriptor);
        2 F_SETFD(flags: of(&FD_FLAGS)) => execute(DescriptorFlags);
        3 F_GETFL() => execute(AskDescriptor);
        4 F_SETFL(flags: of(&OPEN));
        5 F_GETLK(lock: LOCK_ASKED), blocks;
        6 F_SETLK(lock: LOCK), blocks;
        7 F_SETLKW(lock: LOCK), blocks;
        8 F_SETOWN(owner: PID);
        9 F_GETOWN();
        10 F_SETSIG(sig: SIGNAL);
        11 F_GETSIG();
        15 F_SETOWN_EX(owner: reads(Opaque, Fixed(8)));
        16 F_GETOWN_EX(owner: writes(Opaque, Fixed(8)));
        17 F_GETOWNER_UIDS(uids: writes(Opaque, Fixed(8)));
        36 F_OFD_GETLK(lock: LOCK_ASKED), blocks;
        37 F_OFD_SETLK(lock: LOCK), blocks;
        38 F_OFD_SETLKW(lock: LOCK), blocks;
        1024 F_SETLEASE(type: of(&LEASE));
        1025 F_GETLEASE();
        1026 F_NOTIFY(events: of(&DNOTIFY));
        1027 F_DUPFD_QUERY(other: FD);
        1028 F_CREATED_QUERY();
        1029 F_CANCELLK(lock: LOCK);
        1030 F_DUPFD_CLOEXEC(min: INT) => execute(AskDescriptor);
        1031 F_SETPIPE_SZ(size: UINT);
        1032 F_GETPIPE_SZ();
        1033 F_ADD_SEALS(seals: of(&SEALS));
        1034 F_GET_SEALS();
        1035 F_GET_RW_HINT(hint: U64_OUT);
        1036 F_SET_RW_HINT(hint: U64_IN);
        1037 F_GET_FILE_RW_HINT(hint: U64_OUT);
        1038 F_SET_FILE_RW_HINT(hint: U64_IN);
    },
    fallback: DETECT,
};
