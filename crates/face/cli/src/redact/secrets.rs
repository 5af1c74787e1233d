//! Values that are masked, and the forms in which programs pass them on.
//!
//! A form's mask is the form of a mask: a program that encodes a masked value in its replay gets what the masked log
//! says that it sent. Deliberately absent: compression and encryption, whose results hang on everything before.

use aho_corasick::{AhoCorasick, MatchKind};

const STANDARD_ALPHABET: &Alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_ALPHABET: &Alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Name of the form of a value that is not encoded.
const PLAIN: &str = "as it is";
/// What stands in place of each byte.
pub const MASK: u8 = b'x';
/// Shorter forms are found where nobody meant them.
const FORM_BYTES_MIN: usize = 4;
/// The same of base64.
const BASE64_BYTES_MIN: usize = 6;

/// A value, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Secret {
    pub name: String,
    pub value: Vec<u8>,
}

/// One form of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Form {
    secret: usize,
    what: &'static str,
    bytes: Vec<u8>,
    mask: Vec<u8>,
    /// Of base64.
    ends: Option<Ends>,
}

/// Letters of base64 of which a value decides a part: the one before its form, and the one behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ends {
    alphabet: &'static Alphabet,
    /// How many low bits of the letter before, and what stands for them.
    before: (u32, u8),
    /// How many high bits of the letter behind, and what stands for them.
    behind: (u32, u8),
}

type Alphabet = [u8; 64];

/// All secrets, ready to be searched for.
pub struct Secrets {
    secrets: Vec<Secret>,
    forms: Vec<Form>,
    finder: AhoCorasick,
    bytes_max: usize,
}

/// A form that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub start: usize,
    pub mask: Vec<u8>,
    pub secret: usize,
    /// How it is encoded.
    pub what: &'static str,
}

impl Secrets {
    /// With all forms of each.
    pub fn new(secrets: Vec<Secret>) -> Secrets {
        let mut forms: Vec<Form> =
            secrets.iter().enumerate().flat_map(|(index, secret)| forms_of(index, &secret.value)).collect();
        // Of two that begin at one place the longer one counts.
        forms.sort_by_key(|form| std::cmp::Reverse(form.bytes.len()));
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(forms.iter().map(|form| &form.bytes))
            .expect("so few patterns are within its limits");
        let bytes_max = forms.first().map_or(0, |form| form.bytes.len());
        Secrets { secrets, forms, finder, bytes_max }
    }

    /// Bytes of the longest form.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub fn name(&self, secret: usize) -> &str {
        &self.secrets[secret].name
    }

    pub fn all(&self) -> &[Secret] {
        &self.secrets
    }

    /// All forms in these bytes, those that overlap as well.
    pub fn find<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Found> {
        self.finder.find_overlapping_iter(bytes).map(|found| {
            let form = &self.forms[found.pattern().as_usize()];
            form.found(bytes, found.start(), form.mask.len())
        })
    }

    /// The longest beginning of a form with which these bytes end.
    pub fn begun_at_end(&self, bytes: &[u8]) -> Option<Found> {
        let begun = |form: &Form| {
            let longest = form.bytes.len().min(bytes.len());
            let fits = |&len: &usize| bytes.ends_with(&form.bytes[..len]);
            let len = (1..=longest).rev().find(fits)?;
            Some((len, form.found(bytes, bytes.len() - len, len)))
        };
        self.forms.iter().filter_map(begun).max_by_key(|(len, _)| *len).map(|(_, found)| found)
    }

    /// Masks all forms in place; whose they were.
    pub fn mask(&self, bytes: &mut [u8]) -> Vec<usize> {
        let found: Vec<Found> = self.find(bytes).collect();
        for one in &found {
            bytes[one.start..one.start + one.mask.len()].copy_from_slice(&one.mask);
        }
        found.into_iter().map(|one| one.secret).collect()
    }
}

impl Form {
    /// The first bytes of the form, found at a place.
    fn found(&self, bytes: &[u8], start: usize, len: usize) -> Found {
        let mut found =
            Found { start, mask: self.mask[..len].to_vec(), secret: self.secret, what: self.what };
        let Some(ends) = &self.ends else { return found };
        let value = |byte: &u8| ends.alphabet.iter().position(|letter| letter == byte).map(|at| at as u8);
        let (bits, mask) = ends.behind;
        if bits != 0
            && len == self.mask.len()
            && let Some(letter) = bytes.get(start + len).and_then(value)
        {
            let kept = letter & ((1 << (6 - bits)) - 1);
            found.mask.push(ends.alphabet[usize::from(kept | mask << (6 - bits))]);
        }
        let (bits, mask) = ends.before;
        if bits != 0
            && let Some(letter) = start.checked_sub(1).and_then(|at| value(&bytes[at]))
        {
            found.mask.insert(0, ends.alphabet[usize::from(letter >> bits << bits | mask)]);
            found.start -= 1;
        }
        found
    }
}

