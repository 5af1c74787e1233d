//! keyctl(2).

use crate::notation::*;
use crate::row::{Arg, Len, Len::Fixed, Shape::Bytes, Shape::Opaque, VariantTable, When};

const KEY: Arg = INT;

/// A buffer that is filled if the whole of it fits; the result is the full length.
const fn answer(size: u8) -> Arg {
    updates(When::Positive, Bytes, Len::RetOrArg(size))
}

/// keyctl(2).
pub static KEYCTL: VariantTable = VariantTable {
    name: "keyctl",
    selector: 0,
    mask: u32::MAX,
    variants: requests! {
        0 KEYCTL_GET_KEYRING_ID(option: INT, key: KEY, create: INT);
        1 KEYCTL_JOIN_SESSION_KEYRING(option: INT, name: TEXT);
        2 KEYCTL_UPDATE(option: INT, key: KEY, payload: reads(Bytes, Len::Arg(3)), len: SIZE);
        3 KEYCTL_REVOKE(option: INT, key: KEY);
        4 KEYCTL_CHOWN(option: INT, key: KEY, user: ID, group: ID);
        5 KEYCTL_SETPERM(option: INT, key: KEY, perm: HEX);
        6 KEYCTL_DESCRIBE(option: INT, key: KEY, buf: answer(3), len: SIZE);
        7 KEYCTL_CLEAR(option: INT, key: KEY);
        8 KEYCTL_LINK(option: INT, key: KEY, keyring: KEY);
        9 KEYCTL_UNLINK(option: INT, key: KEY, keyring: KEY);
        10 KEYCTL_SEARCH(option: INT, keyring: KEY, type: TEXT, description: TEXT, destination: KEY);
        11 KEYCTL_READ(option: INT, key: KEY, buf: answer(3), len: SIZE), blocks;
        12 KEYCTL_INSTANTIATE(option: INT, key: KEY, payload: reads(Bytes, Len::Arg(3)), len: SIZE,
            keyring: KEY);
        13 KEYCTL_NEGATE(option: INT, key: KEY, timeout: UINT, keyring: KEY);
        14 KEYCTL_SET_REQKEY_KEYRING(option: INT, default: INT);
        15 KEYCTL_SET_TIMEOUT(option: INT, key: KEY, timeout: UINT);
        16 KEYCTL_ASSUME_AUTHORITY(option: INT, key: KEY);
        17 KEYCTL_GET_SECURITY(option: INT, key: KEY, buf: answer(3), len: SIZE);
        18 KEYCTL_SESSION_TO_PARENT(option: INT);
        19 KEYCTL_REJECT(option: INT, key: KEY, timeout: UINT, error: UINT, keyring: KEY);
        20 KEYCTL_INSTANTIATE_IOV(option: INT, key: KEY, iov: iov_in(3), count: UINT, keyring: KEY);
        21 KEYCTL_INVALIDATE(option: INT, key: KEY);
        22 KEYCTL_GET_PERSISTENT(option: INT, uid: ID, keyring: KEY);
        23 KEYCTL_DH_COMPUTE(option: INT, params: reads(Opaque, Fixed(12)), buf: answer(3), len: SIZE,
            kdf: ADDRESS);
        24 KEYCTL_PKEY_QUERY(option: INT, key: KEY, reserved: HEX, info: TEXT,
            result: writes(Opaque, Fixed(56)));
        25 KEYCTL_PKEY_ENCRYPT(option: INT, params: ADDRESS, info: TEXT, input: ADDRESS, output: ADDRESS)
            => DETECT;
        26 KEYCTL_PKEY_DECRYPT(option: INT, params: ADDRESS, info: TEXT, input: ADDRESS, output: ADDRESS)
            => DETECT;
        27 KEYCTL_PKEY_SIGN(option: INT, params: ADDRESS, info: TEXT, input: ADDRESS, output: ADDRESS)
            => DETECT;
        28 KEYCTL_PKEY_VERIFY(option: INT, params: ADDRESS, info: TEXT, input: ADDRESS, signature: ADDRESS);
        29 KEYCTL_RESTRICT_KEYRING(option: INT, keyring: KEY, type: TEXT, restriction: TEXT);
        30 KEYCTL_MOVE(option: INT, key: KEY, from: KEY, to: KEY, flags: HEX);
        // What is not known to the kernel is cleared.
        31 KEYCTL_CAPABILITIES(option: INT, buf: updates(When::Positive, Bytes, Len::Arg(2)), len: SIZE);
        32 KEYCTL_WATCH_KEY(option: INT, key: KEY, queue: FD, watch: INT);
    },
    fallback: DETECT,
};
