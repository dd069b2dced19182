//! Text sought in states, as their reader sees it.
//!
//! A JSON state is looked at string by string (names too) and number by number, escapes decoded; of other
//! states each stretch of valid UTF-8 is looked at. What is looked at passes through a window of bounded
//! size, one text behind the other, with a byte between them that stands in no text.

use memchr::memmem::Finder;

use crate::checkpoint::TypeTag;
use crate::error::{Error, Result};
use crate::json::tokens::{Token, Tokens, unescape};

const WINDOW_BYTES: usize = 64 * 1024;
/// What stands between two texts: no byte of UTF-8.
const BETWEEN: u8 = 0xff;

/// All that is sought in a state.
pub(super) struct Texts(Vec<Sought>);

/// Some texts that must all be there.
struct Sought {
    finders: Vec<(Finder<'static>, bool)>,
    /// Whether upper and lower case are one.
    folds: bool,
    /// How many are not found yet.
    left: usize,
    window: Vec<u8>,
    /// How much of a window a text may still need with the next.
    overlap: usize,
    /// How many bytes the finders were given.
    #[cfg(test)]
    looked_through: usize,
}

impl Texts {
    /// Seeks every word of a text, and another text as it stands. Errors: `InvalidInput` where one is empty.
    pub fn new(words: Option<&str>, substring: Option<&str>) -> Result<Self> {
        let mut sought = Vec::new();
        if let Some(words) = words {
            let words = words.split_whitespace().map(|word| {
                let mut folded = Vec::new();
                fold(word, &mut folded);
                folded
            });
            sought.push(Sought::new(words, true, "`text` has no word")?);
        }
        if let Some(substring) = substring {
            let substring = (!substring.is_empty()).then(|| substring.as_bytes().to_vec());
            sought.push(Sought::new(substring, false, "`substring` is empty")?);
        }
        Ok(Texts(sought))
    }

    /// Whether nothing is sought.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of it is in a state. Cost: about the time of reading the state once or twice.
    pub fn are_in(&mut self, tag: &TypeTag, state: &[u8]) -> bool {
        self.0.iter_mut().for_each(Sought::begin);
        match std::str::from_utf8(state) {
            Ok(text) if *tag == TypeTag::JSON => {
                for token in Tokens::of(text) {
                    match token {
                        Token::String(string) => unescape(string, |piece| self.see(piece)),
                        Token::Bare(bare) => self.see(bare),
                        Token::Mark(_) => continue,
                    }
                    if self.text_ends() {
                        break;
                    }
                }
            }
            _ => {
                for chunk in state.utf8_chunks() {
                    self.see(chunk.valid());
                    if self.text_ends() {
                        break;
                    }
                }
            }
        }
        self.0.iter_mut().all(|sought| {
            sought.look();
            sought.left == 0
        })
    }

    fn see(&mut self, piece: &str) {
        self.0.iter_mut().for_each(|sought| sought.see(piece));
    }

    /// Ends a text, and answers whether all was found by now.
    fn text_ends(&mut self) -> bool {
        self.0.iter_mut().for_each(Sought::end_text);
        self.0.iter().all(|sought| sought.left == 0)
    }
}

impl Sought {
    fn new(texts: impl IntoIterator<Item = Vec<u8>>, folds: bool, none: &str) -> Result<Self> {
        let finders: Vec<_> = texts.into_iter().map(|text| (Finder::new(&text).into_owned(), false)).collect();
        let longest = finders.iter().map(|(finder, _)| finder.needle().len()).max();
        let overlap = longest.ok_or_else(|| Error::invalid(format!("{none}: nothing to look for")))? - 1;
        Ok(Sought {
            finders,
            folds,
            left: 0,
            window: Vec::new(),
            overlap,
            #[cfg(test)]
            looked_through: 0,
        })
    }

    fn begin(&mut self) {
        self.finders.iter_mut().for_each(|(_, found)| *found = false);
        self.left = self.finders.len();
        self.window.clear();
    }

    fn see(&mut self, mut text: &str) {
        while !text.is_empty() && self.left > 0 {
            let mut end = text.len().min(WINDOW_BYTES);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let (piece, rest) = text.split_at(end);
            if self.folds {
                fold(piece, &mut self.window)
            } else {
                self.window.extend_from_slice(piece.as_bytes())
            }
            self.look_if_full();
            text = rest;
        }
    }

    fn end_text(&mut self) {
        if self.left > 0 && self.window.last().is_some_and(|last| *last != BETWEEN) {
            self.window.push(BETWEEN);
            self.look_if_full();
        }
    }

    /// What a look passes over is a window at least, however much of it has to stay.
    fn look_if_full(&mut self) {
        if self.window.len() >= self.overlap + WINDOW_BYTES {
            self.look();
        }
    }

