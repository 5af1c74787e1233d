//! Times, rates and sizes as people write them.

/// Splits a number from its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

fn scaled(text: &str, units: &[(&str, f64)], what: &str, example: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no {what}: write it like `{example}`");
    let (number, unit) = split(text).ok_or_else(bad)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
    let value = number * factor;
    if value.is_finite() && value < 9e18 { Ok(value.round() as u64) } else { Err(bad()) }
}

/// A time in nanoseconds.
///
/// # Errors
/// What is wrong with the text.
pub fn time_ns(text: &str) -> Result<u64, String> {
    let units =
        [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("min", 60e9), ("h", 3600e9)];
    scaled(text, &units, "time", "10ms")
}

/// Bits for each second.
///
/// # Errors
/// What is wrong with the text.
pub fn rate(text: &str) -> Result<u64, String> {
    let units = [("bit", 1.0), ("kbit", 1e3), ("Kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)];
    scaled(text, &units, "rate", "100Mbit")
}

/// Bytes.
///
/// # Errors
/// What is wrong with the text.
pub fn bytes(text: &str) -> Result<u64, String> {
    let units = [("B", 1.0), ("kB", 1e3), ("KB", 1e3), ("MB", 1e6), ("KiB", 1024.0), ("MiB", 1_048_576.0)];
    scaled(text, &units, "size", "100kB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        assert_eq!(time_ns("10ms"), Ok(10_000_000));
        assert_eq!(time_ns("1.5 s"), Ok(1_500_000_000));
        assert_eq!(rate("100Mbit"), Ok(100_000_000));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        for bad in ["", "10", "ms", "-1s", "1 parsec"] {
            assert!(time_ns(bad).is_err(), "{bad}");
        }
    }
}
