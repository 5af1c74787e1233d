//! Calls of a log that comes in parts.

use events::{Kind, REFUSED, Tag};

use crate::log_bytes::events_in;
use crate::numbers::{PREADV2, READV};

/// A call of which all blobs are together.
pub(crate) struct Call {
    pub number: u16,
    pub result: i64,
    pub args: [u64; 6],
    pub memory: Vec<(u64, Vec<u8>)>,
    pub child: Option<u32>,
}

impl Call {
    /// What a call that reads has read.
    pub fn input(&self) -> Vec<u8> {
        let buffer = self.args[1]..self.args[1].saturating_add(self.result as u64);
        // Of a list of buffers, all that was written; else not the address of a sender.
        let is_input = |address: &u64| matches!(self.number, READV | PREADV2) || buffer.contains(address);
        let parts = self.memory.iter().filter(|(address, _)| is_input(address));
        parts.flat_map(|(_, bytes)| bytes.clone()).collect()
    }
}

/// Finds the calls in a log that comes in parts.
#[derive(Default)]
pub(crate) struct Calls {
    /// The one that goes on in the next part.
    open: Option<Call>,
}

impl Calls {
    pub fn each(&mut self, log: &[u8], act: &mut dyn FnMut(&Call)) {
        for event in events_in(log) {
            match event.kind {
                // A call that was not made has nothing to be undone.
                Kind::Syscall if event.flags & REFUSED != 0 => self.open = None,
                Kind::Syscall => {
                    let mut args = [0; 6];
                    for (index, arg) in args.iter_mut().enumerate().take(event.arg_count()) {
                        *arg = event.arg(index);
                    }
                    let (number, result) = (event.code, event.result());
                    self.open = Some(Call { number, result, args, memory: Vec::new(), child: None });
                }
                Kind::Data => {}
                _ => self.open = None,
            }
            if let Some(call) = self.open.as_mut() {
                for blob in event.blobs() {
                    match blob.tag {
                        Tag::Memory => call.memory.push((blob.address, blob.data.to_vec())),
                        Tag::Child => {
                            call.child = blob
                                .data
                                .get(..4)
                                .map(|id| u32::from_le_bytes(id.try_into().expect("four bytes")));
                        }
                        _ => {}
                    }
                }
            }
            if !event.has_more()
                && let Some(call) = self.open.take()
            {
                act(&call);
            }
        }
    }
}