    /// Looks through the window, and empties it but for its end.
    fn look(&mut self) {
        for (finder, found) in &mut self.finders {
            #[cfg(test)]
            {
                self.looked_through += self.window.len();
            }
            if !*found && finder.find(&self.window).is_some() {
                *found = true;
                self.left -= 1;
            }
        }
        let passed = self.window.len().saturating_sub(self.overlap);
        self.window.drain(..passed);
    }
}

/// Appends a text with each character in lower case.
fn fold(text: &str, to: &mut Vec<u8>) {
    if text.is_ascii() {
        to.extend(text.bytes().map(|byte| byte.to_ascii_lowercase()));
        return;
    }
    for character in text.chars().flat_map(char::to_lowercase) {
        to.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(words: &str, json: &str) -> bool {
        Texts::new(Some(words), None).unwrap().are_in(&TypeTag::JSON, json.as_bytes())
    }

    fn exactly(substring: &str, tag: &TypeTag, state: &[u8]) -> bool {
        Texts::new(None, Some(substring)).unwrap().are_in(tag, state)
    }

    #[test]
    fn every_word_must_be_in_some_text() {
        let state = r#"{"Plan":"book a FLIGHT to Z\u00fcrich","cost":[120.5,null]}"#;
        for found in ["flight", "zürich PLAN", "ZÜRICH", "ligh", "120.5 null", "cost", " to\tbook\n"] {
            assert!(words(found, state), "{found}");
        }
        for missing in ["flights", "plan train", "planbook", "zurich", "u00fc", "{", "120.50"] {
            assert!(!words(missing, state), "{missing}");
        }
    }

    #[test]
    fn a_substring_is_looked_for_as_it_stands() {
        let state = br#"{"a":"one \"two\"\nthree","b":"four"}"#;
        assert!(exactly("\"two\"\nthree", &TypeTag::JSON, state) && exactly("e \"", &TypeTag::JSON, state));
        assert!(
            !exactly("Two", &TypeTag::JSON, state)
                && !exactly("\\n", &TypeTag::JSON, state)
                && !exactly("threefour", &TypeTag::JSON, state)
        );
        assert!(
            exactly("\\n", &TypeTag::BYTES, state)
                && exactly("},", &TypeTag::BYTES, b"\xff},")
                && !exactly("a\u{ff}", &TypeTag::BYTES, b"a\xff")
        );
    }

    #[test]
    fn text_is_found_across_windows_and_pieces() {
        for before in [WINDOW_BYTES - 3, WINDOW_BYTES - 1, WINDOW_BYTES, 2 * WINDOW_BYTES - 2] {
            let state = format!("\"{}nee\\u0064le{}\"", "é".repeat(before / 2) + &"x".repeat(before % 2), "y".repeat(WINDOW_BYTES));
            assert!(words("NEEDLE", &state) && exactly("needle", &TypeTag::JSON, state.as_bytes()), "{before}");
            assert!(!words("needles", &state));
        }
        let long = "n".repeat(3 * WINDOW_BYTES);
        assert!(words(&long, &format!("\"x{long}\"")) && !words(&long, &format!("[\"{}\",\"n\"]", &long[1..])));
    }

    #[test]
    fn a_look_through_many_texts_holds_little() {
        let mut texts = Texts::new(Some("absent"), Some("absent")).unwrap();
        let state = format!("[{}\"\"]", "\"abc\",".repeat(200_000));
        assert!(!texts.are_in(&TypeTag::JSON, state.as_bytes()));
        assert!(texts.0.iter().all(|sought| sought.window.capacity() <= 4 * WINDOW_BYTES));
    }

    #[test]
    fn a_look_through_what_is_no_text_holds_little() {
        for (tag, state) in
            [(TypeTag::BYTES, vec![0xff; 4_000_000]), (TypeTag::JSON, format!("[{}1]", "\"\",".repeat(1_000_000)).into_bytes())]
        {
            let mut texts = Texts::new(Some("absent"), Some("1")).unwrap();
            assert!(!texts.are_in(&tag, &state));
            assert!(texts.0.iter().all(|sought| sought.window.capacity() <= 4 * WINDOW_BYTES), "{tag}");
        }
    }

    #[test]
    fn a_long_text_is_looked_for_in_windows_that_are_longer() {
        let state = format!("[{}1]", "1,".repeat(2_000_000));
        let long = "x".repeat(2 * WINDOW_BYTES);
        let mut texts = Texts::new(Some(&format!("{long} absent")), Some(&long)).unwrap();
        assert!(!texts.are_in(&TypeTag::JSON, state.as_bytes()));
        for sought in &texts.0 {
            let most = 4 * state.len() * sought.finders.len();
            assert!(sought.looked_through <= most, "{} bytes of {}", sought.looked_through, state.len());
        }
    }

    #[test]
    fn nothing_to_look_for_is_refused() {
        for (words, substring) in [(Some(""), None), (Some(" \n"), None), (None, Some("")), (Some("a"), Some(""))] {
            assert!(Texts::new(words, substring).is_err());
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_is_there(text in "[abAB é\"\\\\]{0,12}", sought in "[abAB é\"\\\\]{1,3}") {
            let state = serde_json::to_vec(&[&text]).unwrap();
            prop_assert_eq!(exactly(&sought, &TypeTag::JSON, &state), text.contains(&sought));
            if let Ok(mut texts) = Texts::new(Some(&sought), None) {
                let text = text.to_lowercase();
                let all = sought.to_lowercase().split_whitespace().all(|word| text.contains(word));
                prop_assert_eq!(texts.are_in(&TypeTag::JSON, &state), all);
            }
        }
    }
}
