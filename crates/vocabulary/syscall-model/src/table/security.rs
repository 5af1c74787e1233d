//! Keys and security modules.

use crate::flags::system::{LANDLOCK_RULE, LSM_ATTR, SECCOMP, SECCOMP_FLAGS};
use crate::notation::*;
use crate::row::Act::Variant;
use crate::row::{Len::*, Row, Shape::*, Special::*, When::*};
use crate::variants::KEYCTL;

pub(super) const ROWS: &[Row] = rows! {
    248 add_key(_type: TEXT, _description: TEXT, _payload: reads(Bytes, Arg(3)), plen: SIZE, ringid: INT);
    249 request_key(_type: TEXT, _description: TEXT, _callout_info: TEXT, destringid: INT), blocks;
    250 keyctl(option: INT, arg2: HEX, arg3: HEX, arg4: HEX, arg5: HEX) => Variant(&KEYCTL), blocks;
    317 seccomp(op: of(&SECCOMP), flags: of(&SECCOMP_FLAGS), uargs: ADDRESS) => execute(Seccomp);
    444 landlock_create_ruleset(attr: reads(Opaque, Arg(1)), size: SIZE, flags: HEX);
    445 landlock_add_rule(ruleset_fd: FD, rule_type: of(&LANDLOCK_RULE), rule_attr: reads(Opaque, Fixed(12)),
        flags: HEX);
    446 landlock_restrict_self(ruleset_fd: FD, flags: HEX), changes_rights;
    459 lsm_get_self_attr(attr: of(&LSM_ATTR), ctx: updates(Success, Opaque, AtArg32(2, 1)), size: SOCKLEN,
        flags: HEX);
    460 lsm_set_self_attr(attr: of(&LSM_ATTR), ctx: reads(Opaque, Arg(2)), size: UINT, flags: HEX);
    461 lsm_list_modules(ids: writes(Opaque, AtArg32(1, 1)), size: SOCKLEN, flags: HEX);
};
