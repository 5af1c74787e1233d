//! Finding the program and refusing, before anything runs, what cannot be recorded.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use lane_protocol::{REGION_BYTES, REGION_START};

/// A program that may be recorded.
#[derive(Debug)]
pub struct Program {
    /// What execve gets.
    pub(crate) path: CString,
    pub(crate) arguments: Vec<CString>,
    /// The file that `path` names.
    pub file: PathBuf,
}

/// Why a program is not run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("{0}: not found; check the spelling, and PATH")]
    NotFound(String),
    #[error("{0}: permission denied; make it executable with `chmod +x`")]
    NotExecutable(String),
    #[error("{0}: is a directory")]
    IsDirectory(String),
    #[error("{0}: not a regular file")]
    NotRegular(String),
    #[error("{path}: cannot be read ({source}); retrovane reads the program that it records")]
    Unreadable { path: String, source: io::Error },
    #[error("{0}: not a program: neither ELF nor a script")]
    NotAProgram(String),
    #[error("{0}: a 32-bit program; retrovane records 64-bit programs only: use a 64-bit build of it")]
    ThirtyTwoBit(String),
    #[error("{path}: built for another machine (ELF machine {machine}); retrovane records x86-64 programs")]
    Foreign { path: String, machine: u16 },
    #[error(
        "{0}: set-user-ID or set-group-ID; the kernel would give it other rights than retrovane has. Record a copy without the bit (cp, then chmod u-s,g-s), as the user whose rights it needs"
    )]
    SetId(String),
    #[error(
        "{0}: has file capabilities; the kernel would give it other rights than retrovane has. Record a copy (cp drops them), as a user who has the rights that it needs"
    )]
    Capabilities(String),
    #[error(
        "{0}: it attaches to programs by ptrace, which recorded programs are refused. Record the traced program itself (retrovane record -- PROGRAM); retrovane dump then shows its calls"
    )]
    Tracer(String),
    #[error(
        "{0}: linked at addresses from 0x6a0000000000 to 0x6affffffffff, where retrovane's own code is in every recorded program; link it elsewhere (-Wl,-Ttext-segment=ADDRESS, or as a position-independent program)"
    )]
    Occupied(String),
    #[error("{script}: its interpreter {interpreter} {what}")]
    Interpreter { script: String, interpreter: String, what: String },
    #[error("{0}: more than five interpreters call each other")]
    TooManyInterpreters(String),
    #[error("{0:?}: an argument holds a NUL byte")]
    NulByte(String),
}

/// Most scripts that may interpret each other, as in the kernel (BINPRM_MAX_RECURSION).
const INTERPRETERS_MAX: usize = 5;
/// Bytes of a `#!` line that the kernel reads (BINPRM_BUF_SIZE).
const HEAD_BYTES: usize = 256;

/// Programs that trace others by attaching to them.
const TRACERS: [&str; 1] = ["rr"];

/// Finds `program` as a shell does and checks that it can be recorded.
///
/// # Errors
/// Says what is wrong with it and what to do.
pub fn resolve(program: &OsStr, arguments: &[OsString]) -> Result<Program, ProgramError> {
    let file = search(program)?;
    let has_header = check(&file)?;
    if TRACERS.iter().any(|&name| file.file_name().is_some_and(|own| own == name)) {
        return Err(ProgramError::Tracer(file.display().to_string()));
    }
    let mut argv = vec![c_string(program)?];
    let mut path = c_string(file.as_os_str())?;
    if !has_header {
        // As execvp and shells do with a script that names no interpreter.
        let shell = Path::new("/bin/sh");
        check(shell)?;
        argv.push(path);
        path = c_string(shell.as_os_str())?;
    }
    for argument in arguments {
        argv.push(c_string(argument)?);
    }
    Ok(Program { path, arguments: argv, file })
}

fn c_string(text: &OsStr) -> Result<CString, ProgramError> {
    CString::new(text.as_bytes()).map_err(|_| ProgramError::NulByte(text.to_string_lossy().into_owned()))
}

