//! Expressions as a user writes them: C's, as far as they change nothing.

use crate::error::PrintError;
use crate::float_text as float;

/// An operator of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    Mul,
    Div,
    Rem,
    Add,
    Sub,
    Shl,
    Shr,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Xor,
    Or,
    LogicalAnd,
    LogicalOr,
}

/// An operator of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    Negate,
    Not,
    Invert,
    Dereference,
    AddressOf,
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    Number(u64),
    /// The bits of a floating-point number of 64 bits, and the bytes of its type.
    Float(u64, u64),
    Character(u8),
    /// A variable, with its namespaces.
    Name(String),
    Register(String),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
    /// `a.b`, or `a->b`, which mean the same here.
    Member(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    /// The words of a type's name, and how many `*` follow.
    Cast(String, u32, Box<Expression>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Number(u64),
    Float(u64, u64),
    Character(u8),
    Word(String),
    Register(String),
    Sign(&'static str),
}

/// Longest first.
const SIGNS: [&str; 30] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "::", "+", "-", "*", "/", "%", "<", ">", "&", "|",
    "^", "!", "~", "(", ")", "[", "]", ".", ",", "=", "?",
];

/// An expression, and the text that it was read from.
pub type Named = (String, Expression);

/// Reads expressions with commas between them.
///
/// # Errors
/// [`PrintError::Syntax`]
pub fn parse_list(text: &str) -> Result<Vec<Named>, PrintError> {
    let mut parser = Parser::new(text)?;
    let mut list = Vec::new();
    loop {
        let start = parser.place();
        let expression = parser.expression(0)?;
        let written = text.chars().skip(start).take(parser.place() - start).collect::<String>();
        list.push((written.trim().to_owned(), expression));
        if !parser.take(",") {
            break;
        }
    }
    parser.end()?;
    Ok(list)
}

/// Reads one expression.
///
/// # Errors
/// [`PrintError::Syntax`]
pub fn parse(text: &str) -> Result<Named, PrintError> {
    let mut parser = Parser::new(text)?;
    let expression = parser.expression(0)?;
    parser.end()?;
    Ok((text.trim().to_owned(), expression))
}

struct Parser<'a> {
    text: &'a str,
    /// With the places where they begin, in characters.
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Parser<'a>, PrintError> {
        Ok(Parser { text, tokens: tokens(text)?, at: 0, depth: 0 })
    }

    fn place(&self) -> usize {
        self.tokens.get(self.at).map_or_else(|| self.text.chars().count(), |(place, _)| *place)
    }

    fn error<T>(&self, what: &str) -> Result<T, PrintError> {
        Err(PrintError::Syntax(self.text.to_owned(), self.place() + 1, what.to_owned()))
    }

    fn end(&self) -> Result<(), PrintError> {
        if self.at == self.tokens.len() { Ok(()) } else { self.error("the expression should end here") }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &str) -> Result<(), PrintError> {
        if self.take(sign) { Ok(()) } else { self.error(&format!("`{sign}` is missing")) }
    }

    /// An expression of operators that bind at least as tightly.
    fn expression(&mut self, tightness: u8) -> Result<Expression, PrintError> {
        const DEPTH_MAX: u32 = 100;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.error("it is nested too deeply");
        }
        let mut left = self.unary()?;
        while let Some((binary, own)) = self.peek().and_then(binary_of)
            && own >= tightness
        {
            self.at += 1;
            let right = self.expression(own + 1)?;
            left = Expression::Binary(binary, Box::new(left), Box::new(right));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, PrintError> {
        const UNARY: [(&str, Unary); 5] = [
            ("-", Unary::Negate),
            ("!", Unary::Not),
            ("~", Unary::Invert),
            ("*", Unary::Dereference),
            ("&", Unary::AddressOf),
        ];
        self.depth += 1;
        if self.depth > 200 {
            return self.error("it is nested too deeply");
        }
        let found = UNARY.iter().find(|(sign, _)| self.take(sign));
        let result = match found {
            Some((_, operator)) => Expression::Unary(*operator, Box::new(self.unary()?)),
            None => match self.cast()? {
                Some(cast) => cast,
                None => self.postfix()?,
            },
        };
        self.depth -= 1;
        Ok(result)
    }

    /// A cast, if one begins here.
    fn cast(&mut self) -> Result<Option<Expression>, PrintError> {
        let before = self.at;
        if !self.take("(") {
            return Ok(None);
        }
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word.clone());
            self.at += 1;
        }
        let mut stars = 0;
        while self.take("*") {
            stars += 1;
        }
        let closes = self.take(")");
        let keywords = [
            "unsigned", "signed", "int", "long", "short", "char", "float", "double", "struct", "union",
            "enum", "void",
        ];
        // `(x) - 1` is none, and `(x *) p` and `(long) x` are.
        let is_type = stars > 0
            || words.len() > 1
            || words.first().is_some_and(|word| keywords.contains(&word.as_str()) || word.ends_with("_t"));
        if words.is_empty() || !closes || !is_type {
            self.at = before;
            return Ok(None);
        }
        let operand = self.unary()?;
        Ok(Some(Expression::Cast(words.join(" "), stars, Box::new(operand))))
    }

    fn postfix(&mut self) -> Result<Expression, PrintError> {
        let mut expression = self.primary()?;
        loop {
            if self.take(".") || self.take("->") {
                let name = match self.peek() {
                    Some(Token::Word(name)) => name.clone(),
                    // Rust's tuples.
                    Some(Token::Number(number)) => format!("__{number}"),
                    _ => return self.error("the name of a member is missing"),
                };
                self.at += 1;
                expression = Expression::Member(Box::new(expression), name);
            } else if self.take("[") {
                let index = self.expression(0)?;
                self.expect("]")?;
                expression = Expression::Index(Box::new(expression), Box::new(index));
            } else if matches!(self.peek(), Some(Token::Sign("("))) {
                return self.error("functions of the program cannot be called in its past");
            } else {
                return Ok(expression);
            }
        }
    }

    fn primary(&mut self) -> Result<Expression, PrintError> {
        if self.take("(") {
            let inner = self.expression(0)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let global = self.take("::");
        let Some(token) = self.peek().cloned() else { return self.error("an expression is missing") };
        if matches!(token, Token::Sign(_)) {
            return self.error("an expression is missing");
        }
        self.at += 1;
        Ok(match token {
            Token::Number(number) => Expression::Number(number),
            Token::Float(bits, bytes) => Expression::Float(bits, bytes),
            Token::Character(byte) => Expression::Character(byte),
            Token::Register(name) => Expression::Register(name),
            Token::Word(mut name) => {
                while self.take("::") {
                    let Some(Token::Word(next)) = self.peek().cloned() else {
                        return self.error("a name is missing behind `::`");
                    };
                    self.at += 1;
                    name = format!("{name}::{next}");
                }
                Expression::Name(if global { format!("::{name}") } else { name })
            }
            Token::Sign(_) => return self.error("an expression is missing"),
        })
    }
}

