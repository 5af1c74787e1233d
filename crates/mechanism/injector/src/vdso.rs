//! The vDSO of a process that runs already. Its functions are known to the program, so
//! they are made to enter the runtime; the code that was there is not needed any more.

use std::io;
use std::ops::Range;

use lane_protocol::BOARD_CALL;
use object::{Object, ObjectSymbol};

use crate::error::Refusal;
use crate::maps::Mapping;
use crate::remote::ProcessMemory;
use crate::tracee::Held;

/// Functions, and the calls that they stand for.
const FUNCTIONS: [(&str, i64); 6] = [
    ("__vdso_clock_gettime", libc::SYS_clock_gettime),
    ("__vdso_gettimeofday", libc::SYS_gettimeofday),
    ("__vdso_time", libc::SYS_time),
    ("__vdso_clock_getres", libc::SYS_clock_getres),
    ("__vdso_getcpu", libc::SYS_getcpu),
    ("__vdso_getrandom", libc::SYS_getrandom),
];
/// Most instructions that a thread may need to leave the vDSO.
const STEPS_MAX: usize = 100_000;
const JUMP_BYTES: u64 = 5;

/// Executes the thread until it is out of the vDSO.
pub(crate) fn walk_out(
    thread: &Held,
    mut registers: libc::user_regs_struct,
    vdso: &Range<u64>,
) -> Result<libc::user_regs_struct, Refusal> {
    const ALL: u64 = !0;
    thread.set_mask(ALL).map_err(Refusal::Memory)?;
    thread.set_registers(&registers).map_err(Refusal::Memory)?;
    for _ in 0..STEPS_MAX {
        if !vdso.contains(&registers.rip) {
            registers.orig_rax = u64::MAX;
            registers.eflags &= !TRAP_FLAG;
            return Ok(registers);
        }
        registers = thread.step().map_err(Refusal::Memory)?;
    }
    Err(Refusal::Stuck(thread.tid()))
}

const TRAP_FLAG: u64 = 0x100;

/// Makes the functions of the vDSO calls to the runtime.
pub(crate) fn replace(memory: &ProcessMemory, maps: &[Mapping]) -> io::Result<()> {
    let Some(map) = maps.iter().find(|map| map.name == b"[vdso]") else { return Ok(()) };
    let mut image = vec![0; (map.end - map.start) as usize];
    memory.read(map.start, &mut image)?;
    let patches = patches(&image).ok_or_else(|| io::Error::other("its vDSO is unlike any other"))?;
    for (offset, bytes) in patches {
        memory.write(map.start + offset, &bytes)?;
    }
    Ok(())
}

/// What is written where: the bodies lie one after the other in the longest function,
/// which is long enough for them; every function jumps to its own.
fn patches(image: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
    let file = object::File::parse(image).ok()?;
    let found: Vec<(u64, u64, i64)> = file
        .dynamic_symbols()
        .filter_map(|symbol| {
            let name = symbol.name().ok()?;
            let (_, call) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
            Some((symbol.address(), symbol.size(), *call))
        })
        .collect();
    let (room_start, room_bytes, _) = found.iter().copied().max_by_key(|(_, size, _)| *size)?;
    let mut patches = Vec::new();
    let mut at = room_start + JUMP_BYTES;
    for &(start, size, call) in &found {
        let body = body(call);
        if size < JUMP_BYTES || at + body.len() as u64 > room_start + room_bytes {
            return None;
        }
        let mut jump = vec![0xe9];
        jump.extend_from_slice(&(at.wrapping_sub(start + JUMP_BYTES) as u32).to_le_bytes());
        patches.push((start, jump));
        at += body.len() as u64;
        patches.push((at - body.len() as u64, body));
    }
    let end = image.len() as u64;
    patches.iter().all(|(offset, bytes)| offset + bytes.len() as u64 <= end).then_some(patches)
}

/// As a trampoline: the number, the address behind the call's instruction in rcx and r11,
/// the runtime's entry. Without the runtime the instruction itself makes the call.
fn body(call: i64) -> Vec<u8> {
    let mut code = vec![0xb8];
    code.extend_from_slice(&(call as u32).to_le_bytes());
    // lea rcx, [rip + 19]; mov r11, rcx; jmp [rip + 0]
    code.extend_from_slice(&[0x48, 0x8d, 0x0d, 19, 0, 0, 0, 0x49, 0x89, 0xcb, 0xff, 0x25, 0, 0, 0, 0]);
    code.extend_from_slice(&BOARD_CALL.to_le_bytes());
    // syscall; ret
    code.extend_from_slice(&[0x0f, 0x05, 0xc3]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vdso_of_this_machine_can_be_replaced() {
        let maps = crate::maps::read_maps(std::process::id() as i32).expect("of this very process");
        let Some(map) = maps.iter().find(|map| map.name == b"[vdso]") else { return };
        let memory = ProcessMemory::open(std::process::id() as i32).expect("of this very process");
        let mut image = vec![0; (map.end - map.start) as usize];
        memory.read(map.start, &mut image).expect("it is readable");
        let patches = patches(&image).expect("its functions are found");
        assert!(patches.len() >= 8 && patches.len().is_multiple_of(2));
        let mut taken: Vec<(u64, u64)> =
            patches.iter().map(|(offset, bytes)| (*offset, offset + bytes.len() as u64)).collect();
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }

    #[test]
    fn what_is_behind_the_call_is_the_return() {
        let code = body(228);
        let next = 5 + 7;
        assert_eq!(code[next + 19], 0xc3);
        assert_eq!(&code[next + 17..next + 19], &[0x0f, 0x05]);
    }
}
