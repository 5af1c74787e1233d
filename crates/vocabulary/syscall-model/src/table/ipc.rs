//! System V IPC and POSIX message queues.

use crate::flags::files::OPEN;
use crate::flags::memory::{IPC_GET, IPC_MSG, SHMAT};
use crate::notation::*;
use crate::row::Act::Variant;
use crate::row::{Len::*, Row, Shape::*, Special::*};
use crate::variants::{MSGCTL, SEMCTL, SHMCTL};

pub(super) const ROWS: &[Row] = rows! {
    29 shmget(key: HEX, size: SIZE, shmflg: of(&IPC_GET)), outward;
    30 shmat(shmid: INT, shmaddr: ADDRESS, shmflg: of(&SHMAT)) => execute(Shmat);
    31 shmctl(shmid: INT, cmd: INT, buf: ADDRESS) => Variant(&SHMCTL);
    64 semget(key: HEX, nsems: INT, semflg: of(&IPC_GET)), outward;
    65 semop(semid: INT, tsops: reads(Opaque, ArgTimes(2, 6)), nsops: UINT), blocks, releases, acquires;
    66 semctl(semid: INT, semnum: INT, cmd: INT, arg: HEX) => Variant(&SEMCTL), releases, acquires;
    67 shmdt(shmaddr: ADDRESS) => execute(Shmdt);
    68 msgget(key: HEX, msgflg: of(&IPC_GET)), outward;
    69 msgsnd(msqid: INT, msgp: reads(Opaque, ArgPlus(2, 8)), msgsz: SIZE, msgflg: of(&IPC_MSG)),
        blocks, releases;
    70 msgrcv(msqid: INT, msgp: writes(Opaque, RetPlus(8)), msgsz: SIZE, msgtyp: LONG, msgflg: of(&IPC_MSG)),
        blocks, acquires;
    71 msgctl(msqid: INT, cmd: INT, buf: ADDRESS) => Variant(&MSGCTL);
    220 semtimedop(semid: INT, tsops: reads(Opaque, ArgTimes(2, 6)), nsops: UINT, timeout: TIMESPEC),
        blocks, releases, acquires;
    240 mq_open(u_name: TEXT, oflag: of(&OPEN), mode: MODE, u_attr: reads(Opaque, Fixed(64))), outward;
    241 mq_unlink(u_name: TEXT), outward;
    242 mq_timedsend(mqdes: FD, u_msg_ptr: reads(Bytes, Arg(2)), msg_len: SIZE, msg_prio: UINT,
        u_abs_timeout: TIMESPEC), blocks, releases;
    243 mq_timedreceive(mqdes: FD, u_msg_ptr: fills(Bytes), msg_len: SIZE, u_msg_prio: U32_OUT,
        u_abs_timeout: TIMESPEC), blocks, acquires;
    244 mq_notify(mqdes: FD, u_notification: reads(Opaque, Fixed(64)));
    245 mq_getsetattr(mqdes: FD, u_mqstat: reads(Opaque, Fixed(64)), u_omqstat: writes(Opaque, Fixed(64)));
};
