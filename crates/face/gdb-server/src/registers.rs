//! Registers as gdb wants them, and their description.

use std::ops::Range;

use timeline::{AgentThread, Timeline};

/// A register's bytes; `None`: not known.
type Value = Option<Vec<u8>>;

/// The processor's flags, and those of SSE, by their bits.
const FLAGS: [(&str, u32); 17] = [
    ("CF", 0),
    ("", 1),
    ("PF", 2),
    ("AF", 4),
    ("ZF", 6),
    ("SF", 7),
    ("TF", 8),
    ("IF", 9),
    ("DF", 10),
    ("OF", 11),
    ("NT", 14),
    ("RF", 16),
    ("VM", 17),
    ("AC", 18),
    ("VIF", 19),
    ("VIP", 20),
    ("ID", 21),
];
const SSE_FLAGS: [(&str, u32); 14] = [
    ("IE", 0),
    ("DE", 1),
    ("ZE", 2),
    ("OE", 3),
    ("UE", 4),
    ("PE", 5),
    ("DAZ", 6),
    ("IM", 7),
    ("DM", 8),
    ("ZM", 9),
    ("OM", 10),
    ("UM", 11),
    ("PM", 12),
    ("FZ", 15),
];

fn flags(id: &str, fields: &[(&str, u32)]) -> String {
    let field = |(name, bit): &(&str, u32)| format!("<field name=\"{name}\" start=\"{bit}\" end=\"{bit}\"/>");
    let fields: String = fields.iter().map(field).collect();
    format!("<flags id=\"{id}\" size=\"4\">{fields}</flags>")
}

/// The description of the registers, in the order of [`values`]. `has_high`: those of AVX-512 too.
pub fn description(has_high: bool) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>\
         <architecture>i386:x86-64</architecture><osabi>GNU/Linux</osabi>\
         <feature name=\"org.gnu.gdb.i386.core\">",
    );
    xml.push_str(&flags("i386_eflags", &FLAGS));
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
    put("eflags", 32, "i386_eflags");
    for name in ["cs", "ss", "ds", "es", "fs", "gs"] {
        put(name, 32, "int32");
    }
    for number in 0..8 {
        put(&format!("st{number}"), 80, "i387_ext");
    }
    for name in ["fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop"] {
        put(name, 32, "int");
    }
    xml.push_str("</feature><feature name=\"org.gnu.gdb.i386.sse\">");
    xml.push_str(&flags("i386_mxcsr", &SSE_FLAGS));
    xml.push_str(VECTOR_TYPES);
    for number in 0..16 {
        xml.push_str(&format!("<reg name=\"xmm{number}\" bitsize=\"128\" type=\"vec128\"/>"));
    }
    xml.push_str(
        "<reg name=\"mxcsr\" bitsize=\"32\" type=\"i386_mxcsr\"/></feature>\
         <feature name=\"org.gnu.gdb.i386.linux\"><reg name=\"orig_rax\" bitsize=\"64\" type=\"int\"/></feature>\
         <feature name=\"org.gnu.gdb.i386.segments\"><reg name=\"fs_base\" bitsize=\"64\" type=\"int\"/>\
         <reg name=\"gs_base\" bitsize=\"64\" type=\"int\"/></feature>\
         <feature name=\"org.gnu.gdb.i386.avx\">",
    );
    for number in 0..16 {
        xml.push_str(&format!("<reg name=\"ymm{number}h\" bitsize=\"128\" type=\"uint128\"/>"));
    }
    xml.push_str("</feature>");
    if has_high {
        xml.push_str(&high_description());
    }
    xml.push_str("</target>");
    xml
}

