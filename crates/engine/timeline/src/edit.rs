//! Changes of a live program at its present: of its memory, and of the registers of the
//! thread that runs. They are events of its log, so its past has them too.
//!
//! Deliberately absent: changes of the past.

use crate::error::TimelineError;
use crate::process::Edit;
use crate::timeline::Timeline;

impl Timeline {
    /// True where a change of the program is one of its present: nothing of the past is
    /// shown, but maybe a branch of the present.
    pub fn is_at_present(&self) -> bool {
        self.is_live() || self.live.as_ref().is_some_and(|live| live.branched_at_present)
    }

    /// Writes memory of a live program, at its present.
    ///
    /// # Errors
    /// [`TimelineError::Order`] says why it cannot be written there.
    pub fn edit_memory(&mut self, address: u64, bytes: &[u8]) -> Result<(), TimelineError> {
        let mut at = address;
        for part in bytes.chunks(Edit::BYTES_MAX) {
            self.edit(Edit::Memory(at, part))?;
            at = at.wrapping_add(part.len() as u64);
        }
        Ok(())
    }

    /// Sets the general registers of the thread that runs, in the order of
    /// [`AgentThread`](crate::AgentThread), at the present. `vectors` are bytes for its
    /// vector registers (xsave), each with the offset there.
    ///
    /// # Errors
    /// [`TimelineError::Order`]
    pub fn edit_registers(
        &mut self,
        general: &[u64; 18],
        vectors: &[(u64, Vec<u8>)],
    ) -> Result<(), TimelineError> {
        if !vectors.is_empty() {
            // What they were is part of the place, which is logged with them.
            self.edit(Edit::Mark)?;
            let state = self.here.stop.vectors;
            for (offset, bytes) in vectors {
                self.here.write(state + offset, bytes)?;
            }
        }
        self.edit(Edit::Registers(general))
    }

    fn edit(&mut self, edit: Edit) -> Result<(), TimelineError> {
        self.go_to_present();
        let answer = self.here.edit(edit)?;
        // It stands behind an event now.
        self.legs.clear();
        self.leave_past();
        answer.map(|_| ()).map_err(|errno| TimelineError::Order(explain(errno, edit)))
    }
}

fn explain(errno: i32, edit: Edit) -> String {
    match (errno, edit) {
        (libc::EFAULT, Edit::Memory(address, _)) => {
            format!("at {address:#x} there is no memory of the program that could be written")
        }
        (libc::EINVAL, Edit::Registers(registers)) => {
            format!("the program cannot go on at {:#x}, which is no address of its own", registers[16])
        }
        (libc::EINTR, _) => "the program may be in the middle of a repeated instruction, which cannot be \
                             found again: `stepi` leads behind it"
            .to_owned(),
        (libc::EIO, _) => "the program is not recorded any more".to_owned(),
        (other, _) => std::io::Error::from_raw_os_error(other).to_string(),
    }
}
