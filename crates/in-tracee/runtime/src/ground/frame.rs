//! Signal frames: the kernel's layout, written and read by the runtime on the
//! program's stack (arch/x86/kernel/signal_64.c, Linux 6.12).

use linux_abi::errno;

use crate::ground::float_place::FloatPlace;
use crate::ground::memory;
use crate::ground::owned::Owned;
use crate::ground::registers::Registers;
use crate::ground::vector_state::vector_state;

/// The `ucontext` of a real frame: flags, link, stack, then the registers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RealFrame {
    _flags: u64,
    _link: u64,
    _stack: [u64; 3],
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub flags: u64,
    /// cs, gs, fs, ss.
    selectors: u64,
    error: u64,
    trap: u64,
    _old_mask: u64,
    cr2: u64,
    vector_state: u64,
    _reserved: [u64; 8],
    mask: u64,
}

const _: () = assert!(size_of::<RealFrame>() == 304);

impl RealFrame {
    /// Blocks more signals once the handler has returned.
    pub fn block(&mut self, mask: u64) {
        self.mask |= mask;
    }

    /// What is not in this mask is blocked.
    pub fn let_through_only(&mut self, mask: u64) {
        self.mask = !mask;
    }

    /// Sets what the processor's instructions for time and chance can change.
    pub fn set_registers(&mut self, registers: &Registers) {
        let r = registers;
        (self.r8, self.r9, self.r10, self.r11) = (r.r8, r.r9, r.r10, r.r11);
        (self.r12, self.r13, self.r14, self.r15) = (r.r12, r.r13, r.r14, r.r15);
        (self.rax, self.rbx, self.rcx, self.rdx) = (r.rax, r.rbx, r.rcx, r.rdx);
        (self.rdi, self.rsi, self.rbp, self.rsp) = (r.rdi, r.rsi, r.rbp, r.rsp);
        (self.rip, self.flags) = (r.rip, r.flags);
    }

    /// Where the vector registers are (xsave), and how many bytes.
    pub fn vector_memory(&self) -> (u64, u64) {
        (self.vector_state, u64::from(vector_state().bytes))
    }

    /// Error code, trap number and cr2 of a fault. cr2 is a page fault's; others
    /// leave it as it was.
    pub fn fault_words(&self, before: [u64; 3]) -> [u64; 3] {
        const PAGE_FAULT: u64 = 14;
        [self.error, self.trap, if self.trap == PAGE_FAULT { self.cr2 } else { before[2] }]
    }

    /// The general registers.
    pub fn registers(&self) -> Registers {
        Registers {
            r15: self.r15,
            r14: self.r14,
            r13: self.r13,
            r12: self.r12,
            rbp: self.rbp,
            rbx: self.rbx,
            r11: self.r11,
            r9: self.r9,
            r8: self.r8,
            r10: self.r10,
            rdx: self.rdx,
            rsi: self.rsi,
            rdi: self.rdi,
            rcx: self.rcx,
            rax: self.rax,
            rip: self.rip,
            flags: self.flags,
            rsp: self.rsp,
        }
    }
}

/// The program's alternate signal stack (`stack_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct SignalStack {
    pub address: u64,
    pub flags: u32,
    pub _pad: u32,
    pub bytes: u64,
}

const SS_ONSTACK: u32 = 1;
const SS_DISABLE: u32 = 2;
const SS_AUTODISARM: u32 = 1 << 31;
/// MINSIGSTKSZ of x86-64.
const STACK_BYTES_MIN: u64 = 2048;

impl SignalStack {
    fn contains(&self, address: u64) -> bool {
        address > self.address && address - self.address <= self.bytes
    }

    fn holds(&self, stack_pointer: u64) -> bool {
        self.bytes != 0 && self.flags & SS_AUTODISARM == 0 && self.contains(stack_pointer)
    }

    /// What sigaltstack reports, given the stack pointer.
    pub fn as_seen_from(&self, stack_pointer: u64) -> SignalStack {
        let state = if self.bytes == 0 {
            SS_DISABLE
        } else if self.holds(stack_pointer) {
            SS_ONSTACK
        } else {
            0
        };
        SignalStack { flags: state | (self.flags & SS_AUTODISARM), ..*self }
    }