fn forms_of(secret: usize, value: &[u8]) -> Vec<Form> {
    let masked = vec![MASK; value.len()];
    let mut forms =
        vec![Form { secret, what: PLAIN, bytes: value.to_vec(), mask: masked.clone(), ends: None }];
    let mut add = |what, encode: &dyn Fn(&[u8]) -> Vec<u8>, bytes_min: usize, ends: Option<Ends>| {
        let bytes = encode(value);
        let mut mask = encode(&masked);
        // An encoding by need is longer for some bytes.
        mask.resize(bytes.len(), MASK);
        if bytes.len() >= bytes_min && forms.iter().all(|form| form.bytes != bytes) {
            forms.push(Form { secret, what, bytes, mask, ends });
        }
    };
    add("in hex", &|bytes| hex(bytes, b"0123456789abcdef"), FORM_BYTES_MIN, None);
    add("in hex", &|bytes| hex(bytes, b"0123456789ABCDEF"), FORM_BYTES_MIN, None);
    add("in UTF-16", &|bytes| bytes.iter().flat_map(|&byte| [byte, 0]).collect(), FORM_BYTES_MIN, None);
    add("in an address", &|bytes| percent(bytes, false), FORM_BYTES_MIN, None);
    add("in an address", &|bytes| percent(bytes, true), FORM_BYTES_MIN, None);
    add("in JSON", &json, FORM_BYTES_MIN, None);
    for before in 0..3 {
        for alphabet in [STANDARD_ALPHABET, URL_ALPHABET] {
            let encode = |bytes: &[u8]| base64(bytes, before, alphabet);
            add("in base64", &encode, BASE64_BYTES_MIN, Some(Ends::of(before, value.len(), alphabet)));
        }
    }
    forms
}

impl Ends {
    /// Of a value of so many bytes behind others.
    fn of(before: usize, bytes: usize, alphabet: &'static Alphabet) -> Ends {
        let low = ((6 - before * 8 % 6) % 6) as u32;
        let high = ((before + bytes) * 8 % 6) as u32;
        Ends { alphabet, before: (low, MASK >> (8 - low)), behind: (high, MASK & ((1 << high) - 1)) }
    }
}

fn hex(bytes: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).collect()
}

fn percent(bytes: &[u8], space_is_plus: bool) -> Vec<u8> {
    let mut text = Vec::new();
    for &byte in bytes {
        match byte {
            b' ' if space_is_plus => text.push(b'+'),
            b'-' | b'_' | b'.' | b'~' => text.push(byte),
            _ if byte.is_ascii_alphanumeric() => text.push(byte),
            _ => {
                text.push(b'%');
                text.extend(hex(&[byte], b"0123456789ABCDEF"));
            }
        }
    }
    text
}

fn json(bytes: &[u8]) -> Vec<u8> {
    let quoted = std::str::from_utf8(bytes).ok().and_then(|text| serde_json::to_string(text).ok());
    quoted.map_or_else(Vec::new, |text| text.as_bytes()[1..text.len() - 1].to_vec())
}

/// The letters that these bytes alone decide, behind so many others.
fn base64(bytes: &[u8], before: usize, alphabet: &Alphabet) -> Vec<u8> {
    let bit = |at: usize| bytes[(at / 8) - before] >> (7 - at % 8) & 1;
    let letters = (before * 8).div_ceil(6)..(before + bytes.len()) * 8 / 6;
    let letter = |at: usize| (at * 6..at * 6 + 6).fold(0, |value, at| value << 1 | bit(at));
    letters.map(|at| alphabet[usize::from(letter(at))]).collect()
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn one(value: &str) -> Secrets {
        Secrets::new(vec![Secret { name: "KEY".into(), value: value.into() }])
    }

    #[test]
    fn each_form_is_found_and_its_mask_is_that_of_a_masked_value() {
        let secrets = one("s3same/0815 ok");
        let forms: [fn(&str) -> String; 6] = [
            |text| format!("<{text}>"),
            |text| text.bytes().map(|byte| format!("{byte:02x}")).collect(),
            |text| text.bytes().flat_map(|byte| [char::from(byte), '\0']).collect(),
            |text| STANDARD.encode(format!("user:{text}")),
            |text| STANDARD.encode(format!("a:{text}")),
            |text| STANDARD.encode(format!("ab:{text}!")),
        ];
        for form in forms {
            let mut bytes = form("s3same/0815 ok").into_bytes();
            assert!(!secrets.mask(&mut bytes).is_empty(), "{:?}", form("s3same/0815 ok"));
            let masked = form("xxxxxxxxxxxxxx").into_bytes();
            assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&masked));
        }
        let mut address = b"?k=s3same%2F0815%20ok&k=s3same%2F0815+ok".to_vec();
        secrets.mask(&mut address);
        assert!(!String::from_utf8_lossy(&address).contains("s3same"));
    }

    #[test]
    fn a_beginning_at_the_end_is_known() {
        let secrets = one("sesame-0815");
        let begun = |bytes: &[u8]| secrets.begun_at_end(bytes).map(|found| (found.start, found.mask));
        assert_eq!(begun(b"key=sesame-"), Some((4, b"xxxxxxx".to_vec())));
        assert_eq!(begun(b"key=sesame- "), None);
        let encoded = STANDARD.encode("user:sesame-0815");
        let masked = STANDARD.encode("user:xxxxxxxxxxx");
        assert_eq!(begun(&encoded.as_bytes()[..15]), Some((6, masked.as_bytes()[6..15].to_vec())));
    }
}
