//! arch_prctl(2). `Execute(ArchPrctl)` marks the options that the runtime has code for.

use crate::notation::*;
use crate::row::{Act, Special::ArchPrctl, VariantTable};

const SHADOW_STACK: &str = "a shadow stack would reject the return addresses that the runtime writes";
const TAGS: &str = "addresses with tags are not the addresses that the runtime keeps account of";

/// arch_prctl(2).
pub static ARCH_PRCTL: VariantTable = VariantTable {
    name: "arch_prctl",
    selector: 0,
    mask: u32::MAX,
    variants: requests! {
        0x1001 ARCH_SET_GS(option: HEX, addr: ADDRESS) => execute(ArchPrctl);
        0x1002 ARCH_SET_FS(option: HEX, addr: ADDRESS) => execute(ArchPrctl);
        0x1003 ARCH_GET_FS(option: HEX, addr: U64_OUT) => execute(ArchPrctl);
        0x1004 ARCH_GET_GS(option: HEX, addr: U64_OUT) => execute(ArchPrctl);
        0x1011 ARCH_GET_CPUID(option: HEX) => execute(ArchPrctl);
        0x1012 ARCH_SET_CPUID(option: HEX, enable: HEX) => execute(ArchPrctl);
        0x1021 ARCH_GET_XCOMP_SUPP(option: HEX, addr: U64_OUT);
        0x1022 ARCH_GET_XCOMP_PERM(option: HEX, addr: U64_OUT);
        0x1023 ARCH_REQ_XCOMP_PERM(option: HEX, feature: UINT) => execute(ArchPrctl);
        0x1024 ARCH_GET_XCOMP_GUEST_PERM(option: HEX, addr: U64_OUT);
        0x1025 ARCH_REQ_XCOMP_GUEST_PERM(option: HEX, feature: UINT);
        0x2001 ARCH_MAP_VDSO_X32(option: HEX, addr: ADDRESS) => reject("it maps a vDSO that answers unseen");
        0x2002 ARCH_MAP_VDSO_32(option: HEX, addr: ADDRESS) => reject("it maps a vDSO that answers unseen");
        0x2003 ARCH_MAP_VDSO_64(option: HEX, addr: ADDRESS) => reject("it maps a vDSO that answers unseen");
        0x4001 ARCH_GET_UNTAG_MASK(option: HEX, addr: U64_OUT);
        0x4002 ARCH_ENABLE_TAGGED_ADDR(option: HEX, bits: UINT) => reject(TAGS);
        0x4003 ARCH_GET_MAX_TAG_BITS(option: HEX, addr: U64_OUT);
        0x4004 ARCH_FORCE_TAGGED_SVA(option: HEX) => reject(TAGS);
        0x5001 ARCH_SHSTK_ENABLE(option: HEX, features: HEX) => reject(SHADOW_STACK);
        0x5002 ARCH_SHSTK_DISABLE(option: HEX, features: HEX) => reject(SHADOW_STACK);
        0x5003 ARCH_SHSTK_LOCK(option: HEX, features: HEX) => reject(SHADOW_STACK);
        0x5004 ARCH_SHSTK_UNLOCK(option: HEX, features: HEX) => reject(SHADOW_STACK);
        0x5005 ARCH_SHSTK_STATUS(option: HEX, addr: U64_OUT) => reject(SHADOW_STACK);
    },
    fallback: Act::Inject,
};
