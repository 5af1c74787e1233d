//! Queries: what the server can do, and what the program is.

use std::fmt::Write;

use timeline::Mapping;

use crate::birth_stack::BirthStack;
use crate::connection::ServeError;
use crate::names::escaped;
use crate::packet::{hex, pair, unhex};
use crate::registers;
use crate::server::Server;

const AT_NULL: u64 = 0;
pub(crate) const AT_PHDR: u64 = 3;
const AT_EXECFN: u64 = 31;

/// What an auxiliary vector says of this kind (getauxval(3)).
pub(crate) fn auxiliary_value(vector: &[u8], kind: u64) -> Option<u64> {
    let pair = vector.chunks_exact(16).find(|pair| pair[..8] == kind.to_le_bytes())?;
    pair[8..].try_into().ok().map(u64::from_le_bytes)
}

/// The pairs behind argc, arguments and environment, from the first stack pointer of an image.
fn auxiliary_vector_at(first: u64, word: impl Fn(u64) -> Option<u64>) -> Vec<u8> {
    const WORDS_MAX: u64 = 0x4_0000;
    let mut at = first + 8 * (word(first).unwrap_or(0).min(WORDS_MAX) + 2);
    for _ in 0..WORDS_MAX {
        match word(at) {
            None => return Vec::new(),
            Some(0) => break,
            Some(_) => at += 8,
        }
    }
    auxiliary_vector_from(at + 8, word)
}

/// The pairs that begin there.
fn auxiliary_vector_from(mut at: u64, word: impl Fn(u64) -> Option<u64>) -> Vec<u8> {
    let mut found = Vec::new();
    while let (Some(kind), Some(value)) = (word(at), word(at + 8))
        && found.len() < 4096
    {
        found.extend(kind.to_le_bytes());
        found.extend(value.to_le_bytes());
        if kind == AT_NULL {
            break;
        }
        at += 16;
    }
    found
}

/// Where they begin above a place of the first thread's stack, found by those that the kernel writes for each program: its
/// headers' place, their size and how many there are.
fn auxiliary_vector_above(stack: u64, read: impl Fn(u64, &mut [u8]) -> usize) -> Option<u64> {
    const AT_PHENT: u64 = 4;
    const AT_PHNUM: u64 = 5;
    const HEADER_BYTES: u64 = 56;
    /// No kind of the kernel's is larger.
    const KIND_MAX: u64 = 64;
    const BYTES_MAX: usize = 16 << 20;
    let mut words: Vec<u64> = Vec::new();
    let mut chunk = vec![0; 4096];
    let mut at = stack & !7;
    loop {
        // To the end of a page, as memory ends at one.
        let wanted = 4096 - (at % 4096) as usize;
        let count = read(at, &mut chunk[..wanted]);
        let whole = chunk[..count].chunks_exact(8);
        words.extend(whole.map(|word| word.try_into().map_or(0, u64::from_le_bytes)));
        at += count as u64;
        if count < wanted || words.len() * 8 > BYTES_MAX {
            break;
        }
    }
    let is_headers =
        |six: &[u64]| six[0] == AT_PHDR && six[2] == AT_PHENT && six[3] == HEADER_BYTES && six[4] == AT_PHNUM;
    let mut first = words.windows(6).position(is_headers)?;
    while first >= 2 && (1..=KIND_MAX).contains(&words[first - 2]) {
        first -= 2;
    }
    Some((stack & !7) + 8 * first as u64)
}

