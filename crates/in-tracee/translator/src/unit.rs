//! Copying a unit: instructions from one address on, along the likeliest way, up to
//! the first count.
//!
//! A count is not needed in each block. What was executed and not counted yet is
//! known wherever a copy is entered: it is a part of the unit's key. A unit counts
//! once at least [`THRESHOLD`] instructions are uncounted, and ends there. So a
//! short loop is copied several times in a row, with one count for all rounds.
//!
//! Counting is a subtraction in memory, in front of an instruction that sets all flags
//! and cannot fault: there nobody can tell that the flags were changed. The rest of
//! the straight line is counted ahead. Where there is no such instruction, `lea` counts.

use crate::Host;
use crate::engine::Engine;
use crate::gates::EXIT_INDIRECT;
use crate::instruction::{Action, Decoded, Reader, Stored, free_register, number_of, stored};
use crate::memory::{
    COMPARISON, CONTEXT_FS_BASE, CONTEXT_STORE_BYTES, CONTEXT_STORE_CODE, CONTEXT_STORE_EXIT, ExitKind, RCX,
    RDX, UNSTABLE, Writer,
};
use crate::relocation::with_base;
use iced_x86::Mnemonic;

/// Instructions that may be uncounted where a unit is entered, and not more.
pub const THRESHOLD: i32 = 32;
/// Instructions of a straight line.
const SEGMENT_MAX: usize = 32;
/// Instructions that may run between two counts, and behind the last before the limit.
pub const SLACK: u64 = (THRESHOLD as u64) + (SEGMENT_MAX as u64) + 8;

/// What a unit is copied for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be run often.
    Keep,
    /// To be run once, at most so many instructions, which are not counted.
    Once { instructions: usize, watch: bool },
}

/// How a straight line ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With an instruction that jumps or leaves.
    Jumps,
    /// The rest belongs to another unit.
    Cut,
    /// The next instruction cannot be read.
    Unreadable,
}

struct Segment {
    instructions: [Decoded; SEGMENT_MAX],
    count: usize,
    end: End,
    /// Where it goes on, if it does.
    next: u64,
}

/// A unit while it is copied.
pub struct Copying<'a> {
    engine: &'a mut Engine,
    host: &'a mut dyn Host,
    purpose: Purpose,
    /// Instructions executed and not counted at the start of the segment.
    executed: i32,
    instructions: usize,
    has_counted: bool,
    is_stable: bool,
    reader: Reader,
    segment: Segment,
}

/// Copies the unit of this address and returns the offset of its code, with
/// [`UNSTABLE`] if its source may change; `None` if the memory is full.
pub fn copy(
    engine: &mut Engine,
    host: &mut dyn Host,
    rip: u64,
    pending: u16,
    purpose: Purpose,
) -> Option<u32> {
    let is_stable = host.is_stable(rip);
    let segment = Segment {
        instructions: core::array::from_fn(|_| Decoded::new()),
        count: 0,
        end: End::Cut,
        next: rip,
    };
    let mut copying = Copying {
        engine,
        host,
        purpose,
        executed: i32::from(pending),
        instructions: 0,
        has_counted: false,
        is_stable,
        reader: Reader::new(),
        segment,
    };
    let start = copying.unit(rip);
    let engine = copying.engine;
    let full = engine.hot.is_full || engine.cold.is_full || engine.is_full;
    (!full).then_some(if is_stable { start } else { start | UNSTABLE })
}

