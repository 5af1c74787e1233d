//! Registers as gdb wants them, and their description.

use timeline::{AgentThread, Timeline};

/// A register's bytes; `None`: not known.
type Value = Option<Vec<u8>>;

/// The description of the registers, in the order of [`values`].
pub fn description() -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>\
         <architecture>i386:x86-64</architecture><osabi>GNU/Linux</osabi>\
         <feature name=\"org.gnu.gdb.i386.core\">",
    );
    let mut put = |name: &str, bits: u32, kind: &str| {
        xml.push_str(&format!("<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"/>"));
    };
    for name in ["rax", "rbx", "rcx", "rdx", "rsi", "rdi"] {
        put(name, 64, "int64");
    }
    put("rbp", 64, "data_ptr");
    put("rsp", 64, "data_ptr");
    for number in 8..16 {
        put(&format!("r{number}"), 64, "int64");
    }
    put("rip", 64, "code_ptr");
    put("eflags", 32, "int32");
    for name in ["cs", "ss", "ds", "es", "fs", "gs"] {
        put(name, 32, "int32");
    }
    for number in 0..8 {
        put(&format!("st{number}"), 80, "i387_ext");
    }
    for name in ["fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop"] {
        put(name, 32, "int");
    }
    xml.push_str(
        "</feature><feature name=\"org.gnu.gdb.i386.sse\">\
         <vector id=\"v4f\" type=\"ieee_single\" count=\"4\"/><vector id=\"v2d\" type=\"ieee_double\" count=\"2\"/>\
         <vector id=\"v16i8\" type=\"int8\" count=\"16\"/><vector id=\"v8i16\" type=\"int16\" count=\"8\"/>\
         <vector id=\"v4i32\" type=\"int32\" count=\"4\"/><vector id=\"v2i64\" type=\"int64\" count=\"2\"/>\
         <union id=\"vec128\"><field name=\"v4_float\" type=\"v4f\"/><field name=\"v2_double\" type=\"v2d\"/>\
         <field name=\"v16_int8\" type=\"v16i8\"/><field name=\"v8_int16\" type=\"v8i16\"/>\
         <field name=\"v4_int32\" type=\"v4i32\"/><field name=\"v2_int64\" type=\"v2i64\"/>\
         <field name=\"uint128\" type=\"uint128\"/></union>",
    );
    for number in 0..16 {
        xml.push_str(&format!("<reg name=\"xmm{number}\" bitsize=\"128\" type=\"vec128\"/>"));
    }
    xml.push_str(
        "<reg name=\"mxcsr\" bitsize=\"32\" type=\"int\"/></feature>\
         <feature name=\"org.gnu.gdb.i386.linux\"><reg name=\"orig_rax\" bitsize=\"64\" type=\"int\"/></feature>\
         <feature name=\"org.gnu.gdb.i386.segments\"><reg name=\"fs_base\" bitsize=\"64\" type=\"int\"/>\
         <reg name=\"gs_base\" bitsize=\"64\" type=\"int\"/></feature>\
         <feature name=\"org.gnu.gdb.i386.avx\">",
    );
    for number in 0..16 {
        xml.push_str(&format!("<reg name=\"ymm{number}h\" bitsize=\"128\" type=\"uint128\"/>"));
    }
    xml.push_str("</feature></target>");
    xml
}

/// All registers of a thread, in the order of the description.
pub fn values(timeline: &Timeline, thread: &AgentThread, is_running: bool) -> Vec<Value> {
    const FLAGS: usize = 17;
    let stop = timeline.stop();
    let mut found: Vec<Value> =
        thread.registers[..FLAGS].iter().map(|word| Some(word.to_le_bytes().to_vec())).collect();
    found.push(Some((thread.registers[FLAGS] as u32).to_le_bytes().to_vec()));
    for selector in [0x33u32, 0x2b, 0, 0, 0, 0] {
        found.push(Some(selector.to_le_bytes().to_vec()));
    }
    let mut state = vec![0; (stop.vector_bytes as usize).min(8192)];
    let known = is_running && stop.vectors != 0 && timeline.read(stop.vectors, &mut state) == state.len();
    let vectors = (known && state.len() >= 512).then_some(&state[..]);
    put_legacy(&mut found, vectors);
    found.push(Some(u64::MAX.to_le_bytes().to_vec()));
    found.push(Some(thread.fs_base.to_le_bytes().to_vec()));
    found.push(Some(0u64.to_le_bytes().to_vec()));
    const UPPER: usize = 576;
    let upper = vectors.filter(|state| state.len() >= UPPER + 256);
    for number in 0..16 {
        found.push(upper.map(|state| {
            let at = UPPER + number * 16;
            if in_use(state, 2) { state[at..at + 16].to_vec() } else { vec![0; 16] }
        }));
    }
    found
}

/// Whether a part of the state is in use, which is else as it is at the beginning.
fn in_use(state: &[u8], feature: u8) -> bool {
    state.get(512).is_none_or(|bits| bits & 1 << feature != 0)
}

/// x87 and SSE, from the legacy area.
fn put_legacy(found: &mut Vec<Value>, state: Option<&[u8]>) {
    let floats = state.map(|state| in_use(state, 0));
    for number in 0..8 {
        let at = 32 + number * 16;
        found.push(
            state.map(|state| if in_use(state, 0) { state[at..at + 10].to_vec() } else { vec![0; 10] }),
        );
    }
    let word = |at: usize| {
        state.map(|state| {
            if floats == Some(true) { u32::from(u16::from_le_bytes([state[at], state[at + 1]])) } else { 0 }
        })
    };
    let control = word(0).map(|word| if floats == Some(true) { word } else { 0x37f });
    let tags = state.map(|state| {
        let valid = if floats == Some(true) { state[4] } else { 0 };
        (0..8)
            .fold(0u32, |tags, number| if valid & 1 << number != 0 { tags } else { tags | 3 << (2 * number) })
    });
    let zero = state.map(|_| 0u32);
    for value in [control, word(2), tags, zero, word(8), zero, word(16), word(6)] {
        found.push(value.map(|value| value.to_le_bytes().to_vec()));
    }
    for number in 0..16 {
        let at = 160 + number * 16;
        found.push(
            state.map(|state| if in_use(state, 1) { state[at..at + 16].to_vec() } else { vec![0; 16] }),
        );
    }
    found.push(state.map(|state| state[24..28].to_vec()));
}

/// Index of the instruction pointer.
pub const RIP: usize = 16;

/// Where a register is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Among the general registers.
    General(usize),
    /// So many bytes into the vector state, in the part of this number.
    Vector { offset: u64, feature: u8 },
    /// What is written to it has no effect.
    Fixed,
}

