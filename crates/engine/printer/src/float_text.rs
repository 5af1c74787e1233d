//! Floating-point numbers as a user writes them: C's, in decimals.

/// Where one ends that begins here; `None`: it is a whole number.
pub(crate) fn end(characters: &[char], start: usize) -> Option<usize> {
    let digits = |from: usize| {
        from + characters.get(from..).unwrap_or_default().iter().take_while(|c| c.is_ascii_digit()).count()
    };
    let is = |at: usize, one_of: &str| characters.get(at).is_some_and(|c| one_of.contains(*c));
    let mut at = digits(start);
    let has_point = is(at, ".");
    if has_point {
        at = digits(at + 1);
    }
    let has_exponent = is(at, "eE");
    if has_exponent {
        at = digits(at + 1 + usize::from(is(at + 1, "+-")));
    }
    if !has_point && !has_exponent {
        return None;
    }
    // A suffix, or what does not belong there.
    Some(at + characters[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count())
}

/// Its value as the bits of 64, and the bytes of its type.
pub(crate) fn of(text: &str) -> Option<(u64, u64)> {
    if let Some(single) = text.strip_suffix(['f', 'F']) {
        return Some((f64::from(single.parse::<f32>().ok()?).to_bits(), 4));
    }
    Some((text.parse::<f64>().ok()?.to_bits(), 8))
}
