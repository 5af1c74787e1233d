//! Lines on standard error. Where that is full, or nobody reads it any more, the work at hand
//! goes on without them: a recording does not end of what it could not say.
#![forbid(unsafe_code)]

/// Writes a line to standard error, as `eprintln!` does, and does without if that fails.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => {{
        use ::std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stderr(), $($text)*);
    }};
}
