//! Standard output: ids and times as text, and the JSON Lines that `history`, `threads` and
//! `export` share.
//!
//! What is printed is buffered and has to be finished by [`Output::finish`], so that a full disk
//! behind a redirect is an error. A name is never passed to a terminal raw: it may hold escapes.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::time::SystemTime;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use taffrail::{CheckpointId, CheckpointInfo, TypeTag};

/// Buffered standard output.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
    /// Whether a person reads it.
    pub terminal: bool,
}

impl Output {
    /// Takes standard output.
    pub fn new() -> Self {
        let stdout = io::stdout().lock();
        let terminal = stdout.is_terminal();
        Output { out: BufWriter::with_capacity(64 * 1024, stdout), terminal }
    }

    /// Writes out what is buffered.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a thread id: raw for programs, quoted for a terminal or where it holds a line break.
    pub fn write_thread(&mut self, thread: &str) -> io::Result<()> {
        if self.terminal || thread.contains('\n') { self.write_all(quoted(thread).as_bytes()) } else { self.write_all(thread.as_bytes()) }
    }

    /// Writes a checkpoint id: raw, unless it could be taken for more than one word.
    pub fn write_id(&mut self, id: &CheckpointId) -> io::Result<()> {
        let id = id.as_str();
        let plain = !id.starts_with('"') && !id.chars().any(|character| character.is_whitespace() || character.is_control());
        if plain { self.write_all(id.as_bytes()) } else { self.write_all(quoted(id).as_bytes()) }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The text as a JSON string without any control character in it.
pub fn quoted(text: &str) -> String {
    escape_controls(&serde_json::Value::from(text).to_string())
}

/// JSON text with the control characters in its strings (DEL, C1) escaped.
pub fn escape_controls(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut escaped, character| {
        if character.is_control() {
            escaped += &format!("\\u{:04x}", u32::from(character))
        } else {
            escaped.push(character)
        }
        escaped
    })
}

/// The text with its control characters escaped, so that it stays on its line.
pub fn one_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut line, character| {
        if character.is_control() {
            line.extend(character.escape_default())
        } else {
            line.push(character)
        }
        line
    })
}

/// Says something on standard error, where nobody can be told if that fails.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", one_line(text));
}

/// Metadata, or any JSON text, for a line of JSON: a line break stands only between its tokens, where a blank
/// means the same.
pub fn metadata_line(metadata: &str) -> String {
    metadata.replace(['\n', '\r'], " ")
}

/// Metadata for a person: on one line, without tabs or control characters.
pub fn metadata_text(metadata: &str) -> String {
    escape_controls(&metadata_line(metadata).replace('\t', " "))
}

/// A time as RFC 3339 in UTC, to the nanosecond where it has any.
pub fn rfc3339(time: SystemTime) -> io::Result<String> {
    Timestamp::try_from(time).map(|time| time.to_string()).map_err(io::Error::other)
}

/// Writes a JSON string.
pub fn write_string(out: &mut impl Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}

/// Begins the JSON object of a checkpoint, without its state and without the closing brace.
pub fn write_info(out: &mut impl Write, info: &CheckpointInfo) -> io::Result<()> {
    out.write_all(b"{\"thread\":")?;
    write_string(out, &info.thread)?;
    out.write_all(b",\"id\":")?;
    write_string(out, info.id.as_str())?;
    write!(out, ",\"seq\":{},\"parent\":", info.seq)?;
    match &info.parent {
        Some(parent) => write_string(out, parent.as_str())?,
        None => out.write_all(b"null")?,
    }
    write!(out, ",\"saved_at\":\"{}\",\"metadata\":{},\"type\":", rfc3339(info.saved_at)?, metadata_line(info.metadata.as_str()))?;
    write_string(out, info.tag.as_str())
}

/// Goes on with a state or value: JSON as it is if it can stand in a line as it is, else as a
/// string; all else in base64.
pub fn write_value(out: &mut impl Write, tag: &TypeTag, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) if *tag == TypeTag::JSON && stands_in_a_line(text) => {
            out.write_all(b",\"state\":")?;
            out.write_all(bytes)
        }
        Ok(text) if *tag == TypeTag::JSON => {
            out.write_all(b",\"text\":")?;
            write_string(out, text)
        }
        _ => write!(out, ",\"data\":\"{}\"", Base64Display::new(bytes, &STANDARD)),
    }
}

fn stands_in_a_line(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    let bytes = text.as_bytes();
    !outer(bytes.first()) && !outer(bytes.last()) && !bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(tag: TypeTag, bytes: &[u8]) -> String {
        let mut out = Vec::new();
        write_value(&mut out, &tag, bytes).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_state_takes_the_form_that_keeps_its_bytes() {
        assert_eq!(value(TypeTag::JSON, b"{\"b\":1.0,\t\"a\":2}"), ",\"state\":{\"b\":1.0,\t\"a\":2}");
        assert_eq!(value(TypeTag::JSON, b"[1,\n2]"), ",\"text\":\"[1,\\n2]\"");
        assert_eq!(value(TypeTag::JSON, b" 1"), ",\"text\":\" 1\"");
        assert_eq!(value(TypeTag::JSON, b"1\r"), ",\"text\":\"1\\r\"");
        assert_eq!(value(TypeTag::BYTES, b"1\xff"), ",\"data\":\"Mf8=\"");
    }

    #[test]
    fn names_cannot_speak_to_a_terminal() {
        assert_eq!(quoted("a\x1b[31m\u{9b}\u{7f}é\n"), r#""a\u001b[31m\u009b\u007fé\n""#);
        assert_eq!(one_line("a\nb\u{1b}"), r"a\nb\u{1b}");
        assert_eq!(metadata_line("{\r\n\t\"a\":\"\\n\"}"), "{  \t\"a\":\"\\n\"}");
        assert_eq!(metadata_text("{\n\t\"a\":\"\u{7f}\"}"), "{  \"a\":\"\\u007f\"}");
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH).unwrap(), "1970-01-01T00:00:00Z");
        let late = SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_700_000_000_123_456_789);
        assert_eq!(rfc3339(late).unwrap(), "2023-11-14T22:13:20.123456789Z");
    }
}