/// Where the register of this index is kept.
pub fn place_of(index: usize) -> Place {
    const X87: std::ops::Range<usize> = 24..32;
    const XMM: std::ops::Range<usize> = 40..56;
    const MXCSR: usize = 56;
    const UPPER: std::ops::Range<usize> = 60..76;
    let vector = |start: usize, number: usize, feature: u8| Place::Vector {
        offset: (start + 16 * number) as u64,
        feature,
    };
    match index {
        0..=17 => Place::General(index),
        _ if X87.contains(&index) => vector(32, index - X87.start, 0),
        _ if XMM.contains(&index) => vector(160, index - XMM.start, 1),
        MXCSR => vector(24, 0, 1),
        _ if UPPER.contains(&index) => vector(576, index - UPPER.start, 2),
        _ => Place::Fixed,
    }
}

/// What to write into the running thread's vector state (xsave) for the vector registers
/// among these: bytes, each with the offset there.
pub fn vector_bytes(timeline: &Timeline, values: &[(usize, &[u8])]) -> Vec<(u64, Vec<u8>)> {
    const IN_USE: u64 = 512;
    /// Where each part lies.
    const PARTS: [std::ops::Range<u64>; 3] = [32..160, 160..416, 576..832];
    let (state, bytes) = (timeline.stop().vectors, timeline.stop().vector_bytes);
    let mut in_use = [0];
    timeline.read(state + IN_USE, &mut in_use);
    let mut written = Vec::new();
    for (index, value) in values {
        let Place::Vector { offset, feature } = place_of(*index) else { continue };
        let part = PARTS[usize::from(feature)].clone();
        if state == 0 || part.end > bytes {
            continue;
        }
        if in_use[0] & 1 << feature == 0 {
            // What is not in use holds what was there before.
            in_use[0] |= 1 << feature;
            written.push((part.start, vec![0; (part.end - part.start) as usize]));
            written.push((IN_USE, in_use.to_vec()));
        }
        written.push((offset, value.to_vec()));
    }
    written
}

/// Registers as a packet has them.
pub fn encode(values: &[Value]) -> String {
    let lengths = lengths();
    let mut text = String::new();
    for (value, bytes) in values.iter().zip(lengths) {
        match value {
            Some(value) => text.push_str(&crate::packet::hex(value)),
            None => text.push_str(&"xx".repeat(bytes)),
        }
    }
    text
}

/// Lengths of all registers in bytes.
pub fn lengths() -> Vec<usize> {
    let mut found = vec![8; 17];
    found.extend([4; 7]);
    found.extend([10; 8]);
    found.extend([4; 8]);
    found.extend([16; 16]);
    found.push(4);
    found.extend([8; 3]);
    found.extend([16; 16]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_described_register_has_a_length() {
        let description = description();
        let described: Vec<usize> = description
            .split("bitsize=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().and_then(|bits| bits.parse::<usize>().ok()).expect("bits") / 8)
            .collect();
        assert_eq!(described, lengths());
    }
}
