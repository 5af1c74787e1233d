//! Which addresses begin a line of source text.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::debug_file::{DebugFile, DieId, Reader};
use crate::functions;

/// The addresses (in the file) at which a line begins, and the lines of the source that
/// have code.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub addresses: BTreeSet<u64>,
    /// The same of statements whose code begins with another line's.
    pub merged: BTreeSet<u64>,
    pub lines_with_code: BTreeSet<u64>,
    pub is_file_known: bool,
}

/// One row of a line table, of an address that no other has.
#[derive(Clone, Copy)]
struct Row {
    address: u64,
    line: u64,
    is_wanted_file: bool,
    is_statement: bool,
    ends_prologue: bool,
}

/// The paths of the sources that a file's debug information names; none without it.
pub fn source_files(path: &Path) -> Vec<PathBuf> {
    let Some(file) = DebugFile::open(path) else { return Vec::new() };
    let mut found = std::collections::BTreeSet::new();
    for unit in 0..file.units.len() {
        let Some(program) = &file.units[unit].unit.line_program else { continue };
        let header = program.header();
        // The first has the number 0 from DWARF 5 on, and 1 before.
        for index in 0..=header.file_names().len() as u64 {
            found.extend(path_of(&file, unit, header, index));
        }
    }
    found.into_iter().collect()
}

/// Finds a line of a source file, which is named by the end of its path.
pub(crate) fn find(file: &DebugFile, wanted: &Path, line: u64) -> Found {
    let mut found = Found::default();
    for unit in 0..file.units.len() {
        find_in_unit(file, unit, wanted, line, &mut found);
    }
    found
}

fn find_in_unit(file: &DebugFile, unit: usize, wanted: &Path, line: u64, found: &mut Found) {
    let own = &file.units[unit].unit;
    let Some(program) = own.line_program.clone() else { return };
    let files = wanted_files(file, unit, program.header(), wanted);
    if files.is_empty() {
        return;
    }
    found.is_file_known = true;
    let mut rows = program.rows();
    let mut sequence: Vec<Row> = Vec::new();
    while let Ok(Some((_, row))) = rows.next_row() {
        if row.end_sequence() {
            take_sequence(file, unit, &sequence, line, found);
            sequence.clear();
            continue;
        }
        let is_wanted_file = files.contains(&row.file_index());
        let next = Row {
            address: row.address(),
            line: row.line().map_or(0, u64::from),
            is_wanted_file,
            is_statement: row.is_stmt(),
            ends_prologue: row.prologue_end(),
        };
        match sequence.last_mut() {
            // Of rows without code between them the last counts.
            Some(last) if last.address == next.address => {
                let same = last.line == next.line && last.is_wanted_file == next.is_wanted_file;
                if !same && last.is_wanted_file && last.line == line && last.is_statement && last.address != 0
                {
                    found.merged.insert(last.address);
                }
                let is_statement = next.is_statement || same && last.is_statement;
                *last = Row { is_statement, ends_prologue: next.ends_prologue || last.ends_prologue, ..next };
            }
            _ => sequence.push(next),
        }
    }
}

/// The places where a line begins in a sequence: its first instruction after another
/// line's, if a statement begins there.
fn take_sequence(file: &DebugFile, unit: usize, rows: &[Row], line: u64, found: &mut Found) {
    // What the linker dropped lies at 0.
    if rows.first().is_none_or(|row| row.address == 0) {
        return;
    }
    let mut inside = false;
    for (index, row) in rows.iter().enumerate() {
        if !row.is_wanted_file {
            inside = false;
            continue;
        }
        if row.line != 0 && row.is_statement {
            found.lines_with_code.insert(row.line);
        }
        if row.line != line {
            inside = false;
        } else if row.is_statement && !inside {
            inside = true;
            found.addresses.insert(past_prologue(file, unit, rows, index));
        }
    }
}

/// If a function begins at the row: where its variables are in place.
fn past_prologue(file: &DebugFile, unit: usize, rows: &[Row], index: usize) -> u64 {
    let address = rows[index].address;
    let function = functions::starting_at(file, unit, address).map(|index| DieId { unit, index });
    let begins = function.is_some_and(|function| {
        // Go's functions without a frame begin with their first statement.
        let is_opening = !functions::is_go(file, unit)
            || file.number(function, gimli::DW_AT_decl_line) == Some(rows[index].line);
        is_opening && !functions::is_optimised(file, function)
    });
    if !begins {
        return address;
    }
    let marked = rows[index..].iter().find(|row| row.ends_prologue);
    marked.or_else(|| rows.get(index + 1)).map_or(address, |row| row.address)
}

/// Where the variables of a function that begins at the address are in place.
pub(crate) fn behind_prologue(file: &DebugFile, unit: usize, start: u64, end: u64) -> u64 {
    let own = &file.units[unit].unit;
    let Some(program) = own.line_program.clone() else { return start };
    let mut rows = program.rows();
    let mut second = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        if row.end_sequence() || !(start..end).contains(&row.address()) {
            continue;
        }
        if row.prologue_end() {
            return row.address();
        }
        if row.address() > start && second.is_none_or(|second| row.address() < second) {
            second = Some(row.address());
        }
    }
    second.unwrap_or(start)
}

/// Indices of the files of a line table whose path ends as wanted.
fn wanted_files(
    file: &DebugFile,
    unit: usize,
    header: &gimli::LineProgramHeader<Reader>,
    wanted: &Path,
) -> Vec<u64> {
    let first = u64::from(header.version() < 5);
    let count = header.file_names().len() as u64;
    (first..first + count)
        .filter(|&index| path_of(file, unit, header, index).is_some_and(|path| ends_with(&path, wanted)))
        .collect()
}

/// True if the file of this index in a unit's table is meant.
pub(crate) fn is_file(file: &DebugFile, unit: usize, index: u64, wanted: &Path) -> bool {
    let Some(program) = &file.units[unit].unit.line_program else { return false };
    path_of(file, unit, program.header(), index).is_some_and(|path| ends_with(&path, wanted))
}

fn path_of(
    file: &DebugFile,
    unit: usize,
    header: &gimli::LineProgramHeader<Reader>,
    index: u64,
) -> Option<PathBuf> {
    let entry = header.file(index)?;
    let own = &file.units[unit].unit;
    let mut path = PathBuf::new();
    if let Some(folder) = &own.comp_dir {
        use gimli::Reader as _;
        path.push(folder.to_string_lossy().ok()?.as_ref());
    }
    if let Some(folder) = entry.directory(header) {
        path.push(file.text(unit, folder)?);
    }
    path.push(file.text(unit, entry.path_name())?);
    Some(path)
}

/// True if the components of a path end with those of another.
fn ends_with(path: &Path, end: &Path) -> bool {
    clean(path).ends_with(clean(end))
}

/// A path without `.` and `..`.
fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if cleaned.file_name().is_some() => {
                cleaned.pop();
            }
            _ => cleaned.push(component),
        }
    }
    cleaned
}

/// What is said of a line without code: the nearest lines that have some.
pub(crate) fn nearest(lines: &BTreeSet<u64>, line: u64) -> String {
    let before = lines.range(..line).next_back();
    let after = lines.range(line + 1..).next();
    match (before, after) {
        (Some(before), Some(after)) => format!("the nearest lines that have are {before} and {after}"),
        (Some(only), None) | (None, Some(only)) => format!("the nearest line that has is {only}"),
        (None, None) => "no line of it has".to_owned(),
    }
}