    /// Takes what sigaltstack reported: address, flags and a gap, bytes.
    pub fn take_over(&mut self, [address, flags, bytes]: [u64; 3]) {
        *self = match flags as u32 & SS_DISABLE {
            0 => SignalStack { address, flags: flags as u32 & SS_AUTODISARM, _pad: 0, bytes },
            _ => SignalStack::default(),
        };
    }

    /// Sets the stack as sigaltstack does.
    pub fn set(&mut self, address: u64, flags: u32, bytes: u64, stack_pointer: u64) -> Result<(), u32> {
        if self.holds(stack_pointer) {
            return Err(errno::EPERM);
        }
        match flags & !SS_AUTODISARM {
            SS_DISABLE => *self = SignalStack::default(),
            0 | SS_ONSTACK if bytes < STACK_BYTES_MIN => return Err(errno::ENOMEM),
            0 | SS_ONSTACK => *self = SignalStack { address, flags: flags & SS_AUTODISARM, _pad: 0, bytes },
            _ => return Err(errno::EINVAL),
        }
        Ok(())
    }
}

pub const VECTOR_BYTES_MAX: usize = 4096;
/// Bytes of the frame below the vector state: return address, ucontext, siginfo.
const FRAME_BYTES: u64 = 8 + 304 + 128;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
const RED_ZONE_BYTES: u64 = 128;
const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;
/// cs 0x33, ss 0x2b.
const SELECTORS: u64 = 0x33 | 0x2b << 48;
const FIX_EFLAGS: u64 = 0x4_0dd5;
const DIRECTION_RESUME_TRAP: u64 = 0x400 | 0x1_0000 | 0x100;

#[repr(C, align(64))]
struct VectorState([u8; VECTOR_BYTES_MAX + 64]);

static VECTORS: Owned<VectorState> = Owned::new(VectorState([0; VECTOR_BYTES_MAX + 64]));

/// Saves the live vector registers into the buffer, in one canonical form: features are marked
/// as in use if they hold anything, so that equal state gives equal bytes.
fn save_vectors() -> u64 {
    let state = vector_state();
    let buffer = VECTORS.get().cast::<u8>();
    // SAFETY: the buffer is ours, 64-aligned and large enough (`vector_saves::measure`).
    unsafe {
        let bytes = state.frame_bytes;
        core::ptr::write_bytes(buffer, 0, bytes as usize + 4);
        save_vectors_at(buffer as u64);
        if state.features != 0 {
            let in_use = buffer.add(512).cast::<u64>();
            if in_use.read() & 1 == 0 {
                // The initial x87 control word, which xsave leaves out.
                buffer.cast::<u16>().write(0x37f);
            }
            in_use.write(state.parts_in_use(buffer));
            let reserved = buffer.add(464).cast::<u32>();
            reserved.write(FP_XSTATE_MAGIC1);
            reserved.add(1).write(bytes + 4);
            reserved.add(2).cast::<u64>().write(state.features);
            reserved.add(4).write(bytes);
            buffer.add(bytes as usize).cast::<u32>().write_unaligned(FP_XSTATE_MAGIC2);
        }
    }
    buffer as u64
}

/// A sum over the live vector registers.
pub fn live_vector_sum() -> u64 {
    sum_buffer(save_vectors())
}

/// The same over the registers that the kernel saved in a frame, but that the floating-point unit was
/// used at this place at last: the program may have run in a copy.
pub fn saved_vector_sum(context: &RealFrame, place: &FloatPlace) -> u64 {
    let state = vector_state();
    let buffer = VECTORS.get() as u64;
    if !memory::copy(buffer, context.vector_state, u64::from(state.bytes)) {
        return 0;
    }
    if state.features != 0 {
        let bytes = buffer as *mut u8;
        // SAFETY: as in `save_vectors`.
        unsafe {
            let in_use = bytes.add(512).cast::<u64>().read();
            if in_use & 1 == 0 {
                core::ptr::write_bytes(bytes, 0, 24);
                core::ptr::write_bytes(bytes.add(32), 0, 128);
                bytes.cast::<u16>().write(0x37f);
            }
            if in_use & 2 == 0 {
                core::ptr::write_bytes(bytes.add(160), 0, 256);
            }
            for feature in 2..8 {
                if state.features & 1 << feature != 0 && in_use & 1 << feature == 0 {
                    let (offset, length) = state.parts[feature];
                    core::ptr::write_bytes(bytes.add(offset as usize), 0, length as usize);
                }
            }
        }
    }
    place.put(buffer);
    sum_buffer(buffer)
}

