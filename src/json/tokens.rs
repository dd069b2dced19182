//! JSON text as its tokens, one after the other, without reading it into values.
//!
//! Of checked text the tokens are those of the grammar. Other text gives some tokens and ends: nothing here
//! panics, allocates or recurses.

use super::string_end;

/// A token; the white space between tokens is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// What stands between the quotes of a string or of a name, escapes as they are written.
    String(&'a str),
    /// A number, `true`, `false` or `null`.
    Bare(&'a str),
    /// A bracket, a comma or a colon.
    Mark(u8),
}

/// The tokens of a text.
pub(crate) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub fn of(text: &'a str) -> Self {
        Tokens { text, at: 0 }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.text.as_bytes();
        self.at += bytes.get(self.at..)?.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let start = self.at;
        match *bytes.get(start)? {
            b'"' => {
                let end = string_end(bytes, start).min(bytes.len());
                self.at = end + 1;
                Some(Token::String(&self.text[start + 1..end]))
            }
            mark if is_mark(mark) => {
                self.at += 1;
                Some(Token::Mark(mark))
            }
            _ => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'"' || is_mark(*byte);
                self.at += bytes[start..].iter().take_while(|byte| !ends(byte)).count();
                Some(Token::Bare(&self.text[start..self.at]))
            }
        }
    }
}

fn is_mark(byte: u8) -> bool {
    matches!(byte, b'[' | b']' | b'{' | b'}' | b',' | b':')
}

/// Gives a string as its reader sees it, piece by piece; half of a surrogate pair is U+FFFD.
pub(crate) fn unescape(string: &str, mut give: impl FnMut(&str)) {
    let mut rest = string;
    while let Some(at) = rest.find('\\') {
        give(&rest[..at]);
        let mut escape = rest[at + 1..].chars();
        let character = match escape.next() {
            Some('u') => unicode(&mut escape),
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(itself) => itself,
            None => return,
        };
        give(character.encode_utf8(&mut [0; 4]));
        rest = escape.as_str();
    }
    give(rest);
}

/// The character of the digits behind `\u`, which are passed by; of two such escapes where they are a pair.
fn unicode(escape: &mut std::str::Chars<'_>) -> char {
    let unit = |text: &str| text.get(..4).and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let Some(first) = unit(escape.as_str()) else { return char::REPLACEMENT_CHARACTER };
    *escape = escape.as_str()[4..].chars();
    let second = escape.as_str().strip_prefix("\\u").and_then(unit).filter(|_| (0xd800..0xdc00).contains(&first));
    let decoded = char::decode_utf16([Some(first), second].into_iter().flatten()).next();
    match decoded {
        Some(Ok(character)) => {
            if character.len_utf16() == 2 {
                *escape = escape.as_str()[6..].chars();
            }
            character
        }
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(string: &str) -> String {
        let mut read = String::new();
        unescape(string, |piece| read += piece);
        read
    }

    #[test]
    fn tokens_are_those_of_the_text() {
        use Token::*;
        let tokens: Vec<Token<'_>> = Tokens::of(" {\"a\\\"\":[ -1.5e3,null ],\n\"é\" : true}").collect();
        let names = [String("a\\\""), Bare("-1.5e3"), Bare("null"), String("é"), Bare("true")];
        let marks: Vec<u8> = tokens.iter().filter_map(|token| if let Mark(mark) = token { Some(*mark) } else { None }).collect();
        assert_eq!(marks, b"{:[,],:}");
        assert!(tokens.into_iter().filter(|token| !matches!(token, Mark(_))).eq(names));
    }

    #[test]
    fn escapes_are_read_as_a_reader_does() {
        for (written, seen) in [
            (r#"a\"b\\c\/d\b\f\n\r\t"#, "a\"b\\c/d\u{8}\u{c}\n\r\t"),
            (r"\u00e9\u0000\ud83d\ude00x", "é\0😀x"),
            (r"\ud83dx\ude00\ud83d\u0041\ud83d\ud83d\ude00", "\u{fffd}x\u{fffd}\u{fffd}A\u{fffd}😀"),
            ("é", "é"),
            ("", ""),
        ] {
            assert_eq!(read(written), seen, "{written}");
        }
    }

    proptest! {
        #[test]
        fn any_string_is_read_as_serde_json_does(text in any::<String>()) {
            let written = serde_json::to_string(&text).unwrap();
            let strings = Tokens::of(&written).map(|token| if let Token::String(inner) = token { read(inner) } else { String::new() });
            prop_assert!(strings.eq([text]));
        }

        #[test]
        fn text_that_is_no_json_ends(text in r#"[\[\]{}:,"\\u0-9dD é😀]{0,40}"#) {
            let mut bytes = 0;
            for token in Tokens::of(&text) {
                if let Token::String(inner) = token {
                    bytes += read(inner).len();
                }
            }
            prop_assert!(bytes <= 3 * text.len());
        }
    }
}
