//! shmctl(2), semctl(2), msgctl(2).

use crate::notation::*;
use crate::row::{Len::Fixed, Shape::Opaque, VariantTable};

/// shmctl(2).
pub static SHMCTL: VariantTable = VariantTable {
    name: "shmctl",
    selector: 1,
    mask: u32::MAX,
    variants: requests! {
        0 IPC_RMID(shmid: INT, cmd: INT);
        1 IPC_SET(shmid: INT, cmd: INT, buf: reads(Opaque, Fixed(112)));
        2 IPC_STAT(shmid: INT, cmd: INT, buf: writes(Opaque, Fixed(112)));
        3 IPC_INFO(shmid: INT, cmd: INT, buf: writes(Opaque, Fixed(72)));
        11 SHM_LOCK(shmid: INT, cmd: INT);
        12 SHM_UNLOCK(shmid: INT, cmd: INT);
        13 SHM_STAT(shmid: INT, cmd: INT, buf: writes(Opaque, Fixed(112)));
        14 SHM_INFO(shmid: INT, cmd: INT, buf: writes(Opaque, Fixed(48)));
        15 SHM_STAT_ANY(shmid: INT, cmd: INT, buf: writes(Opaque, Fixed(112)));
    },
    fallback: DETECT,
};

/// semctl(2). How many semaphores GETALL writes only the set itself knows.
pub static SEMCTL: VariantTable = VariantTable {
    name: "semctl",
    selector: 2,
    mask: u32::MAX,
    variants: requests! {
        0 IPC_RMID(semid: INT, semnum: INT, cmd: INT);
        1 IPC_SET(semid: INT, semnum: INT, cmd: INT, buf: reads(Opaque, Fixed(104)));
        2 IPC_STAT(semid: INT, semnum: INT, cmd: INT, buf: writes(Opaque, Fixed(104)));
        3 IPC_INFO(semid: INT, semnum: INT, cmd: INT, buf: writes(Opaque, Fixed(40)));
        11 GETPID(semid: INT, semnum: INT, cmd: INT);
        12 GETVAL(semid: INT, semnum: INT, cmd: INT);
        13 GETALL(semid: INT, semnum: INT, cmd: INT, array: ADDRESS) => DETECT;
        14 GETNCNT(semid: INT, semnum: INT, cmd: INT);
        15 GETZCNT(semid: INT, semnum: INT, cmd: INT);
        16 SETVAL(semid: INT, semnum: INT, cmd: INT, val: INT);
        17 SETALL(semid: INT, semnum: INT, cmd: INT, array: ADDRESS);
        18 SEM_STAT(semid: INT, semnum: INT, cmd: INT, buf: writes(Opaque, Fixed(104)));
        19 SEM_INFO(semid: INT, semnum: INT, cmd: INT, buf: writes(Opaque, Fixed(40)));
        20 SEM_STAT_ANY(semid: INT, semnum: INT, cmd: INT, buf: writes(Opaque, Fixed(104)));
    },
    fallback: DETECT,
};

/// msgctl(2).
pub static MSGCTL: VariantTable = VariantTable {
    name: "msgctl",
    selector: 1,
    mask: u32::MAX,
    variants: requests! {
        0 IPC_RMID(msqid: INT, cmd: INT);
        1 IPC_SET(msqid: INT, cmd: INT, buf: reads(Opaque, Fixed(120)));
        2 IPC_STAT(msqid: INT, cmd: INT, buf: writes(Opaque, Fixed(120)));
        3 IPC_INFO(msqid: INT, cmd: INT, buf: writes(Opaque, Fixed(32)));
        11 MSG_STAT(msqid: INT, cmd: INT, buf: writes(Opaque, Fixed(120)));
        12 MSG_INFO(msqid: INT, cmd: INT, buf: writes(Opaque, Fixed(32)));
        13 MSG_STAT_ANY(msqid: INT, cmd: INT, buf: writes(Opaque, Fixed(120)));
    },
    fallback: DETECT,
};
