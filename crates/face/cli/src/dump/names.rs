//! Names of error numbers and of other numbers that no table of the model has.

use nix::errno::Errno;

/// The error that a result means, as a positive number.
pub fn error_of(result: i64) -> Option<i32> {
    (-4095..0).contains(&result).then(|| (-result) as i32)
}

/// Name of an error number.
pub fn error_name(number: i32) -> String {
    error(number).0
}

/// Name and text of an error number.
pub fn error(number: i32) -> (String, String) {
    // What the kernel says to itself when a signal interrupts a call.
    let inside = match number {
        512 => "ERESTARTSYS",
        513 => "ERESTARTNOINTR",
        514 => "ERESTARTNOHAND",
        516 => "ERESTART_RESTARTBLOCK",
        _ => "",
    };
    if !inside.is_empty() {
        return (inside.to_owned(), "To be restarted".to_owned());
    }
    let name = match Errno::from_raw(number) {
        Errno::UnknownErrno => format!("ERRNO_{number}"),
        known => format!("{known:?}"),
    };
    // The texts of the C library, as all other tools print them.
    let text = std::io::Error::from_raw_os_error(number).to_string();
    let end = text.rfind(" (os error").unwrap_or(text.len());
    (name, text[..end].to_owned())
}

/// A number by its name in a table, else in decimal.
pub fn of(table: &[(u64, &str)], number: u64) -> String {
    match table.iter().find(|(value, _)| *value == number) {
        Some((_, name)) => (*name).to_owned(),
        None => number.to_string(),
    }
}

/// Bits by their names in a table, what has no name in hexadecimal.
pub fn bits(table: &[(u64, &str)], value: u64) -> String {
    let mut rest = value;
    let mut names = Vec::new();
    for &(bit, name) in table {
        if bit != 0 && rest & bit == bit {
            names.push(name.to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 || names.is_empty() {
        names.push(if rest == 0 { "0".to_owned() } else { format!("{rest:#x}") });
    }
    names.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_names_and_texts() {
        assert_eq!(error(2), ("ENOENT".to_owned(), "No such file or directory".to_owned()));
        assert_eq!(error(512).0, "ERESTARTSYS");
        assert_eq!(error(4000).0, "ERRNO_4000");
        assert_eq!((error_of(-2), error_of(0), error_of(-4096)), (Some(2), None, None));
    }

    #[test]
    fn bits_keep_what_has_no_name() {
        let table = [(1, "ONE"), (4, "FOUR")];
        assert_eq!(
            [0, 1, 5, 13, 8].map(|value| bits(&table, value)),
            ["0", "ONE", "ONE|FOUR", "ONE|FOUR|0x8", "0x8"]
        );
    }
}
