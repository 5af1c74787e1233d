//! sysfs(2): names and numbers of the kinds of file systems.

use crate::notation::*;
use crate::row::{Len, Shape::Bytes, VariantTable};

/// sysfs(2).
pub static SYSFS: VariantTable = VariantTable {
    name: "sysfs",
    selector: 0,
    mask: u32::MAX,
    variants: requests! {
        1 SYSFS_INDEX(option: INT, name: TEXT);
        2 SYSFS_NAME(option: INT, index: UINT, name: writes(Bytes, Len::Text));
        3 SYSFS_COUNT(option: INT);
    },
    fallback: DETECT,
};
