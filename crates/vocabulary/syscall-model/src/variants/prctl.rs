//! prctl(2). `Execute(Prctl)` marks the options that the runtime has code for;
//! of the others the result is injected.

use crate::notation::*;
use crate::row::{
    Act, Len::Fixed, Len::RetOrArg, Shape::Bytes, Shape::Opaque, Shape::U64, Special::Prctl,
    Special::Seccomp, VariantTable, When::Success,
};

macro_rules! options {
    ($($nr:literal $name:tt($($arg:tt: $spec:expr),*) $(=> $act:expr)? $(, $blocks:ident)?;)*) => {
        requests! { $($nr $name(option: INT $(, $arg: $spec)*) $(=> $act)? $(, $blocks)?;)* }
    };
}

/// prctl(2).
pub static PRCTL: VariantTable = VariantTable {
    name: "prctl",
    selector: 0,
    mask: u32::MAX,
    variants: options! {
        1 PR_SET_PDEATHSIG(sig: SIGNAL);
        2 PR_GET_PDEATHSIG(sig: I32_OUT);
        3 PR_GET_DUMPABLE() => execute(Prctl);
        4 PR_SET_DUMPABLE(dumpable: INT) => execute(Prctl);
        5 PR_GET_UNALIGN(value: U32_OUT);
        6 PR_SET_UNALIGN(value: UINT);
        7 PR_GET_KEEPCAPS();
        8 PR_SET_KEEPCAPS(keep: INT);
        9 PR_GET_FPEMU(value: U32_OUT);
        10 PR_SET_FPEMU(value: UINT);
        11 PR_GET_FPEXC(value: U32_OUT);
        12 PR_SET_FPEXC(value: UINT);
        13 PR_GET_TIMING();
        14 PR_SET_TIMING(value: UINT);
        15 PR_SET_NAME(name: TEXT);
        16 PR_GET_NAME(name: writes(Bytes, Fixed(16)));
        19 PR_GET_ENDIAN(value: U32_OUT);
        20 PR_SET_ENDIAN(value: UINT);
        21 PR_GET_SECCOMP() => execute(Prctl);
        22 PR_SET_SECCOMP(mode: INT, filter: ADDRESS) => execute(Seccomp);
        23 PR_CAPBSET_READ(capability: INT);
        24 PR_CAPBSET_DROP(capability: INT);
        25 PR_GET_TSC(value: U32_OUT) => execute(Prctl);
        26 PR_SET_TSC(value: UINT) => execute(Prctl);
        27 PR_GET_SECUREBITS();
        28 PR_SET_SECUREBITS(bits: HEX);
        29 PR_SET_TIMERSLACK(slack_ns: SIZE);
        30 PR_GET_TIMERSLACK();
        31 PR_TASK_PERF_EVENTS_DISABLE();
        32 PR_TASK_PERF_EVENTS_ENABLE();
        33 PR_MCE_KILL(operation: INT, policy: INT);
        34 PR_MCE_KILL_GET();
        // How long the structure is that describes all of it is told; the rest is EINVAL, as the
        // bounds of break, stack and arguments are the runtime's own.
        35 PR_SET_MM(field: INT, addr: U32_OUT, size: SIZE, arg5: HEX) => execute(Prctl);
        36 PR_SET_CHILD_SUBREAPER(on: INT);
        37 PR_GET_CHILD_SUBREAPER(on: I32_OUT);
        38 PR_SET_NO_NEW_PRIVS(on: INT, arg3: HEX, arg4: HEX, arg5: HEX);
        39 PR_GET_NO_NEW_PRIVS(arg2: HEX, arg3: HEX, arg4: HEX, arg5: HEX) => execute(Prctl);
        40 PR_GET_TID_ADDRESS(address: U64_OUT) => execute(Prctl);
        41 PR_SET_THP_DISABLE(on: INT, arg3: HEX, arg4: HEX, arg5: HEX);
        42 PR_GET_THP_DISABLE(arg2: HEX, arg3: HEX, arg4: HEX, arg5: HEX);
        43 PR_MPX_ENABLE_MANAGEMENT();
        44 PR_MPX_DISABLE_MANAGEMENT();
        45 PR_SET_FP_MODE(mode: UINT);
        46 PR_GET_FP_MODE();
        47 PR_CAP_AMBIENT(operation: INT, capability: INT, arg4: HEX, arg5: HEX);
        50 PR_SVE_SET_VL(length: UINT);
        51 PR_SVE_GET_VL();
        52 PR_GET_SPECULATION_CTRL(feature: INT, arg3: HEX, arg4: HEX, arg5: HEX);
        53 PR_SET_SPECULATION_CTRL(feature: INT, control: HEX, arg4: HEX, arg5: HEX);
        54 PR_PAC_RESET_KEYS(keys: HEX, arg3: HEX, arg4: HEX, arg5: HEX);
        55 PR_SET_TAGGED_ADDR_CTRL(control: HEX, arg3: HEX, arg4: HEX, arg5: HEX);
        56 PR_GET_TAGGED_ADDR_CTRL(arg2: HEX, arg3: HEX, arg4: HEX, arg5: HEX);
        57 PR_SET_IO_FLUSHER(on: INT, arg3: HEX, arg4: HEX, arg5: HEX);
        58 PR_GET_IO_FLUSHER(arg2: HEX, arg3: HEX, arg4: HEX, arg5: HEX);
        59 PR_SET_SYSCALL_USER_DISPATCH(mode: INT, offset: ADDRESS, len: SIZE, selector: ADDRESS)
            => reject("the runtime itself intercepts by it");
        60 PR_PAC_SET_ENABLED_KEYS(affected: HEX, enabled: HEX, arg4: HEX, arg5: HEX);
        61 PR_PAC_GET_ENABLED_KEYS(arg2: HEX, arg3: HEX, arg4: HEX, arg5: HEX);
        62 PR_SCHED_CORE(operation: INT, pid: PID, scope: INT, cookie: updates(Success, U64, Fixed(8)));
        63 PR_SME_SET_VL(length: UINT);
        64 PR_SME_GET_VL();
        65 PR_SET_MDWE(bits: HEX, arg3: HEX, arg4: HEX, arg5: HEX)
            => reject("the runtime makes memory executable that was writable");
        66 PR_GET_MDWE(arg2: HEX, arg3: HEX, arg4: HEX, arg5: HEX);
        67 PR_SET_MEMORY_MERGE(on: INT, arg3: HEX, arg4: HEX, arg5: HEX);
        68 PR_GET_MEMORY_MERGE(arg2: HEX, arg3: HEX, arg4: HEX, arg5: HEX);
        69 PR_RISCV_V_SET_CONTROL(control: HEX);
        70 PR_RISCV_V_GET_CONTROL();
        71 PR_RISCV_SET_ICACHE_FLUSH_CTX(context: HEX, scope: HEX);
        72 PR_PPC_GET_DEXCR(which: HEX, arg3: HEX, arg4: HEX, arg5: HEX);
        73 PR_PPC_SET_DEXCR(which: HEX, control: HEX, arg4: HEX, arg5: HEX);
        0x41555856 PR_GET_AUXV(auxv: updates(Success, Opaque, RetOrArg(2)), len: SIZE, arg4: HEX, arg5: HEX)
            => execute(Prctl);
        0x53564d41 PR_SET_VMA(attribute: INT, addr: ADDRESS, size: SIZE, name: TEXT);
        0x59616d61 PR_SET_PTRACER(pid: LONG);
    },
    fallback: Act::Inject,
};
