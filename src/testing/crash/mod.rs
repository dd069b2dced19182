//! Crash images: what is done to a store is written down call by call, the disks that a crash could leave
//! at each point are built from that, and each is opened with the real code.
//!
//! `memory` is the file system that writes down, `disk` says what may be left, `choose` which of that is
//! looked at, `work` does things to a store and to a model of it, `check` opens a disk and holds it against
//! the model. `faults` has calls fail instead. `files` does all that to a place of files. A violation
//! panics with a line that plays it again.

mod check;
mod choose;
mod disk;
mod faults;
mod files;
mod memory;
mod work;

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use check::{Allowed, SAME_BOOT, check, check_copy};
use choose::Chance;
use disk::{Disk, Kept};
pub use faults::{Failed, faults};
pub use files::{Looked, files};
use memory::{Change, Image};
use work::{Done, STORE, Setup, Step, answered, begun};

/// How much is looked at.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Up to so many steps are done one after the other, in every order.
    pub steps: usize,
    /// Only one in so many of the sequences of two steps, unless they end in a sync, and of those of more, is looked
    /// at in each point.
    pub one_in: [usize; 2],
    /// Of each other sequence so many points of the last step, by chance; 0 leaves them out.
    pub points: usize,
    /// So many disks by chance in each step of a sequence of one, of two, and of more, beside those that are
    /// always looked at.
    pub by_chance: [usize; 3],
    /// Of one in so many disks the opening is a record of its own, at each point of which it crashes again.
    pub again_one_in: usize,
    /// What decides all that is left to chance.
    pub seed: u64,
    /// How many threads work.
    pub workers: usize,
    /// Only the sequence of this number, if any.
    pub only: Option<usize>,
}

/// What was looked at.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Sequences of steps.
    pub sequences: usize,
    /// Disks that were opened.
    pub images: usize,
    /// Those of them that differ from all others, by what was going on at the crash.
    pub distinct: BTreeMap<String, usize>,
    /// Violations, each with what plays it again; the first few.
    pub violations: Vec<String>,
}

/// After so many sequences it is told how far a look has come.
const TOLD_EVERY: usize = 500;

/// So many violations are told.
const VIOLATIONS_MAX: usize = 20;

/// Every sequence of up to so many steps, behind each setup; the shorter ones first, so that each has its number
/// whatever longer ones there are.
fn sequences(steps: usize) -> Vec<(Setup, Vec<Step>)> {
    let (mut runs, mut all) = (vec![Vec::new()], Vec::new());
    for _ in 0..steps {
        runs = runs.iter().flat_map(|run: &Vec<Step>| Step::ALL.map(|step| run.iter().copied().chain([step]).collect())).collect();
        for setup in Setup::ALL {
            let open = (setup == Setup::Nothing).then_some(Step::Open);
            all.extend(runs.iter().map(|run| (setup, open.into_iter().chain(run.iter().copied()).collect())));
        }
    }
    all
}

/// How far a look has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Sequences that were looked at.
    pub sequences: usize,
    /// Of so many.
    pub all: usize,
    /// Disks that were opened.
    pub disks: usize,
    /// Violations.
    pub violations: usize,
}

/// Looks at the disks that crashes leave; tells now and then how far it has come.
pub fn images(extent: &Extent, tell: &(dyn Fn(Progress) + Sync)) -> Counted {
    let sequences = sequences(extent.steps);
    let mut chance = Chance::new(extent.seed);
    let mut is_whole = |steps: &[Step]| {
        let count = steps.iter().filter(|step| **step != Step::Open).count();
        // A sync changes so little that half of the pairs that end in one would be too few.
        count < 2 || chance.below(extent.one_in[count.min(3) - 2]) == 0 || count == 2 && steps.last() == Some(&Step::Sync)
    };
    let points = |is_whole| if is_whole || extent.points == 0 { Points::All } else { Points::Last(extent.points) };
    let chosen = sequences.iter().enumerate().filter_map(|(number, (_, steps))| {
        let is_whole = is_whole(steps);
        let is_chosen = extent.only.map_or(is_whole || extent.points > 0, |only| only == number);
        is_chosen.then(|| (number, points(is_whole)))
    });
    let chosen: Vec<(usize, Points)> = chosen.collect();
    assert!(extent.only.is_none() || !chosen.is_empty(), "there is no sequence {:?} of up to {} steps", extent.only, extent.steps);
    let (next, all) = (AtomicUsize::new(0), Mutex::new(All::default()));
    std::thread::scope(|scope| {
        for _ in 0..extent.workers {
            scope.spawn(|| {
                while let Some(&(number, points)) = chosen.get(next.fetch_add(1, Relaxed)) {
                    let (setup, steps) = &sequences[number];
                    let mut look = Look { extent, number, chance: Chance::new(extent.seed ^ (number as u64) << 20), found: Vec::new() };
                    let violation = look.at(*setup, steps, points).err();
                    let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    all.take(look.found);
                    all.sequences += 1;
                    if all.violations.len() < VIOLATIONS_MAX {
                        all.violations.extend(violation);
                    }
                    if all.sequences.is_multiple_of(TOLD_EVERY) {
                        let (sequences, disks, violations) = (all.sequences, all.images, all.violations.len());
                        tell(Progress { sequences, all: chosen.len(), disks, violations });
                    }
                }
            });
        }
    });
    let All { images, distinct, violations, .. } = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let distinct = distinct.into_iter().map(|(during, images)| (during, images.len())).collect();
    Counted { sequences: chosen.len(), images, distinct, violations }
}