/// Where the vector registers summed last are, in the order of the legacy save
/// area: the low 16 bytes of each from byte 160 on.
pub fn summed_vectors() -> u64 {
    VECTORS.get() as u64
}

/// Bytes of the legacy save area.
pub const LEGACY_BYTES: u64 = 512;

/// A significand of the floating-point stack, counted from its top, in a legacy save area.
pub const fn significand(number: u64) -> u64 {
    32 + number * 16
}

/// The lower half of a vector register, in a legacy save area.
pub const fn lower_half(number: u64) -> u64 {
    160 + number * 16
}

/// Sums the registers in the buffer, without what only the kernel writes there.
fn sum_buffer(buffer: u64) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let words = vector_state().bytes as usize / 8;
    let mut sum = 0u64;
    for index in (0..words).filter(|index| !(52..72).contains(index)) {
        // SAFETY: inside the buffer.
        let word = unsafe { (buffer as *const u64).add(index).read() };
        sum = (sum.rotate_left(5) ^ word).wrapping_mul(MIX);
    }
    sum
}

/// Loads the vector registers from the buffer.
fn load_vectors() {
    let buffer = VECTORS.get().cast::<u8>();
    sanitize(buffer);
    load_vectors_from(buffer as u64);
}

/// What others wrote into the header must not make us fault.
fn sanitize(buffer: *mut u8) {
    let state = vector_state();
    if state.features != 0 {
        // SAFETY: as in `save_vectors`; the caller filled the buffer.
        unsafe {
            let header = buffer.add(512).cast::<u64>();
            header.write(header.read() & state.features);
            for word in 1..8 {
                header.add(word).write(0);
            }
            let control = buffer.add(24).cast::<u32>();
            control.write(control.read() & 0xffff);
        }
    }
}

/// Saves the live vector registers at an address aligned to 64 bytes, for
/// [`load_vectors_from`].
pub fn save_vectors_at(buffer: u64) {
    let state = vector_state();
    // SAFETY: the caller has room for all vector state there.
    unsafe {
        if state.features == 0 {
            core::arch::asm!("fxsave64 [{}]", in(reg) buffer, options(nostack));
        } else {
            core::arch::asm!("xsave64 [{}]", in(reg) buffer,
                in("eax") state.features as u32, in("edx") 0, options(nostack));
        }
    }
}

/// Keeps what a log holds of vector registers for [`load_vectors_from`].
pub fn keep_vectors(buffer: u64, source: u64, bytes: u64) {
    if bytes < 576 || bytes > VECTOR_BYTES_MAX as u64 {
        return;
    }
    memory::copy(buffer, source, bytes);
    sanitize(buffer as *mut u8);
}

/// Loads the vector registers that a log holds, the whole area of XSAVE; false if they
/// are of another kind of processor.
pub fn load_logged_vectors(source: u64, bytes: u64) -> bool {
    let fits = bytes == u64::from(vector_state().bytes) && memory::copy(VECTORS.get() as u64, source, bytes);
    if fits {
        load_vectors();
    }
    fits
}

/// Loads what [`save_vectors_at`] saved, or what is as good.
pub fn load_vectors_from(buffer: u64) {
    let state = vector_state();
    // SAFETY: saved there by us.
    unsafe {
        if state.features == 0 {
            core::arch::asm!("fxrstor64 [{}]", in(reg) buffer, options(nostack));
        } else {
            core::arch::asm!("xrstor64 [{}]", in(reg) buffer,
                in("eax") state.features as u32, in("edx") 0, options(nostack));
        }
    }
}

/// Puts the vector registers into the state that execve leaves.
pub fn clear_vectors() {
    let buffer = VECTORS.get().cast::<u8>();
    // SAFETY: as in `save_vectors`.
    unsafe {
        core::ptr::write_bytes(buffer, 0, VECTOR_BYTES_MAX);
        buffer.cast::<u16>().write(0x37f);
        buffer.add(24).cast::<u32>().write(0x1f80);
    }
    load_vectors();
}

