//! What is shown of a value.

use serde_json::json;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    Number(i128),
    Float(f64),
    /// The real part and the imaginary one.
    Complex(f64, f64),
    Boolean(bool),
    /// A number, and the byte as a character.
    Character(i64),
    Text(String),
    /// A pointer; the text behind it, if it points to some.
    Pointer(u64, Option<String>),
    /// An enumeration's value by its name.
    Name(String, i64),
    List(Vec<Shown>),
    /// A key and its value.
    Pair(Box<(Shown, Shown)>),
    Members(Vec<(String, Shown)>),
    /// One of several that a value may be, and what it has.
    Variant(String, Box<Shown>),
    /// There is none, and why.
    Missing(String),
    Nothing,
}

impl Shown {
    /// A structure of two as a key and its value.
    pub(crate) fn into_pair(self) -> Shown {
        let Shown::Members(mut members) = self else { return self };
        let place = |wanted: [&str; 3]| members.iter().position(|(name, _)| wanted.contains(&name.as_str()));
        let (Some(key), Some(value)) = (place(["first", "__0", "key"]), place(["second", "__1", "elem"]))
        else {
            return Shown::Members(members);
        };
        let mut take = |at: usize| std::mem::replace(&mut members[at].1, Shown::Nothing);
        Shown::Pair(Box::new((take(key), take(value))))
    }

    /// The members of a structure whose members are numbered, as a tuple's are in Rust.
    pub(crate) fn places(&self) -> Option<impl Iterator<Item = &Shown>> {
        let Shown::Members(members) = self else { return None };
        let is_place = |(name, _): &(String, Shown)| name.starts_with("__");
        members.iter().all(is_place).then(|| members.iter().map(|(_, value)| value))
    }

    /// As JSON: a number, a text, a list, an object. What is missing is an object with
    /// the one field `missing`.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Shown::Number(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => json!(number),
                (_, Ok(number)) => json!(number),
                _ => json!(number.to_string()),
            },
            Shown::Float(number) if number.is_finite() => json!(number),
            Shown::Float(number) => json!(number.to_string()),
            Shown::Complex(real, imaginary) => json!([real, imaginary]),
            Shown::Boolean(value) => json!(value),
            Shown::Character(value) => json!(value),
            Shown::Text(text) | Shown::Pointer(_, Some(text)) => json!(text),
            Shown::Pointer(address, None) => json!(format!("{address:#x}")),
            Shown::Name(name, _) => json!(name),
            Shown::List(list) => list.iter().map(Shown::to_json).collect(),
            Shown::Pair(pair) => json!([pair.0.to_json(), pair.1.to_json()]),
            Shown::Members(members) => {
                let named = members.iter().enumerate().map(|(index, (name, value))| {
                    let name = if name.is_empty() { format!("unnamed {}", index + 1) } else { name.clone() };
                    (name, value.to_json())
                });
                serde_json::Value::Object(named.collect())
            }
            Shown::Variant(name, value) => {
                let places = value.places().map(|places| places.map(Shown::to_json).collect::<Vec<_>>());
                let value = match places {
                    Some(mut places) if places.len() == 1 => places.remove(0),
                    Some(places) => places.into(),
                    None => value.to_json(),
                };
                json!({ name: value })
            }
            Shown::Missing(why) => json!({ "missing": why }),
            Shown::Nothing => serde_json::Value::Null,
        }
    }
}
