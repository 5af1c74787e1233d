//! The code that leads from the engine into copies and back.

use crate::memory::{
    CONTEXT_FLAGS, CONTEXT_HOST_STACK, CONTEXT_TARGET, GATES, GATES_END, RCX, RDX, RSP, TARGET_TABLE,
    TARGETS, VECTORS, Writer, slot,
};

/// Number of the exit through the table of targets.
pub const EXIT_INDIRECT: u32 = u32::MAX;
/// Number of the exit by a fault.
pub const EXIT_FAULT: u32 = u32::MAX - 1;

/// Offsets of the gates.
#[derive(Clone, Copy, Default)]
pub struct Gates {
    /// A function without arguments: runs the copy that the context names as target.
    pub enter: u32,
    /// Ends that function; all registers are the program's.
    pub leave: u32,
    /// The same with the target of an indirect jump in rcx; rcx and rdx are kept.
    pub leave_to_target: u32,
    /// The same from the table of targets.
    pub miss: u32,
    /// A function without arguments: saves the vector state.
    pub save_vectors: u32,
}

/// Writes the gates. With `vectors` the program's vector state is saved wherever the
/// engine runs: for an engine that is compiled to use vector registers itself.
pub fn write(base: u64, vectors: bool) -> Gates {
    let mut code = Writer::new(base, GATES, GATES_END);
    let mut gates = Gates { enter: code.at, ..Gates::default() };
    // push rbx, rbp, r12 to r15
    code.bytes(&[0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57]);
    code.store(RSP, CONTEXT_HOST_STACK);
    if vectors {
        all_features(&mut code);
        // xrstor64 [rip + ...]
        code.bytes(&[0x48, 0x0f, 0xae, 0x2d]);
        code.distance(VECTORS, 0);
    }
    // push [flags]; popfq
    code.push_from(CONTEXT_FLAGS);
    code.bytes(&[0x9d]);
    for register in 0..16 {
        code.load(register, slot(register));
    }
    // jmp [target]
    code.bytes(&[0xff, 0x25]);
    code.distance(CONTEXT_TARGET, 0);

    gates.leave = code.at;
    for register in 0..16 {
        code.keep(register);
    }
    code.load(RSP, CONTEXT_HOST_STACK);
    // pushfq; pop [flags]; cld
    code.bytes(&[0x9c, 0x8f, 0x05]);
    code.distance(CONTEXT_FLAGS, 0);
    code.bytes(&[0xfc]);
    if vectors {
        save_vectors(&mut code);
    }
    // pop r15 to r12, rbp, rbx; ret
    code.bytes(&[0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3]);

    gates.miss = code.at;
    code.note_exit(EXIT_INDIRECT);
    gates.leave_to_target = code.at;
    code.store(RCX, CONTEXT_TARGET);
    code.give_back(RCX);
    code.give_back(RDX);
    code.jump(gates.leave);

    gates.save_vectors = code.at;
    save_vectors(&mut code);
    code.bytes(&[0xc3]);
    assert!(!code.is_full);
    gates
}

/// mov eax, -1; mov edx, -1
fn all_features(code: &mut Writer) {
    code.bytes(&[0xb8, 0xff, 0xff, 0xff, 0xff, 0xba, 0xff, 0xff, 0xff, 0xff]);
}

fn save_vectors(code: &mut Writer) {
    all_features(code);
    // xsave64 [rip + ...]
    code.bytes(&[0x48, 0x0f, 0xae, 0x25]);
    code.distance(VECTORS, 0);
}

/// Makes all indirect jumps miss.
pub fn clear_targets(base: u64, gates: &Gates) {
    let table = (base + u64::from(TARGET_TABLE)) as *mut u64;
    for index in 0..TARGETS {
        // SAFETY: the table's place in the engine's memory.
        unsafe { table.add(index).write(base + u64::from(gates.miss)) };
    }
}
