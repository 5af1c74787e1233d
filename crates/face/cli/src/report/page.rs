//! A page of HTML that refers to nothing outside of itself.

/// A page that grows.
pub struct Page {
    text: String,
}

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}\
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em;border-bottom:1px solid #ccc}\
pre{background:#f5f5f5;padding:.7em;overflow:auto;font-size:13px}p{margin:.3em 0}";

impl Page {
    pub fn new(title: &str) -> Page {
        let title = escaped(title);
        let head = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        );
        Page { text: head }
    }

    pub fn section(&mut self, title: &str) {
        self.text.push_str(&format!("<h2>{}</h2>\n", escaped(title)));
    }

    pub fn line(&mut self, text: &str) {
        self.text.push_str(&format!("<p>{}</p>\n", escaped(text)));
    }

    /// Text whose lines stay as they are.
    pub fn text(&mut self, text: &str) {
        self.text.push_str(&format!("<pre>{}</pre>\n", escaped(text)));
    }

    pub fn finish(mut self) -> String {
        self.text.push_str("</body></html>\n");
        self.text
    }
}

/// What a recorded program says must not become a part of the page's language.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\t' => safe.push(char),
            char if char.is_control() => safe.push('\u{fffd}'),
            char => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_is_no_markup() {
        let mut page = Page::new("a<b>");
        page.text("</pre><script>\x1b");
        let text = page.finish();
        assert!(!text.contains("<script>") && !text.contains('\x1b') && text.contains("a&lt;b&gt;"));
    }
}
