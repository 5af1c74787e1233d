//! What the supervisor tells a process that goes back: records, which `live/pushback.rs` of the
//! runtime takes in.

pub(crate) const DATA: u32 = 1;
pub(crate) const ACCEPTED: u32 = 2;
pub(crate) const CHILD: u32 = 3;
pub(crate) const ENDED: u32 = 4;
pub(crate) const MESSAGE: u32 = 5;
pub(crate) const MADE: u32 = 6;
pub(crate) const REPORTED: u32 = 7;
pub(crate) const ASKED: u32 = 8;
/// Set in the numbers of connections.
pub(crate) const OF_ACCEPTED: u32 = 1 << 31;

#[derive(Default)]
pub(crate) struct Records(Vec<u8>);

impl Records {
    pub fn put(&mut self, kind: u32, fd: u32, number: u64, bytes: &[u8]) {
        let records = &mut self.0;
        records.extend(kind.to_le_bytes());
        records.extend(fd.to_le_bytes());
        records.extend(number.to_le_bytes());
        records.extend(bytes);
        records.resize(records.len().next_multiple_of(8), 0);
    }

    pub fn bytes(self) -> Vec<u8> {
        self.0
    }
}
