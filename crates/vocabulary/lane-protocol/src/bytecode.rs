//! The bytecode of conditions and of what is printed: gdb's agent expressions (its
//! manual, "The GDB Agent Expression Mechanism"), and a few instructions of our own.
//! Operands in the code are big-endian. Registers have gdb's numbers.

/// Instructions.
pub mod op {
    pub const ADD: u8 = 0x02;
    pub const SUB: u8 = 0x03;
    pub const MUL: u8 = 0x04;
    pub const DIV_SIGNED: u8 = 0x05;
    pub const DIV_UNSIGNED: u8 = 0x06;
    pub const REM_SIGNED: u8 = 0x07;
    pub const REM_UNSIGNED: u8 = 0x08;
    pub const LSH: u8 = 0x09;
    pub const RSH_SIGNED: u8 = 0x0a;
    pub const RSH_UNSIGNED: u8 = 0x0b;
    pub const LOG_NOT: u8 = 0x0e;
    pub const BIT_AND: u8 = 0x0f;
    pub const BIT_OR: u8 = 0x10;
    pub const BIT_XOR: u8 = 0x11;
    pub const BIT_NOT: u8 = 0x12;
    pub const EQUAL: u8 = 0x13;
    pub const LESS_SIGNED: u8 = 0x14;
    pub const LESS_UNSIGNED: u8 = 0x15;
    /// Sign-extends from as many bits as its operand says.
    pub const EXT: u8 = 0x16;
    pub const REF8: u8 = 0x17;
    pub const REF16: u8 = 0x18;
    pub const REF32: u8 = 0x19;
    pub const REF64: u8 = 0x1a;
    pub const IF_GOTO: u8 = 0x20;
    pub const GOTO: u8 = 0x21;
    pub const CONST8: u8 = 0x22;
    pub const CONST16: u8 = 0x23;
    pub const CONST32: u8 = 0x24;
    pub const CONST64: u8 = 0x25;
    pub const REG: u8 = 0x26;
    pub const END: u8 = 0x27;
    pub const DUP: u8 = 0x28;
    pub const POP: u8 = 0x29;
    pub const ZERO_EXT: u8 = 0x2a;
    pub const SWAP: u8 = 0x2b;
    pub const PICK: u8 = 0x32;
    pub const ROT: u8 = 0x33;
    /// Ours: records the bytes (16-bit operand) at the address that is popped.
    pub const RECORD: u8 = 0xe0;
    /// Ours: records the text at the address that is popped, at most as many bytes
    /// (16-bit operand).
    pub const RECORD_TEXT: u8 = 0xe1;
    /// Ours: records the value that is popped.
    pub const RECORD_VALUE: u8 = 0xe2;
    /// Ours: records the beginning of a vector register (8-bit number and bytes).
    pub const RECORD_VECTOR: u8 = 0xe3;
    /// Ours: goes on so many bytes (16 bits) further if the value that is popped is 0.
    pub const SKIP_UNLESS: u8 = 0xe4;
    /// Ours: goes on so many bytes (16 bits) further.
    pub const SKIP: u8 = 0xe5;
    /// Ours: the lower 8 bytes of a vector register (8-bit number).
    pub const VECTOR: u8 = 0xe6;
    /// Ours: calculates with floating-point numbers of 64 bits; how says its operand, one of
    /// [`super::float`].
    pub const FLOAT: u8 = 0xe7;
    /// Ours: records as many bytes as the value says that is popped first, at most as many as the
    /// 16-bit operand, at the address that is popped then.
    pub const RECORD_SOME: u8 = 0xe8;
    /// Ours: records how many elements a collection has, and then these. Operands: the way through
    /// it (one of [`super::way`]), most elements, pieces of an element. For each piece follow its
    /// bytes (16 bits), and with its length (16 bits) a program that runs behind its record.
    /// Pops the number of elements, then what the way needs.
    pub const RECORD_NODES: u8 = 0xe9;
    /// Ours: pushes where the piece of an element lies, in such a program.
    pub const PIECE: u8 = 0xea;
}

/// From one element of a collection to the next, and what is on the stack for it, the top one
/// last.
pub mod way {
    /// A node begins with the address of the next one. The first node; bytes in a node before its
    /// element.
    pub const CHAIN: u8 = 0;
    /// A node of a binary tree: behind 8 bytes its parent, left and right node. The leftmost node;
    /// bytes before the element.
    pub const TREE: u8 = 1;
    /// A table: where its bytes begin, one for each slot, of which the highest bit is set where
    /// there is none. Before them lie the slots, the first one next to them.
    pub const SLOTS: u8 = 2;
    /// As a chain whose last node has the address 0: the number of elements does not count.
    pub const CHAIN_TO_END: u8 = 3;
    /// Blocks of elements: where their addresses lie, elements of a block, and how many of the
    /// first one are passed over.
    pub const BLOCKS: u8 = 4;
    /// Elements that go on at the beginning where their memory ends: its address, elements that
    /// fit, and which is the first.
    pub const RING: u8 = 5;
    /// Nodes of many keys in their order: the root, how many levels lie below it, and offsets in a
    /// node: keys, values, its number of keys (16 bits), addresses of the nodes below.
    pub const WIDE_TREE: u8 = 6;
    /// Groups of eight slots, each with a byte before them, of which the highest bit is set where
    /// there is none: the directory, its length (0: it is the one group), bytes of a group, bytes
    /// before its slots, and in a table of the directory the offsets of the address of the groups
    /// and of their number less one.
    pub const GROUPS: u8 = 7;
    /// One element, at the address.
    pub const ONE: u8 = 8;
}