fn binary_of(token: &Token) -> Option<(Binary, u8)> {
    let Token::Sign(sign) = token else { return None };
    Some(match *sign {
        "||" => (Binary::LogicalOr, 1),
        "&&" => (Binary::LogicalAnd, 2),
        "|" => (Binary::Or, 3),
        "^" => (Binary::Xor, 4),
        "&" => (Binary::And, 5),
        "==" => (Binary::Equal, 6),
        "!=" => (Binary::NotEqual, 6),
        "<" => (Binary::Less, 7),
        "<=" => (Binary::LessEqual, 7),
        ">" => (Binary::Greater, 7),
        ">=" => (Binary::GreaterEqual, 7),
        "<<" => (Binary::Shl, 8),
        ">>" => (Binary::Shr, 8),
        "+" => (Binary::Add, 9),
        "-" => (Binary::Sub, 9),
        "*" => (Binary::Mul, 10),
        "/" => (Binary::Div, 10),
        "%" => (Binary::Rem, 10),
        _ => return None,
    })
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, PrintError> {
    let characters: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&first) = characters.get(at) {
        let error = |what: &str| Err(PrintError::Syntax(text.to_owned(), at + 1, what.to_owned()));
        let word_end = |from: usize| {
            let rest = characters[from..].iter();
            from + rest.take_while(|c| c.is_alphanumeric() || **c == '_').count()
        };
        let rest: String = characters[at..].iter().take(2).collect();
        let (token, end) = if first.is_whitespace() {
            at += 1;
            continue;
        } else if first.is_ascii_digit() {
            // Behind a dot it is a member of Rust's tuples: `t.0.1`.
            let is_member = matches!(found.last(), Some((_, Token::Sign("." | "->"))));
            let end =
                if is_member { word_end(at) } else { float::end(&characters, at).unwrap_or(word_end(at)) };
            let word: String = characters[at..end].iter().collect();
            let token = number(&word).map(Token::Number);
            match token.or_else(|| float::of(&word).map(|(bits, bytes)| Token::Float(bits, bytes))) {
                Some(token) => (token, end),
                None => return error("this is no number"),
            }
        } else if first.is_alphabetic() || first == '_' {
            let end = word_end(at);
            (Token::Word(characters[at..end].iter().collect()), end)
        } else if first == '$' {
            let end = word_end(at + 1);
            (Token::Register(characters[at + 1..end].iter().collect()), end)
        } else if first == '\'' {
            match character(&characters[at + 1..]) {
                Some((byte, length)) => (Token::Character(byte), at + 1 + length),
                None => return error("this is no character of one byte"),
            }
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            if *sign == "=" {
                return error("nothing can be assigned in the past; to compare, write `==`");
            }
            if *sign == "." && matches!(found.last(), Some((_, Token::Float(..)))) {
                return error("a number has no members");
            }
            (Token::Sign(sign), at + sign.len())
        } else {
            return error("this is not understood");
        };
        found.push((at, token));
        at = end;
    }
    Ok(found)
}

