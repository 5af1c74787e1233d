//! Requests of the calls whose meaning an argument selects.

use crate::row::{Act, VariantTable};

/// ioctl(2).
pub static IOCTL: VariantTable = VariantTable { name: "ioctl", selector: 1, variants: &[], fallback: Act::Detect };
/// fcntl(2).
pub static FCNTL: VariantTable = VariantTable { name: "fcntl", selector: 1, variants: &[], fallback: Act::Detect };
/// prctl(2).
pub static PRCTL: VariantTable = VariantTable { name: "prctl", selector: 0, variants: &[], fallback: Act::Detect };
