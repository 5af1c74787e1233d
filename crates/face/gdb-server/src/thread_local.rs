//! Where a thread's instance of a thread-local variable is (`qGetTLSAddr`).
//!
//! As the C library's own thread_db does it: the library's link map says which module it
//! is, and the thread's vector (DTV) where that module's block is. Only the offset of the
//! module's number depends on the version of glibc; a symbol of it tells, whose address
//! the client looks up (`qSymbol`).

use crate::packet::{hex, number, pair, unhex};
use crate::server::{Server, parse_thread};

/// glibc's: bits, count, and offset of `l_tls_modid`, 32 bits each.
const SYMBOL: &str = "_thread_db_link_map_l_tls_modid";
/// Of the main program, where nothing is linked dynamically.
const FIRST_MODULE: u64 = 1;
/// Where a thread's control block (fs:0) has its vector, on x86-64.
const VECTOR_AT: u64 = 8;
const VECTOR_ENTRY_BYTES: u64 = 16;
/// TLS_DTV_UNALLOCATED
const NOT_YET: u64 = u64::MAX;

impl Server<'_> {
    /// `qSymbol::` offers to look symbols up; `qSymbol:VALUE:NAME` is such an answer.
    pub(crate) fn symbol(&mut self, packet: &str) -> Vec<u8> {
        let answer = packet.strip_prefix("qSymbol:").and_then(|rest| rest.split_once(':'));
        match answer {
            Some(("", "")) => format!("qSymbol:{}", hex(SYMBOL.as_bytes())).into_bytes(),
            Some((value, name)) => {
                if unhex(name).is_some_and(|name| name == SYMBOL.as_bytes()) {
                    self.module_number_at = number(value);
                }
                b"OK".to_vec()
            }
            None => b"OK".to_vec(),
        }
    }

    /// `qGetTLSAddr:THREAD,OFFSET,LINK_MAP`
    pub(crate) fn thread_local_address(&self, packet: &str) -> Vec<u8> {
        let asked = packet.strip_prefix("qGetTLSAddr:").and_then(|rest| rest.split_once(','));
        let Some((thread, (offset, link_map))) = asked.and_then(|(id, rest)| Some((id, pair(rest)?))) else {
            return b"E01".to_vec();
        };
        match self.thread_local_block(parse_thread(thread), link_map) {
            Some(block) => format!("{:x}", block.wrapping_add(offset)).into_bytes(),
            None => b"E.the thread has not used any of that library's thread-local variables yet".to_vec(),
        }
    }

    fn thread_local_block(&self, thread: Option<u32>, link_map: u64) -> Option<u64> {
        let fs_base = self.thread(thread)?.fs_base;
        let module = if link_map == 0 {
            FIRST_MODULE
        } else {
            let [bits, _, offset] = self.words_32(self.module_number_at?)?;
            let number = self.word(link_map.wrapping_add(u64::from(offset)))?;
            if bits == 32 { number & 0xffff_ffff } else { number }
        };
        let vector = self.word(fs_base.wrapping_add(VECTOR_AT))?;
        // The entry before the first holds their count.
        let count = self.word(vector.wrapping_sub(VECTOR_ENTRY_BYTES))?;
        if module == 0 || module > count {
            return None;
        }
        let block = self.word(vector.wrapping_add(module * VECTOR_ENTRY_BYTES))?;
        (block != NOT_YET && block != 0).then_some(block)
    }

    fn words_32(&self, address: u64) -> Option<[u32; 3]> {
        let mut bytes = [0; 12];
        let word = |at: usize, bytes: &[u8; 12]| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        (self.timeline.read(address, &mut bytes) == bytes.len())
            .then(|| [word(0, &bytes), word(4, &bytes), word(8, &bytes)])
    }
}