/// Does the steps that bytes stand for and looks at disks that a crash leaves at a point that they choose;
/// `true` if there were any steps.
pub fn crashes(data: &[u8]) -> bool {
    let [setup, at, chance, steps @ ..] = data else { return false };
    let setup = Setup::ALL[usize::from(*setup) % Setup::ALL.len()];
    let open = (setup == Setup::Nothing).then_some(Step::Open);
    let chosen = steps.iter().take(FUZZED_STEPS_MAX).map(|byte| Step::ALL[usize::from(*byte) % Step::ALL.len()]);
    let steps: Vec<Step> = open.into_iter().chain(chosen).collect();
    if steps.is_empty() {
        return false;
    }
    let extent = Extent {
        steps: 0,
        one_in: [1; 2],
        points: 0,
        by_chance: [100; 3],
        again_one_in: 16,
        seed: u64::from(*chance),
        workers: 1,
        only: None,
    };
    let mut look = Look { extent: &extent, number: 0, chance: Chance::new(extent.seed), found: Vec::new() };
    look.at(setup, &steps, Points::Of256(usize::from(*at))).unwrap_or_else(|what| panic!("{what}"));
    true
}

/// A run of steps that a fuzzer chooses is to end soon.
const FUZZED_STEPS_MAX: usize = 12;

#[derive(Default)]
struct All {
    sequences: usize,
    images: usize,
    distinct: BTreeMap<String, HashSet<u64>>,
    violations: Vec<String>,
}

impl All {
    fn take(&mut self, found: Vec<(String, u64)>) {
        self.images += found.len();
        for (during, image) in found {
            self.distinct.entry(during).or_default().insert(image);
        }
    }
}

/// Which points of a sequence are looked at.
#[derive(Clone, Copy)]
enum Points {
    All,
    /// Of each 256 the one of that number.
    Of256(usize),
    /// So many of the last step, by chance, and few disks at each.
    Last(usize),
}

/// The look at one sequence.
struct Look<'a> {
    extent: &'a Extent,
    number: usize,
    chance: Chance,
    /// What was going on at the crash, and what tells the disk from others.
    found: Vec<(String, u64)>,
}

