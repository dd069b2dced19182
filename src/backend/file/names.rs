//! The names of the files: what a person needs to find one, on any disk, and never a path. Pure.
//!
//! `THREAD@PLACE@ID.json` is a checkpoint, `THREAD@PLACE.NUMBER@ID.json` one whose id was put again,
//! `THREAD@NUMBER@ID@KEY.json` an attachment. Numbers are never given twice, so no two names are the
//! same, whatever is cut off a long id. Lower case alone, ASCII alone, at most 255 bytes.

use crate::delta::content_hash;

/// Which batch was the last, and the settings.
pub(super) const MANIFEST: &str = "MANIFEST.json";
/// What a file has at the end of its name until it counts.
pub(super) const WORKING: &str = ".new";
/// And what it has when it does not count any more, and somebody still reads it.
pub(super) const GONE: &str = ".gone";

const THREAD_BYTES: usize = 90;
const ID_BYTES: usize = 60;
const KEY_BYTES: usize = 40;

/// The name of a checkpoint's file; `number` is its seq unless its id was put again.
pub(super) fn checkpoint(thread: &str, seq: u64, number: u64, id: &str) -> String {
    let place = if number == seq { format!("{seq:012}") } else { format!("{seq:012}.{number:012}") };
    format!("{}@{place}@{}.json", part(thread, THREAD_BYTES), part(id, ID_BYTES))
}

/// The name of an attachment's file.
pub(super) fn attachment(thread: &str, number: u64, id: &str, key: &str) -> String {
    format!("{}@{number:012}@{}@{}.json", part(thread, THREAD_BYTES), part(id, ID_BYTES), part(key, KEY_BYTES))
}

/// Whether a file of that name can be one of ours; all else is left alone.
pub(super) fn is_ours(name: &str) -> bool {
    let Some(name) = name.strip_suffix(".json") else { return false };
    let parts: Vec<&str> = name.split('@').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_part = |text: &&str| !text.is_empty() && text.bytes().all(|byte| is_plain(byte) || matches!(byte, b'%' | b'~' | b'-'));
    let [thread, place, ids @ ..] = parts.as_slice() else { return false };
    (1..=2).contains(&ids.len()) && is_part(thread) && place.split('.').all(is_number) && ids.iter().all(is_part)
}

/// A text as a part of a name: letters that have no case, digits, `_` and `-` as they are, all other bytes
/// as `%` and two hex digits. Of one that is too long the beginning, and a hash of the whole.
fn part(text: &str, bytes_max: usize) -> String {
    let encoded = |(at, byte): (usize, u8)| match byte {
        // At the beginning it would make a file look like an option.
        b'-' if at > 0 => "-".to_owned(),
        byte if is_plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    let mut part = String::new();
    let hash_bytes = 17;
    let mut cut = 0;
    for piece in text.bytes().enumerate().map(encoded) {
        if part.len() + piece.len() > bytes_max {
            part.truncate(cut);
            return format!("{part}~{:016x}", content_hash(text.as_bytes()));
        }
        part += &piece;
        if part.len() + hash_bytes <= bytes_max {
            cut = part.len();
        }
    }
    part
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_a_person_what_it_is() {
        assert_eq!(checkpoint("trip-7", 12, 12, "step_1"), "trip-7@000000000012@step_1.json");
        assert_eq!(checkpoint("trip", 12, 40, "a"), "trip@000000000012.000000000040@a.json");
        assert_eq!(attachment("trip", 13, "a", "Paid?"), "trip@000000000013@a@%50aid%3f.json");
        assert_eq!(checkpoint("../é", 1, 1, "-rf"), "%2e%2e%2f%c3%a9@000000000001@%2drf.json");
    }

    #[test]
    fn every_name_fits_and_leads_nowhere() {
        let long = ["x".repeat(4096), "X".repeat(4096), "👩".repeat(1024), "/".repeat(4096), "..".repeat(2048)];
        let odd = ["..", ".", "CON", "nul.txt", "x.", "x ", "a\0b", "a\nb", "/", "~", "@", "a@b", "%", "-", "é", "\\", "C:\\x"];
        for text in long.iter().map(String::as_str).chain(odd) {
            let id = &text[..text.floor_char_boundary(255)];
            for name in [checkpoint(text, 1, u64::MAX, id), checkpoint(text, u64::MAX, u64::MAX, id), attachment(text, 1, id, id)] {
                assert!(name.len() + GONE.len() <= 255, "{name}");
                assert!(is_ours(&name), "{name}");
                assert!(!name.contains(['/', '\0', '\\', ':']) && !name.starts_with(['.', '-']) && name == name.to_lowercase(), "{name}");
            }
        }
    }

    #[test]
    fn texts_that_differ_have_names_that_differ() {
        let long = "x".repeat(4095);
        let texts = ["a", "A", "%41", "a ", "é", "e\u{301}", "x.", "x", "~", &(long.clone() + "y"), &(long.clone() + "z"), &long];
        let names: std::collections::HashSet<String> = texts.iter().map(|text| checkpoint(text, 1, 1, "c").to_lowercase()).collect();
        assert_eq!(names.len(), texts.len());
        assert_eq!(part(&"ab".repeat(45), 90).len(), 90);
        assert_eq!(part(&"ab".repeat(46), 90), format!("{}~{:016x}", "ab".repeat(36) + "a", content_hash("ab".repeat(46).as_bytes())));
    }

    #[test]
    fn what_others_leave_in_the_folder_is_not_ours() {
        for name in [
            "",
            ".json",
            "notes.json",
            "MANIFEST.json",
            "a@1@b.json~",
            ".a@1@b.json.swp",
            "a@1@b.json.new",
            "a@x@b.json",
            "a@1@.json",
            "a@1.@b.json",
            "A@1@b.json",
            "../a@1@b.json",
            "a@1@b@c@d.json",
            "@1@b.json",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
