//! Values as text.

use std::fmt::{self, Write};

use crate::shown::Shown;

/// A text in quotes, with what is no plain character escaped.
pub(crate) fn quoted(text: &str, quote: char) -> String {
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\{:03o}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Number(number) => write!(f, "{number}"),
            Shown::Float(number) => write!(f, "{number}"),
            Shown::Complex(real, imaginary) => {
                let sign = if imaginary.is_sign_negative() { '-' } else { '+' };
                write!(f, "{real} {sign} {}i", imaginary.abs())
            }
            Shown::Boolean(value) => write!(f, "{value}"),
            Shown::Character(value) => {
                let byte = *value as u8;
                let escaped = if byte == 0 {
                    "'\\000'".to_owned()
                } else if byte.is_ascii() {
                    quoted(&char::from(byte).to_string(), '\'')
                } else {
                    format!("'\\{byte:03o}'")
                };
                write!(f, "{value} {escaped}")
            }
            Shown::Text(text) => f.write_str(&quoted(text, '"')),
            Shown::Pointer(address, None) => write!(f, "{address:#x}"),
            Shown::Pointer(_, Some(text)) => f.write_str(&quoted(text, '"')),
            Shown::Name(name, _) => f.write_str(name),
            Shown::List(list) => {
                f.write_str("{")?;
                for (index, value) in list.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
            Shown::Pair(pair) => write!(f, "[{}] = {}", pair.0, pair.1),
            Shown::Members(members) => {
                f.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    if !name.is_empty() {
                        write!(f, "{name} = ")?;
                    }
                    write!(f, "{value}")?;
                }
                f.write_str("}")
            }
            Shown::Variant(name, value) => match value.places() {
                Some(places) => {
                    write!(f, "{name}(")?;
                    for (index, value) in places.enumerate() {
                        write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                    }
                    f.write_str(")")
                }
                None => write!(f, "{name} {value}"),
            },
            Shown::Missing(why) => write!(f, "<{why}>"),
            Shown::Nothing => Ok(()),
        }
    }
}