fn number(word: &str) -> Option<u64> {
    let word = word.trim_end_matches(['u', 'U', 'l', 'L']);
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(&word[1..], 8).ok(),
        None => word.parse().ok(),
    }
}

/// A character behind its quote, and how many characters it takes.
fn character(rest: &[char]) -> Option<(u8, usize)> {
    match rest {
        ['\\', escaped, '\'', ..] => {
            let byte = match escaped {
                'n' => b'\n',
                't' => b'\t',
                'r' => b'\r',
                '0' => 0,
                '\\' => b'\\',
                '\'' => b'\'',
                _ => return None,
            };
            Some((byte, 3))
        }
        [plain, '\'', ..] if plain.is_ascii() => Some((*plain as u8, 2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_in_c() {
        let same = |left: &str, right: &str| {
            assert_eq!(parse(left).expect(left).1, parse(right).expect(right).1, "{left}");
        };
        same("a + b * c", "a + (b * c)");
        same("a - b - c", "(a - b) - c");
        same("a == b && c < 2 || d", "((a == b) && (c < 2)) || d");
        same("-p->x[1].y", "-(((p->x)[1]).y)");
        same("*p.x", "*(p.x)");
        same("0x10 + 010 + 'a'", "16 + 8 + 'a'");
        same("(x) - 1", "x - 1");
    }

    #[test]
    fn casts_are_told_from_parentheses() {
        let (_, cast) = parse("(unsigned char *) p").expect("a cast");
        assert!(matches!(cast, Expression::Cast(name, 1, _) if name == "unsigned char"));
        assert!(matches!(parse("(uint8_t) x").expect("a cast").1, Expression::Cast(_, 0, _)));
        assert!(matches!(parse("(x) * 2").expect("a product").1, Expression::Binary(Binary::Mul, ..)));
    }

    #[test]
    fn lists_keep_what_was_written() {
        let list = parse_list("x, y[ i ] ,a->b").expect("three");
        let names: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["x", "y[ i ]", "a->b"]);
    }

    #[test]
    fn numbers_with_a_floating_point_are_told_from_members() {
        let of = |text: &str| parse(text).expect(text).1;
        assert_eq!(of("1.5"), Expression::Float(1.5f64.to_bits(), 8));
        assert_eq!(of("2e-3"), Expression::Float(2e-3f64.to_bits(), 8));
        assert_eq!(of("0.1f"), Expression::Float(f64::from(0.1f32).to_bits(), 4));
        assert_eq!(of("3."), Expression::Float(3f64.to_bits(), 8));
        assert_eq!(of("0x1e5"), Expression::Number(0x1e5));
        assert!(matches!(of("t.0.1"), Expression::Member(_, name) if name == "__1"));
        assert!(parse("1.5x").is_err() && parse("0.1l5").is_err());
    }

    #[test]
    fn errors_say_where() {
        for (text, place) in
            [("x +", 4), ("x = 1", 3), ("f(1)", 2), ("a[1", 4), ("", 1), ("x y", 3), ("1.5.2", 4), ("é", 2)]
        {
            match parse(text) {
                Err(PrintError::Syntax(_, found, _)) => assert_eq!(found, place, "{text}"),
                other => assert!(text == "é" && other.is_ok(), "{text}: {other:?}"),
            }
        }
        assert!(parse(&"(".repeat(1000)).is_err());
        assert!(parse(&"-".repeat(1000)).is_err());
    }
}