const VECTOR_TYPES: &str = "\
     <vector id=\"v4f\" type=\"ieee_single\" count=\"4\"/><vector id=\"v2d\" type=\"ieee_double\" count=\"2\"/>\
     <vector id=\"v16i8\" type=\"int8\" count=\"16\"/><vector id=\"v8i16\" type=\"int16\" count=\"8\"/>\
     <vector id=\"v4i32\" type=\"int32\" count=\"4\"/><vector id=\"v2i64\" type=\"int64\" count=\"2\"/>\
     <union id=\"vec128\"><field name=\"v4_float\" type=\"v4f\"/><field name=\"v2_double\" type=\"v2d\"/>\
     <field name=\"v16_int8\" type=\"v16i8\"/><field name=\"v8_int16\" type=\"v8i16\"/>\
     <field name=\"v4_int32\" type=\"v4i32\"/><field name=\"v2_int64\" type=\"v2i64\"/>\
     <field name=\"uint128\" type=\"uint128\"/></union>";

/// The registers of AVX-512, as [`HIGH`] has them.
fn high_description() -> String {
    // A feature knows its own types alone.
    let mut xml = format!(
        "<feature name=\"org.gnu.gdb.i386.avx512\">{VECTOR_TYPES}<vector id=\"v2ui128\" type=\"uint128\" count=\"2\"/>",
    );
    for High { start, count, suffix, first, bytes, kind, .. } in HIGH {
        for number in 0..count {
            let (name, bits) = (first + number, 8 * bytes);
            xml.push_str(&format!(
                "<reg name=\"{start}{name}{suffix}\" bitsize=\"{bits}\" type=\"{kind}\"/>"
            ));
        }
    }
    xml.push_str("</feature>");
    xml
}

/// Registers of AVX-512 that are alike.
struct High {
    start: &'static str,
    suffix: &'static str,
    first: usize,
    count: usize,
    bytes: usize,
    kind: &'static str,
    /// In which part of the vector state, where in it the first of them begins, and how far apart
    /// they are.
    feature: u8,
    offset: usize,
    apart: usize,
}

const OPMASK: u8 = 5;
const UPPER_HALVES: u8 = 6;
const UPPER_REGISTERS: u8 = 7;

/// All of them, in the order of the description.
const HIGH: [High; 5] = {
    let base = High {
        start: "zmm",
        suffix: "h",
        first: 0,
        count: 16,
        bytes: 32,
        kind: "v2ui128",
        feature: UPPER_HALVES,
        offset: 0,
        apart: 32,
    };
    let upper = High { first: 16, feature: UPPER_REGISTERS, apart: 64, ..base };
    [
        High { start: "xmm", suffix: "", bytes: 16, kind: "vec128", ..upper },
        High { start: "ymm", bytes: 16, kind: "uint128", offset: 16, ..upper },
        High {
            start: "k",
            suffix: "",
            count: 8,
            bytes: 8,
            kind: "uint64",
            feature: OPMASK,
            apart: 8,
            ..base
        },
        base,
        High { offset: 32, ..upper },
    ]
};

/// Where and how long the register of AVX-512 of this number is: part, place in it, bytes.
fn high_register(mut number: usize) -> Option<(u8, usize, usize)> {
    for high in &HIGH {
        if number < high.count {
            return Some((high.feature, high.offset + number * high.apart, high.bytes));
        }
        number -= high.count;
    }
    None
}

/// True if the machine has the registers of AVX-512.
pub fn has_high(timeline: &Timeline) -> bool {
    [OPMASK, UPPER_HALVES, UPPER_REGISTERS]
        .iter()
        .all(|feature| timeline.stop().vector_parts[usize::from(*feature)] != 0)
}

/// Where the parts of the vector state lie: the start of one, and its bytes.
fn part(timeline: &Timeline, feature: u8) -> Range<u64> {
    let bytes = match feature {
        0 => return 32..160,
        1 => return 160..416,
        2 => 256,
        OPMASK => 64,
        UPPER_HALVES => 512,
        _ => 1024,
    };
    let start = u64::from(timeline.stop().vector_parts[usize::from(feature)]);
    start..start + bytes
}

