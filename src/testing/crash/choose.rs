//! Which of the many disks that a crash can leave are looked at: some always, the rest by chance.

use super::disk::{Disk, Kept, Part, SECTOR};
use crate::testing::states::noise;

/// Numbers that follow from a seed.
pub(super) struct Chance(u64);

impl Chance {
    /// A beginning.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        let bytes = noise(self.0, 8);
        let number = u64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
        (number % bound.max(1) as u64) as usize
    }
}

/// What could be on a disk: all that is not synced.
pub(super) fn all(disk: &Disk) -> Kept {
    Kept { names: vec![true; disk.unsynced_names()], data: vec![Part::All; disk.unsynced_data().len()] }
}

/// What is certain alone.
pub(super) fn none(disk: &Disk) -> Kept {
    Kept { names: vec![false; disk.unsynced_names()], data: vec![Part::None; disk.unsynced_data().len()] }
}

/// Disks that are always looked at: with all, with nothing, with one thing more or less.
pub(super) fn always(disk: &Disk) -> Vec<Kept> {
    let (all, data) = (all(disk), disk.unsynced_data());
    let none = none(disk);
    let no_page = |kept: &Kept| {
        let parts = kept.data.iter().zip(&data).map(|(part, (_, is_page))| if *is_page { Part::None } else { *part });
        Kept { data: parts.collect(), ..kept.clone() }
    };
    let mut choices = vec![
        all.clone(),
        none.clone(),
        no_page(&all),
        Kept { names: none.names.clone(), ..all.clone() },
        Kept { data: none.data.clone(), ..all.clone() },
    ];
    // The last change alone is there, or not.
    let last = data.iter().rposition(|(_, is_page)| !is_page);
    if let Some(last) = last {
        for (base, part) in [(&all, Part::None), (&none, Part::All), (&all, Part::Zeros)] {
            let mut kept = no_page(base);
            kept.data[last] = part;
            choices.push(kept);
        }
    }
    if let Some(last) = all.names.len().checked_sub(1) {
        let mut kept = all.clone();
        kept.names[last] = false;
        choices.push(kept);
        let mut kept = none;
        kept.names[last] = true;
        choices.push(kept);
    }
    choices
}

/// One disk by chance.
pub(super) fn by_chance(disk: &Disk, chance: &mut Chance) -> Kept {
    let (mut kept, data) = (all(disk), disk.unsynced_data());
    // The page is as it was once, or a mixture.
    let pages: Vec<usize> = (0..data.len()).filter(|&at| data[at].1).collect();
    let upto = chance.below(pages.len() + 1);
    pages[upto..].iter().for_each(|&at| kept.data[at] = Part::None);
    if upto > 1 && chance.below(2) == 0 {
        // All that means something stands in the first of its sectors.
        let [older, at] = [chance.below(upto), chance.below(SECTOR)];
        pages[older..upto].iter().for_each(|&at| kept.data[at] = Part::None);
        kept.data[pages[upto - 1]] = if chance.below(2) == 0 { Part::First(at) } else { Part::Last(at) };
    }
    let writes: Vec<usize> = (0..data.len()).filter(|&at| !data[at].1).collect();
    match chance.below(8) {
        // The last write is torn.
        0..=3 => {
            if let Some(&last) = writes.last() {
                kept.data[last] = torn(data[last].0, chance);
            }
        }
        // One of them is missing, or torn.
        4 => {
            if !writes.is_empty() {
                let at = writes[chance.below(writes.len())];
                kept.data[at] = if chance.below(2) == 0 { Part::None } else { torn(data[at].0, chance) };
            }
        }
        // The first of them are there.
        5 => {
            let upto = chance.below(writes.len() + 1);
            writes[upto..].iter().for_each(|&at| kept.data[at] = Part::None);
        }
        // Of one file nothing is there, or all of one alone.
        6 => {
            let files = disk.unsynced_files();
            if !writes.is_empty() {
                let file = files[writes[chance.below(writes.len())]];
                let alone = chance.below(2) == 0;
                writes.iter().filter(|&&at| (files[at] == file) != alone).for_each(|&at| kept.data[at] = Part::None);
            }
        }
        _ => {
            for &at in &writes {
                kept.data[at] = match chance.below(4) {
                    0 => Part::None,
                    1 => torn(data[at].0, chance),
                    _ => Part::All,
                };
            }
        }
    }
    let names = kept.names.len();
    match chance.below(4) {
        0 => {}
        1 => (chance.below(names + 1)..names).for_each(|at| kept.names[at] = false),
        2 if names > 0 => kept.names[chance.below(names)] = false,
        _ => kept.names.iter_mut().for_each(|name| *name = chance.below(4) > 0),
    }
    kept
}

/// A write of which only a part is there.
fn torn(length: usize, chance: &mut Chance) -> Part {
    // Where records are, and not only in the zeros behind them.
    let near = length.min([length, 700, 100][chance.below(3)]);
    let at = match chance.below(2) {
        0 => chance.below(near + 1),
        _ => SECTOR * chance.below(near / SECTOR + 1),
    };
    match chance.below(6) {
        0..=2 => Part::First(at),
        3 => Part::Last(at),
        4 => Part::Garbage(at, chance.below(256) as u8),
        _ => Part::Without(at / SECTOR * SECTOR),
    }
}
