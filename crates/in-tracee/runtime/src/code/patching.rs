//! Writing into the program's code.

use linux_abi::general as nr;

use crate::code::non_executable;
use crate::code::sites::map_of;
use crate::ground::{kernel, memory, notices};

/// Writes into code, which may not be written otherwise.
pub fn write_code(address: u64, bytes: &[u8]) -> bool {
    let mut written = false;
    let mut write = || written = memory::copy(address, bytes.as_ptr() as u64, bytes.len() as u64);
    change_code(address, address + bytes.len() as u64, &mut write) && written
}

/// The same where the code may lie in memory that the program can write to, as
/// generated code does: its protection stays.
pub fn put_code(address: u64, bytes: &[u8]) -> bool {
    memory::copy(address, bytes.as_ptr() as u64, bytes.len() as u64) || write_code(address, bytes)
}

/// Lets `change` write into the code from `start` to `end`, which the program cannot write to. False: it was not
/// called.
pub fn change_code(start: u64, end: u64, change: &mut dyn FnMut()) -> bool {
    let (first, end) = (start & !4095, (end + 4095) & !4095);
    if kernel::failed(kernel::mprotect(first, end - first, nr::PROT_READ | nr::PROT_WRITE)) {
        return false;
    }
    change();
    notices::memory_lost(first, end - first);
    kernel::mprotect(first, end - first, protection_at(start));
    non_executable::again(first, end);
    true
}

/// Protection of the code at the address.
fn protection_at(address: u64) -> u32 {
    map_of(address).map_or(nr::PROT_READ | nr::PROT_EXEC, |map| map.protection)
}
