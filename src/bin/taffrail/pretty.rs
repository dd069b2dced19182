//! Indents JSON text without reading it: white space between tokens changes, and nothing else.
//!
//! The text was checked when it was put, so this only has to tell strings from the rest. Digits,
//! escapes, key order and duplicate keys come out as they went in; no value is ever made.

use std::io::{self, Write};

const INDENT: &[u8] = b"  ";

/// Writes checked JSON `text` indented by two blanks a level, and a line break at the end.
pub fn write_indented(text: &[u8], out: &mut impl Write) -> io::Result<()> {
    let mut depth = 0;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let start = at;
        at += 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' => {
                at = string_end(text, at);
                out.write_all(&text[start..at])?;
            }
            b'[' | b'{' => {
                out.write_all(&[byte])?;
                let next = at + text[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                if let Some(&close @ (b']' | b'}')) = text.get(next) {
                    out.write_all(&[close])?;
                    at = next + 1;
                } else {
                    depth += 1;
                    break_line(depth, out)?;
                }
            }
            b']' | b'}' => {
                depth = usize::saturating_sub(depth, 1);
                break_line(depth, out)?;
                out.write_all(&[byte])?;
            }
            b',' => {
                out.write_all(b",")?;
                break_line(depth, out)?;
            }
            b':' => out.write_all(b": ")?,
            _ => out.write_all(&[byte])?,
        }
    }
    out.write_all(b"\n")
}

fn break_line(depth: usize, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"\n")?;
    (0..depth).try_for_each(|_| out.write_all(INDENT))
}

/// Behind the closing quote of the string whose opening quote is just before `at`.
fn string_end(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::write_indented;

    fn indented(text: &str) -> String {
        let mut out = Vec::new();
        write_indented(text.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn structure_is_shown_and_tokens_stay() {
        let text = "{\"z\":1.0,\"a\" : [ 1e400,-0.0 ,{\"a\":\"x\"}],\"z\":12345678901234567890}";
        let right = "{\n  \"z\": 1.0,\n  \"a\": [\n    1e400,\n    -0.0,\n    {\n      \"a\": \"x\"\n    }\n  ],\n  \"z\": 12345678901234567890\n}\n";
        assert_eq!(indented(text), right);
        assert_eq!(indented(&indented(text)), right);
    }

    #[test]
    fn strings_are_copied_whole() {
        let text = r#"["a, b: {c} [d]","\"\\","\ud83d","é","\u0000"]"#;
        let right = "[\n  \"a, b: {c} [d]\",\n  \"\\\"\\\\\",\n  \"\\ud83d\",\n  \"é\",\n  \"\\u0000\"\n]\n";
        assert_eq!(indented(text), right);
    }

    #[test]
    fn empty_and_bare_values_stay_on_one_line() {
        assert_eq!(indented("{ \n}"), "{}\n");
        assert_eq!(indented("[[ ],{}]"), "[\n  [],\n  {}\n]\n");
        assert_eq!(indented(" true\n"), "true\n");
        assert_eq!(indented("\"\""), "\"\"\n");
    }
}