impl Look<'_> {
    /// Does the steps and looks at what a crash would leave at points of them. Errors: the first violation.
    fn at(&mut self, setup: Setup, steps: &[Step], points: Points) -> Result<(), String> {
        let done = work::run(setup, steps);
        let in_last = done.points.last().copied().unwrap_or_default();
        let by_chance: Vec<usize> = match points {
            Points::Last(count) => (0..count).map(|_| done.changes.len() - 1 - self.chance.below(in_last)).collect(),
            _ => Vec::new(),
        };
        let is_looked_at = |at: usize| match points {
            Points::All => true,
            Points::Of256(number) => at % 256 == number,
            Points::Last(_) => by_chance.contains(&at),
        };
        let context = format!("{setup:?} {steps:?}, TAFFRAIL_CRASH_SEED={} TAFFRAIL_CRASH_ONLY={}", self.extent.seed, self.number);
        let mut disk = done.before.clone();
        // The step that is going on or was answered last, and whether it was answered.
        let (mut step, mut is_answered) = (0, true);
        let mut seen = HashSet::new();
        for (at, change) in done.changes.iter().enumerate() {
            disk.take(change).map_err(|what| format!("{context}, change {at}: {what}"))?;
            if let Change::Mark(mark) = change {
                is_answered = mark % 2 == 1;
                step = (mark / 2) as usize;
                debug_assert!(*mark == if is_answered { answered(step) } else { begun(step) });
            }
            if !is_looked_at(at) {
                continue;
            }
            let choices = match points {
                Points::Last(_) => vec![choose::all(&disk), choose::none(&disk), choose::by_chance(&disk, &mut self.chance)],
                _ => self.choices(&done, &disk, step),
            };
            self.point(&done, &disk, step, is_answered, choices, &mut seen)
                .map_err(|what| format!("{context}, change {at} ({change:?}): {what}"))?;
        }
        Ok(())
    }

    /// What is looked at where all points are.
    fn choices(&mut self, done: &Done, disk: &Disk, step: usize) -> Vec<Kept> {
        let mut choices = choose::always(disk);
        let steps = done.steps.iter().filter(|step| **step != Step::Open).count();
        let (in_step, points) = (self.extent.by_chance[steps.clamp(1, 3) - 1], done.points[step]);
        let by_chance = in_step / points + usize::from(self.chance.below(points) < in_step % points);
        choices.extend((0..by_chance).map(|_| choose::by_chance(disk, &mut self.chance)));
        choices
    }

    /// Looks at the disks that a crash would leave at one point.
    fn point(
        &mut self,
        done: &Done,
        disk: &Disk,
        step: usize,
        is_answered: bool,
        choices: Vec<Kept>,
        seen: &mut HashSet<u64>,
    ) -> Result<(), String> {
        let newest = if is_answered { step + 1 } else { step };
        let (upto, kept) = (step + 1, if newest == 0 { 0 } else { done.kept[newest - 1] });
        let during = done.steps[step].name();
        let allowed_from = |from: usize| Allowed {
            shown: &done.shown[from..=upto.min(done.shown.len() - 1)],
            nothing: done.steps[0] == Step::Open && from == 0,
        };
        // The first of all is what a killed process leaves: nothing is lost that any call has done.
        for (number, choice) in std::iter::once(choose::all(disk)).chain(choices).enumerate() {
            let is_killed = number == 0;
            let image = disk.image(&choice);
            let hash = hash_of(&image);
            let from = if is_killed { newest } else { kept };
            if !seen.insert(hash ^ (from as u64) << 48 ^ (upto as u64) << 56 ^ u64::from(is_killed)) {
                continue;
            }
            let allowed = allowed_from(from);
            let boot = if is_killed { SAME_BOOT } else { SAME_BOOT + 1 };
            let again = self.chance.below(self.extent.again_one_in) == 0;
            let what = |what: String| format!("{}, {choice:?}: {what}", if is_killed { "killed" } else { "power cut" });
            let opened = check(&image, boot, &allowed, again, hash.is_multiple_of(16)).map_err(what)?;
            self.found.push((during.clone(), hash));
            for (copy, made) in &done.copies {
                let is_made = newest > *made;
                if is_made || step == *made {
                    check_copy(&image, copy, &done.shown[*made], is_made).map_err(what)?;
                }
            }
            if again {
                // What a killed process wrote without a sync, the next one reads; a power cut takes it all the same.
                let left = if is_killed { disk.clone() } else { Disk::of(image.clone()) };
                self.again(&image, left, boot, [&allowed, &allowed_from(kept)], &opened, 2).map_err(what)?;
            }
        }
        Ok(())
    }

    /// Crashes in the opening of what was `left`, which read as `image`, at each point of it; `depth` times one in
    /// the other. `allowed`: what may be shown once it is killed, and once the power is cut.
    fn again(
        &mut self,
        image: &Image,
        left: Disk,
        boot: u8,
        allowed: [&Allowed<'_>; 2],
        opened: &check::Opened,
        depth: usize,
    ) -> Result<(), String> {
        let (mut disk, [killed, cut]) = (left, allowed);
        let points = opened.changes.len();
        for (at, change) in opened.changes.iter().enumerate() {
            disk.take(change).map_err(|what| format!("in the opening, change {at}: {what}"))?;
            if points > 12 && self.chance.below(points / 12 + 1) > 0 {
                continue;
            }
            let all = choose::all(&disk);
            // The process is killed; the power is cut, with all of it on the disk, or some.
            let by_chance = choose::by_chance(&disk, &mut self.chance);
            for (boot, choice, allowed) in [(boot, all.clone(), killed), (boot + 1, all, killed), (boot + 1, by_chance, cut)] {
                let next = disk.image(&choice);
                let what = |what: String| format!("then in the opening, change {at} ({change:?}), {choice:?}: {what}");
                let deeper = depth > 1 && self.chance.below(8) == 0;
                let once_more = check(&next, boot, allowed, deeper, false).map_err(what)?;
                self.found.push(("Recovery".to_owned(), hash_of(&next)));
                if deeper {
                    self.again(&next, Disk::of(next.clone()), boot, [allowed; 2], &once_more, depth - 1).map_err(what)?;
                }
            }
        }
        // What an opening has shown is kept.
        let shown = [opened.contents.clone()];
        let is_there = image.names.contains_key(&std::path::Path::new(STORE).join("MANIFEST"));
        if is_there {
            for choice in [choose::none(&disk), choose::by_chance(&disk, &mut self.chance)] {
                let next = disk.image(&choice);
                let once_more = Allowed { shown: &shown, nothing: false };
                check(&next, boot + 1, &once_more, false, false).map_err(|what| format!("behind the opening, {choice:?}: {what}"))?;
            }
        }
        Ok(())
    }
}

fn hash_of(image: &Image) -> u64 {
    let mut hasher = DefaultHasher::new();
    image.names.hash(&mut hasher);
    for (file, bytes) in &image.files {
        file.hash(&mut hasher);
        if let Some(bytes) = bytes {
            crate::delta::content_hash(bytes).hash(&mut hasher);
        }
    }
    hasher.finish()
}