fn search(program: &OsStr) -> Result<PathBuf, ProgramError> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let mut refused = None;
    for folder in path.as_bytes().split(|byte| *byte == b':') {
        if program.is_empty() {
            break;
        }
        let folder = if folder.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(folder)) };
        let candidate = folder.join(program);
        match std::fs::metadata(&candidate) {
            Ok(found) if found.is_file() && may_execute(&candidate) => return Ok(candidate),
            Ok(found) if found.is_file() => refused = Some(candidate),
            _ => {}
        }
    }
    match refused {
        Some(candidate) => Err(ProgramError::NotExecutable(candidate.display().to_string())),
        None => Err(ProgramError::NotFound(program.to_string_lossy().into_owned())),
    }
}

fn may_execute(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a C string; faccessat reads it only.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0 }
}

/// Checks a file and the interpreters that it names. Returns false for a script
/// without a `#!` line.
fn check(file: &Path) -> Result<bool, ProgramError> {
    let mut at = file.to_path_buf();
    for level in 0..=INTERPRETERS_MAX {
        let result = check_one(&at).and_then(|()| read_head(&at));
        let head = match result {
            Ok(head) => head,
            Err(error) if level == 0 => return Err(error),
            Err(error) => {
                let what = match &error {
                    ProgramError::NotFound(_) => "does not exist".to_owned(),
                    other => format!("cannot be run: {other}"),
                };
                return Err(ProgramError::Interpreter {
                    script: file.display().to_string(),
                    interpreter: at.display().to_string(),
                    what,
                });
            }
        };
        if head.starts_with(b"\x7fELF") {
            check_elf(&at, &head)?;
            return Ok(true);
        }
        match interpreter(&head) {
            Some(next) => at = next,
            None if level == 0 && is_text(&head) => return Ok(false),
            None => return Err(ProgramError::NotAProgram(at.display().to_string())),
        }
    }
    Err(ProgramError::TooManyInterpreters(file.display().to_string()))
}

fn check_one(path: &Path) -> Result<(), ProgramError> {
    let name = path.display().to_string();
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => ProgramError::NotExecutable(name.clone()),
        _ => ProgramError::NotFound(name.clone()),
    })?;
    if metadata.is_dir() {
        return Err(ProgramError::IsDirectory(name));
    }
    if !metadata.is_file() {
        return Err(ProgramError::NotRegular(name));
    }
    if !may_execute(path) {
        return Err(ProgramError::NotExecutable(name));
    }
    // It gives root no rights that root has not.
    // SAFETY: asks for an id.
    if unsafe { libc::geteuid() } == 0 {
        return Ok(());
    }
    let mode = metadata.permissions().mode();
    let (set_uid, set_gid) =
        (mode & libc::S_ISUID != 0, mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0);
    // On a script the kernel ignores these bits.
    if (set_uid || set_gid) && read_head(path)?.starts_with(b"\x7fELF") {
        return Err(ProgramError::SetId(name));
    }
    if has_capabilities(path) {
        return Err(ProgramError::Capabilities(name));
    }
    Ok(())
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names are C strings; with a length of 0 nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

fn read_head(path: &Path) -> Result<Vec<u8>, ProgramError> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    File::open(path)
        .and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head))
        .map_err(|source| ProgramError::Unreadable { path: path.display().to_string(), source })?;
    Ok(head)
}

fn check_elf(path: &Path, head: &[u8]) -> Result<(), ProgramError> {
    let name = path.display().to_string();
    const CLASS_64: u8 = 2;
    const MACHINES: [u16; 3] = [3, 62, 6];
    let machine = head.get(18..20).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    let kind = head.get(16..18).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    if head.len() < 64 {
        return Err(ProgramError::NotAProgram(name));
    }
    if !MACHINES.contains(&machine) {
        return Err(ProgramError::Foreign { path: name, machine });
    }
    if head[4] != CLASS_64 || machine != 62 {
        return Err(ProgramError::ThirtyTwoBit(name));
    }
    if kind != 2 && kind != 3 {
        return Err(ProgramError::NotAProgram(name));
    }
    if kind == 2 && meets_region(path, head).unwrap_or(false) {
        return Err(ProgramError::Occupied(name));
    }
    Ok(())
}

