//! A process that stands still, as conditions see it that are evaluated outside of it.

use lane_protocol::bytecode::register;

use crate::process::Process;

/// What conditions of breakpoints see of a process that stands still.
pub(crate) struct Spectator<'a>(pub &'a Process);

impl bytecode::Host for Spectator<'_> {
    fn register(&mut self, number: u16) -> Option<u64> {
        let thread = &self.0.stop.threads[0];
        match number {
            register::FS_BASE => Some(thread.fs_base),
            register::GS_BASE => Some(0),
            _ => thread.registers.get(usize::from(number)).copied(),
        }
    }

    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        self.0.read(address, into) == into.len()
    }
}
