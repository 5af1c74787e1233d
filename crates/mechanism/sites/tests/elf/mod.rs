//! A minimal ELF file around given code.

/// Address of the code; equals its offset in the file.
pub const CODE_AT: u64 = 0x1000;
/// Address of the data, behind the code.
pub const DATA_AT: u64 = 0x2000;

/// What a symbol is.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "not every test file uses every kind")]
pub enum Symbol {
    Function { start: u64, end: u64 },
    Label(u64),
    Object { start: u64, end: u64 },
}

/// A file with `code` at [`CODE_AT`], `data` at [`DATA_AT`] and the symbols. It
/// has no section headers if `symbols` is empty.
pub fn file(code: &[u8], data: &[u8], symbols: &[Symbol]) -> Vec<u8> {
    assert!(code.len() as u64 <= DATA_AT - CODE_AT);
    let mut file = vec![0; DATA_AT as usize];
    file[CODE_AT as usize..CODE_AT as usize + code.len()].copy_from_slice(code);
    file.extend(data);
    file.resize(file.len().next_multiple_of(16), 0);
    let mut sections = (0u64, 0u16);
    if !symbols.is_empty() {
        let table_at = file.len() as u64;
        file.extend(table(symbols));
        let table_bytes = file.len() as u64 - table_at;
        sections = (file.len() as u64, 4);
        let code_bytes = code.len() as u64;
        file.extend([0; 64]);
        file.extend(section(1, 6, CODE_AT, code_bytes, 0, 0));
        file.extend(section(2, 0, table_at, table_bytes, 3, 24));
        file.extend(section(3, 0, 0, 1, 0, 0));
    }
    let header = header(sections);
    file[..header.len()].copy_from_slice(&header);
    let programs = [(5u32, CODE_AT, code.len() as u64), (6, DATA_AT, data.len() as u64)];
    for (index, (flags, at, bytes)) in programs.iter().enumerate() {
        let mut program = Vec::new();
        program.extend(1u32.to_le_bytes());
        program.extend(flags.to_le_bytes());
        for word in [*at, *at, *at, *bytes, *bytes, 0x1000] {
            program.extend(word.to_le_bytes());
        }
        file[64 + index * 56..64 + (index + 1) * 56].copy_from_slice(&program);
    }
    file
}

fn header((sections_at, section_count): (u64, u16)) -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    header.extend(3u16.to_le_bytes());
    header.extend(62u16.to_le_bytes());
    header.extend(1u32.to_le_bytes());
    for word in [CODE_AT, 64, sections_at] {
        header.extend(word.to_le_bytes());
    }
    header.extend(0u32.to_le_bytes());
    for half in [64, 56, 2, 64, section_count, section_count.saturating_sub(1)] {
        header.extend(half.to_le_bytes());
    }
    header
}

fn section(kind: u32, flags: u64, at: u64, bytes: u64, link: u32, entry_bytes: u64) -> Vec<u8> {
    let mut section = Vec::new();
    section.extend(0u32.to_le_bytes());
    section.extend(kind.to_le_bytes());
    for word in [flags, at, at, bytes] {
        section.extend(word.to_le_bytes());
    }
    section.extend(link.to_le_bytes());
    section.extend(0u32.to_le_bytes());
    section.extend(8u64.to_le_bytes());
    section.extend(entry_bytes.to_le_bytes());
    section
}

fn table(symbols: &[Symbol]) -> Vec<u8> {
    let mut table = vec![0; 24];
    for symbol in symbols {
        let (info, start, end) = match *symbol {
            Symbol::Label(at) => (0u8, at, at),
            Symbol::Object { start, end } => (1, start, end),
            Symbol::Function { start, end } => (2, start, end),
        };
        table.extend(0u32.to_le_bytes());
        table.extend([info, 0]);
        table.extend(1u16.to_le_bytes());
        table.extend(start.to_le_bytes());
        table.extend((end - start).to_le_bytes());
    }
    table
}
