//! Texts that pack like the prose and code in a real conversation, made from dice and a vocabulary.
//!
//! Words come by Zipf's law, lines of code by a few templates whose names recur within one text, as
//! names do within one file. A text is already escaped as it stands in JSON.

/// Chance that is the same in every run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Evenly from `0..end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True so many times of a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// From `0..2^bits - 1` by Zipf's law: each doubling of the rank is as likely as the next.
    pub fn rank(&mut self, bits: usize) -> usize {
        let octave = 1 << self.below(bits);
        octave + self.below(octave) - 1
    }

    /// Evenly on a logarithmic scale.
    pub fn size(&mut self, least: usize, most: usize) -> usize {
        let share = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (least as f64 * (most as f64 / least as f64).powf(share)) as usize
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }

    /// So many random characters out of an alphabet.
    pub fn letters(&mut self, alphabet: &str, count: usize) -> String {
        let alphabet = alphabet.as_bytes();
        (0..count).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

pub const HEX: &str = "0123456789abcdef";
pub const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const VOCABULARY_BITS: usize = 12;
const NAMES: usize = 14;
const SYLLABLES: [&str; 40] = [
    "the", "in", "re", "con", "ta", "er", "st", "pro", "le", "me", "no", "de", "or", "al", "at", "is", "on", "par", "ver", "set", "get",
    "ty", "ion", "ment", "ing", "ex", "com", "un", "si", "ca", "lo", "ra", "fi", "mu", "ke", "bo", "pa", "di", "vi", "ul",
];
/// `_` is a word; the likelier stand first.
const LINES: [&str; 24] = [
    r"        self._ = _\n",
    r"        return self._(_)\n",
    r"        if _ is not None:\n",
    r"            _ = self._._\n",
    r"        _ = _._(_, _)\n",
    r#"            raise ValueError(f\"_ _ _: {_!r}\")\n"#,
    r"    def _(self, _, _=None):\n",
    r#"        \"\"\"_ _ the _ of _ _.\"\"\"\n\n"#,
    r"        for _, _ in _._():\n",
    r"            _.append(_[_])\n",
    r"        else:\n",
    r#"            \"_\": self._,\n"#,
    r"        try:\n            _ = _(_)\n        except _:\n            return None\n\n",
    r"        # _ _ is _ by the _, so _ _ _ here\n",
    r"        assert isinstance(_, _), _\n",
    r#"        if _ == \"_\" and not _._:\n"#,
    r"from _._ import _, _\n",
    r"            with _(_) as _:\n",
    r"        yield from _\n",
    r"@_._\n",
    r"class _(_):\n",
    r#"        logger.debug(\"_ _ %s\", _)\n"#,
    r"        _: dict[str, _] = {}\n",
    r"            continue\n\n",
];

/// A vocabulary to make texts from.
pub struct Tongue {
    words: Vec<String>,
}

impl Tongue {
    pub fn new() -> Self {
        let mut dice = Dice::new(1);
        let words = (1..1_usize << VOCABULARY_BITS).map(|rank| {
            let syllables = 1 + (rank.ilog2() as usize + 1) / 4 + dice.below(2);
            (0..syllables).map(|_| SYLLABLES[dice.below(SYLLABLES.len())]).collect()
        });
        Tongue { words: words.collect() }
    }

    fn word(&self, dice: &mut Dice) -> &str {
        &self.words[dice.rank(VOCABULARY_BITS)]
    }

    /// Sentences of about so many bytes, which come back to a few words.
    pub fn prose(&self, dice: &mut Dice, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 200);
        let topics: Vec<&str> = (0..NAMES).map(|_| self.words[dice.below(self.words.len())].as_str()).collect();
        while text.len() < bytes {
            for at in 0..6 + dice.below(12) {
                text.push_str(if at > 0 { " " } else { "" });
                text.push_str(if dice.percent(30) { topics[dice.rank(4).min(NAMES - 1)] } else { self.word(dice) });
            }
            text.push_str(if dice.percent(20) { r".\n\n" } else { ". " });
        }
        text
    }

    /// Lines of code of about so many bytes, in which a handful of names recur.
    pub fn code(&self, dice: &mut Dice, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 200);
        let names: Vec<String> = (0..NAMES)
            .map(|_| {
                let (first, second) = (self.word(dice), &self.words[dice.below(self.words.len())]);
                if dice.percent(60) { format!("{first}_{second}") } else { second.clone() }
            })
            .collect();
        while text.len() < bytes {
            let line = LINES[dice.rank(5).min(LINES.len() - 1)];
            let mut parts = line.split('_');
            text.push_str(parts.next().unwrap_or_default());
            for part in parts {
                text.push_str(if dice.percent(74) { &names[dice.rank(4).min(NAMES - 1)] } else { self.word(dice) });
                text.push_str(part);
            }
        }
        text
    }
}