/// Writes a frame below the program's stack (or on its alternate one) and points
/// the registers at the handler. False if the memory is not there, or the alternate stack
/// is too small, which the kernel never writes beyond.
#[allow(clippy::too_many_arguments)] // the parts of a frame are what they are
pub fn build(
    registers: &mut Registers,
    signal: u32,
    info: &[u64; 16],
    handler: u64,
    restorer: u64,
    on_stack: bool,
    mask: u64,
    fault: [u64; 3],
    stack: &mut SignalStack,
) -> bool {
    let mut top = registers.rsp.wrapping_sub(RED_ZONE_BYTES);
    let seen = stack.as_seen_from(registers.rsp);
    // The kernel looks for the first below the red zone, for the second at its end.
    let enters = on_stack && stack.bytes != 0 && !stack.holds(top);
    let bounded = enters || stack.holds(registers.rsp);
    if enters {
        top = stack.address.wrapping_add(stack.bytes);
    }
    let vector_bytes = u64::from(vector_state().frame_bytes) + 4;
    let vectors = top.wrapping_sub(vector_bytes) & !63;
    let frame = (vectors.wrapping_sub(FRAME_BYTES) & !15).wrapping_sub(8);
    if bounded && !stack.contains(frame) {
        return false;
    }
    let context = context_of(registers, mask, fault, &seen, vectors);
    let saved = save_vectors();
    let context_address = frame + 8;
    let info_address = context_address + 304;
    let written = memory::copy(vectors, saved, vector_bytes)
        && memory::write(info_address, info)
        && memory::write(context_address, &context)
        && memory::write(frame, &restorer);
    if !written {
        return false;
    }
    // By each signal, also one whose handler wants no such stack.
    if stack.flags & SS_AUTODISARM != 0 {
        *stack = SignalStack::default();
    }
    clear_vectors(); // fpu__clear_user_states of the kernel
    registers.rdi = u64::from(signal);
    registers.rsi = info_address;
    registers.rdx = context_address;
    registers.rax = 0;
    registers.rip = handler;
    registers.rsp = frame;
    registers.flags &= !DIRECTION_RESUME_TRAP;
    true
}

/// The context of a frame whose vector registers are saved at `vectors`.
fn context_of(r: &Registers, mask: u64, fault: [u64; 3], seen: &SignalStack, vectors: u64) -> RealFrame {
    RealFrame {
        _flags: UC_SIGCONTEXT_SS
            | UC_STRICT_RESTORE_SS
            | if vector_state().features != 0 { UC_FP_XSTATE } else { 0 },
        _link: 0,
        _stack: [seen.address, u64::from(seen.flags), seen.bytes],
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rdi: r.rdi,
        rsi: r.rsi,
        rbp: r.rbp,
        rbx: r.rbx,
        rdx: r.rdx,
        rax: r.rax,
        rcx: r.rcx,
        rsp: r.rsp,
        rip: r.rip,
        flags: r.flags,
        selectors: SELECTORS,
        error: fault[0],
        trap: fault[1],
        _old_mask: mask,
        cr2: fault[2],
        vector_state: vectors,
        _reserved: [0; 8],
        mask,
    }
}

/// Reads the frame that the program returns from. Gives the mask that holds
/// from now on; `None` if the frame is not readable.
pub fn restore(registers: &mut Registers, stack: &mut SignalStack) -> Option<u64> {
    let frame = registers.rsp.wrapping_sub(8);
    let words = memory::read::<[u64; 32]>(frame.wrapping_add(8))?;
    let mask = memory::read::<u64>(frame.wrapping_add(8 + 296))?;
    let vectors = words[28];
    if vectors == 0 {
        clear_vectors();
    } else {
        let buffer = VECTORS.get() as u64;
        if !memory::copy(buffer, vectors, u64::from(vector_state().bytes)) {
            return None;
        }
        load_vectors();
    }
    *registers = Registers {
        r8: words[5],
        r9: words[6],
        r10: words[7],
        r11: words[8],
        r12: words[9],
        r13: words[10],
        r14: words[11],
        r15: words[12],
        rdi: words[13],
        rsi: words[14],
        rbp: words[15],
        rbx: words[16],
        rdx: words[17],
        rax: words[18],
        rcx: words[19],
        rsp: words[20],
        rip: words[21],
        flags: registers.flags & !FIX_EFLAGS | words[22] & FIX_EFLAGS | 0x202,
    };
    // The alternate stack as it was, errors ignored like the kernel's.
    let _ = stack.set(words[2], words[3] as u32, words[4], registers.rsp);
    Some(mask)
}