/// What [`op::FLOAT`] does with the values that it pops. A floating-point number is on the
/// stack as its bits.
pub mod float {
    pub const ADD: u8 = 0;
    pub const SUB: u8 = 1;
    pub const MUL: u8 = 2;
    pub const DIV: u8 = 3;
    pub const EQUAL: u8 = 4;
    pub const LESS: u8 = 5;
    pub const LESS_OR_EQUAL: u8 = 6;
    /// Of a number with a sign.
    pub const FROM_SIGNED: u8 = 7;
    pub const FROM_UNSIGNED: u8 = 8;
    /// Of one of 32 bits.
    pub const FROM_SINGLE: u8 = 9;
    /// Towards zero; what is too large becomes the largest.
    pub const TO_SIGNED: u8 = 10;
    pub const TO_UNSIGNED: u8 = 11;
    /// To one of 32 bits.
    pub const TO_SINGLE: u8 = 12;
}

/// Numbers of registers.
pub mod register {
    pub const RSP: u16 = 7;
    pub const RIP: u16 = 16;
    pub const FLAGS: u16 = 17;
    pub const FS_BASE: u16 = 58;
    pub const GS_BASE: u16 = 59;
    /// In place of a vector register's number: the first one of the x87.
    pub const ST0_AS_VECTOR: u8 = 0x80;
}

/// A recorded hit begins with this.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// Of all of the record, this included: a multiple of 8.
    pub bytes: u32,
    /// Which breakpoint.
    pub breakpoint: u32,
    /// Events consumed before it.
    pub event: u64,
    /// Hits of recording breakpoints since that event, this included; those where calls end
    /// are not counted.
    pub ordinal: u64,
    /// Instructions since the event; [`crate::NONE`]: not known.
    pub steps: u64,
    pub thread: u32,
    pub tid: i32,
}

/// A part of a record begins with a 32-bit word: its kind in the upper 8 bits, its
/// bytes in the rest.
pub mod part {
    pub const BYTES_MASK: u32 = 0xff_ffff;
    pub const KIND_SHIFT: u32 = 24;
    /// Memory, a text or a value.
    pub const DATA: u32 = 0;
    /// Memory at this address (8 bytes) cannot be read.
    pub const UNREADABLE: u32 = 1;
    /// The rest of the program cannot be evaluated: see [`super::failure`] (8 bytes).
    pub const FAILED: u32 = 2;
    /// A program of the breakpoint ends.
    pub const END: u32 = 3;
    /// Why the condition could not be evaluated follows, and nothing else.
    pub const NO_CONDITION: u32 = 4;
}

/// Why a program ended early.
pub mod failure {
    pub const UNREADABLE: u64 = 1;
    pub const DIVISION_BY_ZERO: u64 = 2;
    pub const NO_REGISTER: u64 = 3;
    pub const BAD_PROGRAM: u64 = 4;
}

/// What a breakpoint with programs does: the first byte of its block. Behind it follow
/// its programs, each with its length in 16 bits, and a length of [`PROGRAMS_END`].
pub mod breakpoint_kind {
    /// It stops if one of the programs is not zero, or cannot be evaluated.
    pub const STOPS_IF: u8 = 0;
    /// If the first program is not zero, or empty, the others are evaluated and what
    /// they record is kept. It never stops.
    pub const RECORDS: u8 = 1;
    /// Added to it: with vector registers, for which a trap is needed.
    pub const VECTORS: u8 = 2;
    /// Added to it: calls begin there. What is recorded begins with two values: the address
    /// of the call's frame, and where it returns to.
    pub const CALLS: u8 = 4;
    /// Added to [`CALLS`]: with the same instruction it is left.
    pub const LEAVES_AT_ONCE: u8 = 8;
    /// Added to it: calls are left there. Only what belongs to a call that was recorded is.
    pub const LEAVES: u8 = 16;
    /// Added to it: calls return there. Only what belongs to a call that was recorded is.
    pub const RETURNS: u8 = 32;
}

/// In place of a program's length: there are no more.
pub const PROGRAMS_END: u16 = u16::MAX;
/// In place of a block's start: the breakpoint has no programs.
pub const NO_PROGRAMS: u16 = u16::MAX;
/// Bytes of all programs of a command.
pub const PROGRAM_BYTES_MAX: usize = 20 * 1024;