/// True for a program that its file wants to have where the runtime is.
fn meets_region(path: &Path, head: &[u8]) -> io::Result<bool> {
    const LOADED: u32 = 1;
    const PLACE_BYTES: u64 = 56;
    let file = File::open(path)?;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
    let [places, count] = [&head[32..40], &head[56..58]].map(number);
    for index in 0..count {
        // struct Elf64_Phdr: type, flags, offset, address, physical address, bytes there, in memory.
        let mut place = [0u8; PLACE_BYTES as usize];
        file.read_exact_at(&mut place, places.saturating_add(index * PLACE_BYTES))?;
        let (start, bytes) = (number(&place[16..24]), number(&place[40..48]));
        let meets = start < REGION_START + REGION_BYTES && start.saturating_add(bytes) > REGION_START;
        if number(&place[..4]) == u64::from(LOADED) && meets {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The interpreter of a `#!` line.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| matches!(byte, b' ' | b'\t' | 0)).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsString::from_vec(word.to_vec())))
}

/// As shells decide: the first line holds no NUL.
fn is_text(head: &[u8]) -> bool {
    !head.split(|byte| *byte == b'\n').next().unwrap_or(&[]).contains(&0)
}

/// True if the process with this id runs a 32-bit executable (by its file).
pub(crate) fn executable_is_32_bit(pid: i32) -> io::Result<bool> {
    let mut head = [0u8; 5];
    File::open(format!("/proc/{pid}/exe"))?.read_exact_at(&mut head, 0)?;
    Ok(head.starts_with(b"\x7fELF") && head[4] == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("retrovane-program-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        folder
    }

    fn file(path: &Path, content: &[u8], mode: u32) {
        std::fs::write(path, content).expect("a file for the test");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("own file");
    }

    #[test]
    fn programs_are_found_and_others_are_refused() {
        let folder = folder("kinds");
        let at = |name: &str| folder.join(name);
        let own = std::fs::read("/proc/self/exe").expect("the test itself");
        file(&at("plain"), &own, 0o755);
        file(&at("no-x"), &own, 0o644);
        file(&at("setuid"), &own, 0o4755);
        let mut small = own[..64].to_vec();
        small[4] = 1;
        small[18] = 3;
        file(&at("small"), &small, 0o755);
        small[4] = 2;
        small[18] = 183;
        file(&at("arm"), &small, 0o755);
        file(&at("script"), b"#! /bin/sh -e\n", 0o755);
        file(&at("lost"), b"#!/no/such/interpreter\n", 0o755);
        file(&at("bare"), b"echo hello\n", 0o755);
        file(&at("rr"), &own, 0o755);
        file(&at("binary"), b"\0\x01\x02", 0o755);
        file(&at("circle"), format!("#!{}\n", at("circle").display()).as_bytes(), 0o755);
        let check = |name: &str| resolve(at(name).as_os_str(), &[]);
        assert!(check("plain").is_ok());
        assert!(check("script").is_ok());
        assert_eq!(check("bare").expect("a shell runs it").path.as_bytes(), b"/bin/sh");
        assert!(matches!(check("no-x"), Err(ProgramError::NotExecutable(_))));
        // SAFETY: asks for an id.
        let is_root = unsafe { libc::geteuid() } == 0;
        assert!(matches!((check("setuid"), is_root), (Ok(_), true) | (Err(ProgramError::SetId(_)), false)));
        assert!(matches!(check("rr"), Err(ProgramError::Tracer(_))));
        assert!(matches!(check("small"), Err(ProgramError::ThirtyTwoBit(_))));
        assert!(matches!(check("arm"), Err(ProgramError::Foreign { machine: 183, .. })));
        assert!(matches!(check("lost"), Err(ProgramError::Interpreter { .. })));
        assert!(matches!(check("binary"), Err(ProgramError::NotAProgram(_))));
        assert!(matches!(check("circle"), Err(ProgramError::TooManyInterpreters(_))));
        assert!(matches!(check("absent"), Err(ProgramError::NotFound(_))));
        assert!(matches!(resolve(folder.as_os_str(), &[]), Err(ProgramError::IsDirectory(_))));
        assert!(matches!(
            resolve(OsStr::new("no-such-program-anywhere"), &[]),
            Err(ProgramError::NotFound(_))
        ));
        std::fs::remove_dir_all(&folder).expect("own folder");
    }
}