impl Copying<'_> {
    fn unit(&mut self, rip: u64) -> u32 {
        let is_compared = !self.is_stable && self.purpose == Purpose::Keep;
        if is_compared {
            self.engine.hot.bytes(&[0; 4]);
        }
        let start = self.engine.hot.at;
        let mut at = rip;
        let mut is_first = true;
        while self.read_segment(at, is_first) {
            if is_compared {
                self.keep_source(start, at);
            }
            is_first = false;
            match self.copy_segment() {
                Some(next) => at = next,
                None => break,
            }
        }
        start
    }

    /// Keeps a copy of the source of an unstable unit, and where that is in front of
    /// its code.
    fn keep_source(&mut self, start: u32, at: u64) {
        let engine = &mut *self.engine;
        let place = engine.cold.at;
        let count = self.segment.count;
        let behind = if count == 0 { at } else { self.segment.instructions[count - 1].behind() };
        engine.cold.word(at);
        engine.cold.word(behind - at);
        for decoded in &self.segment.instructions[..count] {
            engine.cold.bytes(decoded.bytes());
        }
        let behind_place = start - 4;
        if !engine.cold.is_full && !engine.hot.is_full {
            engine.set_word(behind_place, place);
        }
    }

    /// Reads the straight line from the address on; false if there is none, and a way
    /// out was written.
    fn read_segment(&mut self, start: u64, is_first: bool) -> bool {
        let room = match self.purpose {
            Purpose::Keep => SEGMENT_MAX,
            Purpose::Once { instructions, .. } => instructions.min(SEGMENT_MAX),
        };
        let segment = &mut self.segment;
        segment.count = 0;
        segment.next = start;
        segment.end = End::Cut;
        while segment.count < room {
            let at = segment.next;
            let begins = is_first && segment.count == 0;
            if !begins && self.engine.is_breakpoint(at) {
                break;
            }
            let crosses = at >> 12 != start >> 12 && segment.count > 0;
            if crosses && self.host.is_stable(at) != self.is_stable {
                break;
            }
            let decoded = &mut segment.instructions[segment.count];
            let host = &mut *self.host;
            if self.reader.read(at, &mut |address, into| host.code(address, into), decoded).is_none() {
                segment.end = End::Unreadable;
                break;
            }
            self.engine.note_stores(decoded, self.purpose);
            segment.count += 1;
            segment.next = decoded.behind();
            if decoded.action.ends_segment() {
                segment.end = End::Jumps;
                break;
            }
            if !self.is_stable && self.engine.stores(&segment.instructions[segment.count - 1]) {
                // It may store to what follows.
                break;
            }
        }
        if segment.count == 0 {
            let kind = if segment.end == End::Unreadable { ExitKind::Unreadable } else { ExitKind::Direct };
            self.leave(start, self.executed, kind);
            return false;
        }
        true
    }

    /// Copies the straight line that was read; returns where the unit goes on.
    fn copy_segment(&mut self) -> Option<u64> {
        let count = self.segment.count;
        let last = self.segment.instructions[count - 1].action;
        let jumps = self.segment.end == End::Jumps;
        let leaves = jumps && is_way_out(last);
        let body = if jumps { count - 1 } else { count };
        let is_indirect =
            jumps && matches!(last, Action::IndirectJump | Action::IndirectCall | Action::Return(_));
        let all = self.executed + count as i32;
        let counts = self.purpose == Purpose::Keep && !leaves && (is_indirect || all >= THRESHOLD);
        let free = (0..count).rev().find(|&index| self.segment.instructions[index].sets_all_flags());
        let mut offset = self.executed;
        for index in 0..body {
            if counts && free == Some(index) {
                offset -= all;
                let rip = self.segment.instructions[index].rip();
                self.count_here(all, rip, offset + index as i32);
            }
            let executed = offset + index as i32;
            self.copy_instruction(index, executed);
        }
        if counts && free.is_none() {
            offset -= all;
            let rip = if jumps { self.segment.instructions[body].rip() } else { self.segment.next };
            self.count_without_flags(all, rip, offset + body as i32);
        }
        self.has_counted |= counts;
        self.executed = offset + count as i32;
        self.instructions += count;
        if !jumps {
            let next = self.segment.next;
            return self.go_on(next);
        }
        let decoded = self.segment.instructions[body];
        self.end_segment(&decoded)
    }

    /// Writes the count of so many instructions, in front of an instruction that
    /// sets all flags.
    fn count_here(&mut self, amount: i32, rip: u64, executed: i32) {
        let way_out = self.engine.way_out(rip, executed, ExitKind::Limit, 0);
        self.engine.hot.count_by_subtraction(amount as u8, way_out);
    }

    /// The same where the flags are in use.
    fn count_without_flags(&mut self, amount: i32, rip: u64, executed: i32) {
        let engine = &mut *self.engine;
        let way_out = engine.cold.at;
        engine.cold.give_back(RCX);
        engine.way_out(rip, executed, ExitKind::Limit, 0);
        engine.hot.keep(RCX);
        engine.hot.count_by_address(amount as u8, way_out);
        engine.hot.give_back(RCX);
    }

    fn copy_instruction(&mut self, index: usize, executed: i32) {
        let decoded = self.segment.instructions[index];
        self.check_store(&decoded, executed);
        self.engine.place(decoded.rip(), executed, 0);
        match decoded.action {
            Action::Relative => self.copy_relative(&decoded, executed),
            _ => self.engine.hot.bytes(decoded.bytes()),
        }
    }

    /// Copies an instruction with an operand relative to the instruction pointer, which
    /// is out of reach from here: a register holds the address.
    fn copy_relative(&mut self, decoded: &Decoded, executed: i32) {
        let instruction = &decoded.instruction;
        let engine = &mut *self.engine;
        let address = instruction.ip_rel_memory_address();
        let destination = instruction.op0_register();
        if instruction.mnemonic() == Mnemonic::Lea && (destination.is_gpr64() || destination.is_gpr32()) {
            let value = if destination.is_gpr32() { address & 0xffff_ffff } else { address };
            engine.hot.constant(number_of(destination).unwrap_or(0), value);
            return;
        }
        let overwritten = decoded.free_destination();
        let register = overwritten.or_else(|| free_register(instruction, &mut engine.factory)).unwrap_or(RCX);
        engine.hot.keep(register);
        engine.hot.constant(register, address);
        engine.place(decoded.rip(), executed, 1 << register);
        let (code, bytes) = with_base(decoded, register);
        engine.hot.bytes(&code[..bytes]);
        if overwritten.is_none() {
            engine.hot.give_back(register);
        }
    }

    /// Where what is watched may be stored to, looks it up first.
    fn check_store(&mut self, decoded: &Decoded, executed: i32) {
        if !self.engine.checks_stores(self.purpose) {
            return;
        }
        let engine = &mut *self.engine;
        let found = stored(&decoded.instruction, &mut engine.factory);
        let (Stored::At { bytes, .. } | Stored::Absolute { bytes, .. }) = found else {
            return;
        };
        let comparison = engine.cold.at;
        engine.hot.keep(RCX);
        engine.hot.keep(RDX);
        engine.hot.address_of_store(&found);
        let base = engine.base;
        engine.hot.look_up_watch(base);
        engine.hot.jump_unless_zero(comparison);
        engine.hot.give_back(RDX);
        engine.hot.give_back(RCX);
        // Seldom: the table says that it may be watched.
        let behind = engine.hot.at;
        let number = engine.exit(decoded.rip(), executed, ExitKind::Store, 0);
        engine.cold.give_back(RDX);
        engine.cold.give_back(RCX);
        engine.cold.address_of_store(&found);
        engine.cold.note(CONTEXT_STORE_BYTES, bytes);
        engine.cold.note(CONTEXT_STORE_EXIT, number);
        engine.cold.note_place(CONTEXT_STORE_CODE, behind);
        engine.cold.jump(COMPARISON);
    }

    /// Writes the jump at the end of the straight line.
    fn end_segment(&mut self, decoded: &Decoded) -> Option<u64> {
        let behind = decoded.behind();
        match decoded.action {
            Action::Copy | Action::Relative => None,
            Action::Jump(target) => self.go_on(target),
            Action::Branch { target, condition } => {
                // A jump backwards is the likelier way.
                let (condition, likely, other) = if target <= decoded.rip() {
                    (condition ^ 1, target, behind)
                } else {
                    (condition, behind, target)
                };
                self.branch_away(other, |hot, way_out| hot.branch(condition, way_out));
                self.go_on(likely)
            }
            Action::CountedBranch { target, opcode, short_counter } => {
                self.branch_away(target, |hot, way_out| {
                    if short_counter {
                        hot.bytes(&[0x67]);
                    }
                    // Over the jump that leads over the next one.
                    hot.bytes(&[opcode, 2, 0xeb, 5]);
                    hot.jump(way_out);
                });
                self.go_on(behind)
            }
            Action::Call(target) => {
                let executed = self.executed - 1;
                self.check_store(decoded, executed);
                self.engine.place(decoded.rip(), executed, 0);
                self.engine.push(behind);
                self.go_on(target)
            }
            Action::IndirectJump | Action::IndirectCall | Action::Return(_) => {
                self.jump_indirectly(decoded);
                None
            }
            Action::LeaveForCall => self.leave_before(decoded, ExitKind::Call),
            Action::LeaveForHost => self.leave_before(decoded, ExitKind::Special),
            Action::LeaveForWatch => self.leave_before(decoded, ExitKind::MayStore),
        }
    }

    fn jump_indirectly(&mut self, decoded: &Decoded) {
        let executed = self.executed - 1;
        self.check_store(decoded, executed);
        let base = self.engine.base;
        let engine = &mut *self.engine;
        engine.hot.keep(RCX);
        engine.place(decoded.rip(), executed, 0);
        if let Action::Return(dropped) = decoded.action {
            // pop rcx
            engine.hot.bytes(&[0x59]);
            if dropped > 0 {
                // lea rsp, [rsp + dropped]
                engine.hot.bytes(&[0x48, 0x8d, 0xa4, 0x24]);
                engine.hot.bytes(&u32::from(dropped).to_le_bytes());
            }
        } else {
            engine.load_target(decoded, executed);
        }
        if decoded.action == Action::IndirectCall {
            engine.place(decoded.rip(), executed, 1 << RCX);
            engine.push(decoded.behind());
        }
        let raised = match decoded.action {
            Action::IndirectCall => 0u32.wrapping_sub(8),
            Action::Return(dropped) => 8 + u32::from(dropped),
            _ => 0,
        };
        let number = engine.exit(decoded.rip(), self.executed, ExitKind::Indirect, raised);
        engine.hot.note_jump(number);
        if self.purpose == Purpose::Keep {
            engine.hot.jump_by_table(base);
        } else {
            engine.hot.keep(RDX);
            engine.hot.note_exit(number);
            let gate = engine.gates.leave_to_target;
            engine.hot.jump(gate);
        }
    }

    /// Goes on at the address: in this unit, or by a jump to another one.
    fn go_on(&mut self, target: u64) -> Option<u64> {
        const UNIT_MAX: usize = 96;
        let follows = self.purpose == Purpose::Keep
            && !self.has_counted
            && self.is_stable
            && self.instructions < UNIT_MAX
            && !self.engine.is_breakpoint(target)
            && self.host.is_stable(target);
        if follows {
            return Some(target);
        }
        self.leave(target, self.executed, ExitKind::Direct);
        None
    }

    /// Writes a conditional jump out of the unit; `jump` writes it.
    fn branch_away(&mut self, target: u64, jump: impl FnOnce(&mut Writer, u32)) {
        let engine = &mut *self.engine;
        let way_out = engine.cold.at;
        jump(&mut engine.hot, way_out);
        let patch = engine.hot.at - 4;
        engine.way_out(target, self.executed, ExitKind::Direct, patch);
    }

    fn leave_before(&mut self, decoded: &Decoded, kind: ExitKind) -> Option<u64> {
        self.leave(decoded.rip(), self.executed - 1, kind);
        None
    }

    fn leave(&mut self, rip: u64, executed: i32, kind: ExitKind) {
        let engine = &mut *self.engine;
        let way_out = engine.cold.at;
        engine.hot.jump(way_out);
        let patch = if kind == ExitKind::Direct { engine.hot.at - 4 } else { 0 };
        engine.way_out(rip, executed, kind, patch);
    }
}

fn is_way_out(action: Action) -> bool {
    matches!(action, Action::LeaveForCall | Action::LeaveForHost | Action::LeaveForWatch)
}

impl Writer {
    /// The address that a store goes to, into rcx; rdx is lost.
    fn address_of_store(&mut self, store: &Stored) {
        match *store {
            Stored::At { ref operand, relative_to_fs, .. } => {
                self.address(RCX, operand);
                if relative_to_fs {
                    self.load(RDX, CONTEXT_FS_BASE);
                    self.add_rdx_to_rcx();
                }
            }
            Stored::Absolute { address, .. } => self.constant(RCX, address),
            Stored::Nothing | Stored::Complex => {}
        }
    }
}

impl Engine {
    /// Writes a way out and returns where it is.
    fn way_out(&mut self, rip: u64, executed: i32, kind: ExitKind, patch: u32) -> u32 {
        let place = self.cold.at;
        let number = self.exit(rip, executed, kind, patch);
        self.cold.note_exit(number);
        let gate = self.gates.leave;
        self.cold.jump(gate);
        debug_assert!(number < EXIT_INDIRECT);
        place
    }
}
