//! File names: every one is built and read here, and none is made from a thread id.

/// The manifest.
pub(crate) const MANIFEST: &str = "MANIFEST";
/// The next manifest while it is written.
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// The shared page.
pub(crate) const TAIL: &str = "tail";
/// Where files go that recovery could not believe.
pub(crate) const QUARANTINE: &str = "quarantine";
/// The lock of those who open the store.
pub(crate) const OPEN_LOCK: &str = "open.lock";
/// The lock that is the turn.
pub(crate) const WRITE_LOCK: &str = "write.lock";
/// The lock of who syncs for all.
pub(crate) const SYNC_LOCK: &str = "sync.lock";
/// The lock of who compacts.
pub(crate) const COMPACT_LOCK: &str = "compact.lock";
/// The lock files that processes sharing the directory use.
const LOCKS: [&str; 4] = [OPEN_LOCK, WRITE_LOCK, SYNC_LOCK, COMPACT_LOCK];

/// What a file name of ours means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The manifest.
    Manifest,
    /// A manifest that was not installed.
    ManifestNew,
    /// A segment.
    Segment(u64),
    /// A segment that held frames before it was listed: real only if the manifest lists it.
    SegmentNew(u64),
    /// What a segment holds, for the next opener; disposable.
    Hint(u64),
    /// A hint while it is written.
    HintNew(u64),
    /// The shared page.
    Tail,
    /// A lock file.
    Lock,
    /// The quarantine folder.
    Quarantine,
}

impl Name {
    /// Reads a file name; `None` if it is not of our naming.
    pub fn parse(name: &str) -> Option<Name> {
        match name {
            MANIFEST => return Some(Name::Manifest),
            MANIFEST_NEW => return Some(Name::ManifestNew),
            TAIL => return Some(Name::Tail),
            QUARANTINE => return Some(Name::Quarantine),
            _ if LOCKS.contains(&name) => return Some(Name::Lock),
            _ => {}
        }
        let (digits, kind) = name.split_once('.')?;
        let lower_hex = digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = lower_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()?;
        match kind {
            "seg" => Some(Name::Segment(number)),
            "seg.new" => Some(Name::SegmentNew(number)),
            "hint" => Some(Name::Hint(number)),
            "hint.new" => Some(Name::HintNew(number)),
            _ => None,
        }
    }
}

/// The file name of a segment.
pub(crate) fn segment(number: u64) -> String {
    format!("{number:016x}.seg")
}

/// The file name of a segment that holds frames and is not listed yet.
pub(crate) fn segment_new(number: u64) -> String {
    format!("{number:016x}.seg.new")
}

/// The name in quarantine of the end of a segment, from an offset on.
pub(crate) fn end_of_segment(number: u64, from: u64) -> String {
    format!("{}.from-{from}", segment(number))
}

/// Reads a name in quarantine: the segment's number, and for the end of one the offset that it begins
/// at. Where a name was taken, a number follows it.
pub(crate) fn set_aside(name: &str) -> Option<(u64, Option<u64>)> {
    let (digits, rest) = name.split_at_checked(16)?;
    let Some(Name::Segment(number)) = Name::parse(&format!("{digits}.seg")) else { return None };
    let rest = rest.strip_prefix(".seg")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ends_there = |rest: &str| rest.is_empty() || rest.strip_prefix('.').is_some_and(is_number);
    let Some(end) = rest.strip_prefix(".from-") else { return ends_there(rest).then_some((number, None)) };
    let (from, rest) = end.split_at(end.find('.').unwrap_or(end.len()));
    let from = from.parse().ok().filter(|_| is_number(from) && ends_there(rest))?;
    Some((number, Some(from)))
}

/// The file name of a segment's hint.
pub(crate) fn hint(number: u64) -> String {
    format!("{number:016x}.hint")
}

/// The file name of a segment's hint while it is written.
pub(crate) fn hint_new(number: u64) -> String {
    format!("{number:016x}.hint.new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_aside_is_told_by_its_name() {
        assert_eq!(set_aside(&segment(3)), Some((3, None)));
        assert_eq!(set_aside(&format!("{}.12", segment(3))), Some((3, None)));
        assert_eq!(set_aside(&end_of_segment(3, 72)), Some((3, Some(72))));
        assert_eq!(set_aside(&format!("{}.1", end_of_segment(3, 0))), Some((3, Some(0))));
        for tail in [".seg.", ".seg.x", ".seg.new", ".seg.from-", ".seg.from-x", ".seg.from-1.", ".seg.from-1.x", ".seg1", ".hint", ""] {
            assert_eq!(set_aside(&format!("{:016x}{tail}", 3)), None, "{tail}");
        }
        assert_eq!(set_aside("é.seg"), None);
    }

    #[test]
    fn names_are_read_as_they_are_built() {
        assert_eq!(Name::parse(&segment(0x1f)), Some(Name::Segment(0x1f)));
        assert_eq!(Name::parse(&segment_new(u64::MAX)), Some(Name::SegmentNew(u64::MAX)));
        assert_eq!(Name::parse(&hint(0x1f)), Some(Name::Hint(0x1f)));
        assert_eq!(Name::parse(&hint_new(0x1f)), Some(Name::HintNew(0x1f)));
        for other in [
            "",
            "notes.txt",
            "1.seg",
            "000000000000001F.seg",
            "0000000000000001",
            "0000000000000001.seg.old",
            "manifest",
            "+000000000000001.seg",
        ] {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_there_once_is_known_by_its_name() {
        let once = [(MANIFEST, Name::Manifest), (MANIFEST_NEW, Name::ManifestNew), (TAIL, Name::Tail), (QUARANTINE, Name::Quarantine)];
        for (name, meant) in once.into_iter().chain(LOCKS.map(|name| (name, Name::Lock))) {
            assert_eq!(Name::parse(name), Some(meant));
            assert_eq!(Name::parse(&format!("{name}.")), None);
        }
    }
}
