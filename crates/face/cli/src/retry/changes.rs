//! What `retry` changes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use injector::{Placed, StdinKind};

use super::RetryArguments;
use crate::exit::CommandError;
use crate::recorded::Recorded;

/// Changes the program, and gives the files that stand for others.
pub fn apply(arguments: &RetryArguments, recorded: &mut Recorded) -> Result<Vec<Placed>, CommandError> {
    let usage = |text: String| CommandError::Usage(text);
    if let Some(path) = &arguments.stdin {
        recorded.program.stdin = read(path)?;
        recorded.program.stdin_kind = StdinKind::File;
    }
    for change in &arguments.arg {
        let parsed = change.split_once('=').and_then(|(n, text)| Some((n.parse::<usize>().ok()?, text)));
        let (number, text) = parsed.ok_or_else(|| {
            usage(format!("--arg {change}: a number, = and a text are wanted, like 2=--verbose"))
        })?;
        let words = &mut recorded.program.command;
        if number > words.len() {
            let last = words.len() - 1;
            return Err(usage(format!("--arg {change}: the last argument has the number {last}")));
        }
        match words.get_mut(number) {
            Some(word) => *word = text.into(),
            None => words.push(text.into()),
        }
    }
    for change in &arguments.env {
        let name = change.split_once('=').map_or(change.as_str(), |(name, _)| name);
        let start = format!("{name}=");
        let environment = &mut recorded.program.environment;
        environment.retain(|entry| !entry.as_bytes().starts_with(start.as_bytes()));
        if change.contains('=') {
            environment.push(OsString::from(change));
        }
    }
    if let Some(path) = &arguments.program {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        if !path.is_file() {
            return Err(usage(format!("--program {}: no such file", path.display())));
        }
        recorded.program.command[0] = path.into();
    }
    let mut placed = Vec::new();
    for change in &arguments.input {
        let (pattern, file) = change
            .rsplit_once('=')
            .ok_or_else(|| usage(format!("--input {change}: PATTERN=FILE is wanted")))?;
        let content = read(Path::new(file))?;
        if pattern == "stdin" {
            recorded.program.stdin = content;
            recorded.program.stdin_kind = StdinKind::File;
            continue;
        }
        let pattern = recorded.program.directory.join(pattern);
        let is_meant = |path: &PathBuf| matches(pattern.as_os_str().as_bytes(), path.as_os_str().as_bytes());
        let paths: Vec<PathBuf> =
            recorded.readings.files.iter().map(|file| file.path.clone()).filter(is_meant).collect();
        if paths.is_empty() {
            return Err(usage(format!(
                "--input {change}: the program opened no such file; `retrovane dump --call open,openat` lists them"
            )));
        }
        placed.extend(paths.into_iter().map(|at| Placed { at, content: content.clone(), mode: 0o644 }));
    }
    Ok(placed)
}

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(path).map_err(|source| CommandError::Read { path: path.to_owned(), source })
}

/// True if the text is what the pattern says: `*` stands for any run of characters, `?` for one.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => matches(&pattern[1..], text) || !text.is_empty() && matches(pattern, &text[1..]),
        (Some(b'?'), Some(_)) => matches(&pattern[1..], &text[1..]),
        (Some(one), Some(other)) if one == other => matches(&pattern[1..], &text[1..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_are_those_of_shells() {
        for (pattern, text, wanted) in [
            ("/etc/*.conf", "/etc/app.conf", true),
            ("/etc/**", "/etc/a/b", true),
            ("/etc/?", "/etc/ab", false),
            ("/a", "/a", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }
}