impl Server<'_> {
    pub(crate) fn query(&mut self, packet: &str) -> Result<Vec<u8>, ServeError> {
        if let Some(rest) = packet.strip_prefix("qXfer:") {
            return Ok(self.transfer(rest));
        }
        if let Some(command) = packet.strip_prefix("qRcmd,") {
            let Some(command) = unhex(command) else { return Ok(b"E01".to_vec()) };
            let text = self.monitor(&String::from_utf8_lossy(&command));
            if !text.is_empty() {
                self.say(&text)?;
            }
            return Ok(b"OK".to_vec());
        }
        let name = packet.split([':', ',', ';']).next().unwrap_or_default();
        Ok(match name {
            "qSupported" => {
                let knows = |feature| packet.split([':', ';']).any(|word| word == feature);
                self.knows_exec = knows("exec-events+");
                self.children.has_process_ids = knows("multiprocess+");
                self.children.knows_forks =
                    knows("multiprocess+") && knows("fork-events+") && knows("vfork-events+");
                let mut features =
                    b"PacketSize=1e000;QStartNoAckMode+;ReverseStep+;ReverseContinue+;vContSupported+;\
                  ConditionalBreakpoints+;swbreak+;hwbreak+;QCatchSyscalls+;\
                  QPassSignals+;exec-events+;fork-events+;vfork-events+;multiprocess+;\
                  qXfer:features:read+;qXfer:auxv:read+;\
                  qXfer:exec-file:read+;qXfer:threads:read+;qXfer:siginfo:read+;\
                  qXfer:osdata:read+"
                        .to_vec();
                // gdb's, and of no other client that it was tried with.
                if knows("no-resumed+") {
                    features.extend(b";qXfer:libraries-svr4:read+");
                }
                features
            }
            "QStartNoAckMode" => {
                self.connection.stop_acknowledging();
                b"OK".to_vec()
            }
            "QCatchSyscalls" => {
                let list = packet.strip_prefix("QCatchSyscalls:").unwrap_or_default();
                if self.inserted.catch_calls(list) { b"OK".to_vec() } else { b"E01".to_vec() }
            }
            // What was started for the debugger ends with it.
            "qAttached" => {
                if self.timeline.debuggee().is_some() {
                    b"0".to_vec()
                } else {
                    b"1".to_vec()
                }
            }
            "qC" => format!("QC{}", self.thread_id(self.timeline.stop().thread)).into_bytes(),
            "qfThreadInfo" => {
                let ids: Vec<String> =
                    self.threads().iter().map(|thread| self.thread_id(thread.index)).collect();
                format!("m{}", ids.join(",")).into_bytes()
            }
            "qsThreadInfo" => b"l".to_vec(),
            "QPassSignals" => {
                let list = packet.strip_prefix("QPassSignals:").unwrap_or_default();
                if self.pass_signals(list) { b"OK".to_vec() } else { b"E01".to_vec() }
            }
            "qSymbol" => self.symbol(packet),
            "qGetTLSAddr" => self.thread_local_address(packet),
            "qHostInfo" => {
                self.is_lldb = true;
                self.host_info()
            }
            "qProcessInfo" => self.process_info(),
            "qMemoryRegionInfo" => self.memory_region(packet),
            _ => Vec::new(),
        })
    }

    /// `object:read:annex:offset,length`.
    fn transfer(&mut self, rest: &str) -> Vec<u8> {
        let parts: Vec<&str> = rest.splitn(4, ':').collect();
        let [object, "read", annex, range] = parts[..] else { return Vec::new() };
        let Some((offset, length)) = pair(range) else { return b"E01".to_vec() };
        let content = match (object, annex) {
            ("features", "target.xml") => {
                registers::description(registers::has_high(&self.timeline)).into_bytes()
            }
            ("auxv", _) => self.auxiliary_vector(),
            ("libraries-svr4", _) => self.library_list().into_bytes(),
            ("exec-file", _) => self.executable().into_bytes(),
            ("siginfo", _) => match self.signal_info() {
                Some(info) => info,
                None => return b"E01".to_vec(),
            },
            ("threads", _) => self.thread_list().into_bytes(),
            ("osdata", kind) => self.machine_list(kind).into_bytes(),
            _ => return b"E00".to_vec(),
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let end = start.saturating_add(length as usize).min(content.len());
        let mut answer = vec![if end == content.len() { b'l' } else { b'm' }];
        answer.extend_from_slice(&content[start..end]);
        answer
    }

    fn thread_list(&mut self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\"?>\n<threads>\n");
        let threads: Vec<u32> = self.threads().iter().map(|thread| thread.index).collect();
        for index in threads {
            let name = escaped(&self.names.of(&self.timeline, index));
            let _ = writeln!(xml, "<thread id=\"{}\" name=\"{name}\"/>", self.thread_id(index));
        }
        xml.push_str("</threads>\n");
        xml
    }

    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.timeline.read(address, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
    }

    /// The text that begins there, up to 4 KiB; empty where there is none.
    pub(crate) fn text(&self, address: u64) -> String {
        const BYTES_MAX: usize = 4096;
        let mut bytes = vec![0; BYTES_MAX];
        let count = self.timeline.read(address, &mut bytes);
        let end = bytes[..count].iter().position(|&byte| byte == 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// What the kernel told the program at its beginning: behind arguments and environment on
    /// its stack, or in the log where the program has written over that.
    pub(crate) fn auxiliary_vector(&self) -> Vec<u8> {
        let first = self.timeline.stop().first_stack;
        // The beginning of a process that ran already is not known.
        if first == 0 {
            let threads =
                self.timeline.stop().threads.iter().take(self.timeline.stop().thread_count as usize);
            let stacks = threads.map(|thread| thread.registers[registers::RSP]);
            let mut places = stacks
                .filter_map(|stack| auxiliary_vector_above(stack, |at, bytes| self.timeline.read(at, bytes)));
            return places.next().map_or(Vec::new(), |at| auxiliary_vector_from(at, |at| self.word(at)));
        }
        let present = auxiliary_vector_at(first, |address| self.word(address));
        let is_whole = auxiliary_value(&present, AT_PHDR).is_some();
        let logged = if is_whole { None } else { BirthStack::at_present(&self.timeline) };
        match logged {
            Some(stack) => auxiliary_vector_at(first, |address| stack.word(address)),
            None => present,
        }
    }

    /// Path of the program's file, as it was recorded.
    pub(crate) fn executable(&self) -> String {
        if let Some(debuggee) = self.timeline.debuggee() {
            let path = std::fs::read_link(format!("/proc/{}/exe", debuggee.pid())).unwrap_or_default();
            return path.to_string_lossy().into_owned();
        }
        // A program that was built into its own image may have changed its directory.
        if let Some(path) = self.mapped_executable() {
            return path;
        }
        self.text(auxiliary_value(&self.auxiliary_vector(), AT_EXECFN).unwrap_or(0))
    }

    /// The kept file that is mapped where the program's headers are.
    fn mapped_executable(&self) -> Option<String> {
        let headers = auxiliary_value(&self.auxiliary_vector(), AT_PHDR)?;
        let maps = self.timeline.mappings().ok()?;
        self.kept_path(maps.iter().find(|mapping| mapping.contains(headers))?)
    }

    /// What was mapped, where a kept file stands for it: that has another name.
    pub(crate) fn kept_path(&self, mapping: &Mapping) -> Option<String> {
        let name = mapping.name.rsplit(|byte| *byte == b'/').next()?;
        let trace = self.timeline.trace()?;
        let kept = trace.files().iter().find(|kept| hex(&kept.file.hash).as_bytes() == name)?;
        Some(String::from_utf8_lossy(&kept.file.path).into_owned())
    }
}