/// All registers of a thread, in the order of the description.
pub fn values(timeline: &Timeline, thread: &AgentThread, is_running: bool) -> Vec<Value> {
    const FLAGS_AT: usize = 17;
    let stop = timeline.stop();
    let mut found: Vec<Value> =
        thread.registers[..FLAGS_AT].iter().map(|word| Some(word.to_le_bytes().to_vec())).collect();
    found.push(Some((thread.registers[FLAGS_AT] as u32).to_le_bytes().to_vec()));
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
    let in_part = |feature: u8, offset: usize, bytes: usize| {
        let start = part(timeline, feature).start as usize;
        let value = vectors?.get(start + offset..start + offset + bytes).filter(|_| start != 0)?;
        Some(if in_use(vectors?, feature) { value.to_vec() } else { vec![0; bytes] })
    };
    found.extend((0..16).map(|number| in_part(2, number * 16, 16)));
    if has_high(timeline) {
        found.extend((0..).map_while(high_register).map(|(feature, at, bytes)| in_part(feature, at, bytes)));
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
pub const RSP: usize = 7;

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
pub fn place_of(timeline: &Timeline, index: usize) -> Place {
    const X87: std::ops::Range<usize> = 24..32;
    const XMM: std::ops::Range<usize> = 40..56;
    const MXCSR: usize = 56;
    const UPPER: std::ops::Range<usize> = 60..76;
    let vector = |start: usize, number: usize, feature: u8| Place::Vector {
        offset: (start + 16 * number) as u64,
        feature,
    };
    let upper = u64::from(timeline.stop().vector_parts[2]) as usize;
    match index {
        0..=17 => Place::General(index),
        _ if X87.contains(&index) => vector(32, index - X87.start, 0),
        _ if XMM.contains(&index) => vector(160, index - XMM.start, 1),
        MXCSR => vector(24, 0, 1),
        _ if UPPER.contains(&index) => vector(upper, index - UPPER.start, 2),
        _ if index >= UPPER.end && has_high(timeline) => match high_register(index - UPPER.end) {
            Some((feature, at, _)) => {
                Place::Vector { offset: part(timeline, feature).start + at as u64, feature }
            }
            None => Place::Fixed,
        },
        _ => Place::Fixed,
    }
}

/// What to write into the running thread's vector state (xsave) for the vector registers
/// among these: bytes, each with the offset there.
pub fn vector_bytes(timeline: &Timeline, values: &[(usize, &[u8])]) -> Vec<(u64, Vec<u8>)> {
    const IN_USE: u64 = 512;
    let (state, bytes) = (timeline.stop().vectors, timeline.stop().vector_bytes);
    let mut in_use = [0];
    timeline.read(state + IN_USE, &mut in_use);
    let mut written = Vec::new();
    for (index, value) in values {
        let Place::Vector { offset, feature } = place_of(timeline, *index) else { continue };
        let part = part(timeline, feature);
        if state == 0 || part.start == 0 || part.end > bytes {
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
pub fn encode(values: &[Value], has_high: bool) -> String {
    let lengths = lengths(has_high);
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
pub fn lengths(has_high: bool) -> Vec<usize> {
    let mut found = vec![8; 17];
    found.extend([4; 7]);
    found.extend([10; 8]);
    found.extend([4; 8]);
    found.extend([16; 16]);
    found.push(4);
    found.extend([8; 3]);
    found.extend([16; 16]);
    if has_high {
        found.extend((0..).map_while(high_register).map(|(.., bytes)| bytes));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_described_register_has_a_length() {
        for has_high in [false, true] {
            let description = description(has_high);
            let described: Vec<usize> = description
                .split("bitsize=\"")
                .skip(1)
                .map(|rest| {
                    rest.split('"').next().and_then(|bits| bits.parse::<usize>().ok()).expect("bits") / 8
                })
                .collect();
            assert_eq!(described, lengths(has_high));
        }
    }
}
