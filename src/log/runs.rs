//! Which run of sealed segments a compaction takes next: what gives back most for what it costs.
//!
//! Pure: sizes in, a range out.

use std::ops::Range;

/// A sealed segment as a compaction sees it; they stand in the log's order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// The position of its byte 0.
    pub at: u64,
    /// The bytes of its frames.
    pub used: u64,
    /// Those of frames that are needed: shown, or what a delta that is shown is made of.
    pub live: u64,
    /// Whether its file is.
    pub is_there: bool,
    /// Those of keyframes that may be packed: their threads have gone on to newer ones.
    pub packable: u64,
    /// Whether bytes stand behind its frames that are in another segment by now.
    pub has_remains: bool,
    /// Whether it was looked at and left as it is, or has just been written.
    pub settled: bool,
}

/// What a step is to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// What is wholly dead, and costs no copy.
    Dead,
    /// What gives back most for what it costs, if that is worth it.
    Best,
    /// The first between two positions where there is anything to give back.
    Next(u64, u64),
}

/// A segment is worth a copy by itself when so much of it is dead: one part in this.
const WORTH_DEAD: u64 = 4;
/// A segment is small below one part in this of the usual size.
const SMALL: u64 = 8;
/// At most so many are dropped at once.
const DEAD_MAX: usize = 64;
/// So many small neighbours are merged unasked: fewer would be copied over and over.
const SMALL_MIN: usize = 8;

impl Candidate {
    /// Whether it may be in a run that nobody asked for.
    fn is_open(&self) -> bool {
        self.is_there && !self.settled
    }

    fn dead(&self) -> u64 {
        self.used.saturating_sub(self.live)
    }

    fn gains(&self) -> bool {
        self.dead() > 0 || self.packable > 0 || self.used == 0
    }

    fn is_small(&self, usual: u64) -> bool {
        self.used < usual / SMALL
    }
}

/// How much may be dead in sealed segments before it is reclaimed unasked.
pub(crate) fn dead_max(live: u64, usual: u64) -> u64 {
    live.max(usual) / 4 * 3
}

/// Whether there are small neighbours enough to be merged unasked; `used` in the log's order.
pub(crate) fn are_many_small(used: impl Iterator<Item = u64>, usual: u64) -> bool {
    let mut row = 0;
    used.map(|used| {
        row = if used < usual / SMALL { row + 1 } else { 0 };
        row
    })
    .any(|row| row >= SMALL_MIN)
}

/// The run to take next, in segments of usually `usual` bytes; what is kept of it fits into one.
pub(crate) fn choose(candidates: &[Candidate], wanted: Wanted, usual: u64) -> Option<Range<usize>> {
    match wanted {
        Wanted::Dead => dead_wholly(candidates),
        Wanted::Best => dead_wholly(candidates).or_else(|| dead_most(candidates, usual)).or_else(|| small(candidates, usual)),
        Wanted::Next(from, upto) => next(candidates, from, upto, usual),
    }
}

/// What is wholly dead costs nothing.
fn dead_wholly(candidates: &[Candidate]) -> Option<Range<usize>> {
    let is_dead = |candidate: &Candidate| candidate.live == 0 && candidate.is_open();
    let start = candidates.iter().position(is_dead)?;
    let length = candidates[start..].iter().take_while(|candidate| is_dead(candidate)).count();
    Some(start..start + length.min(DEAD_MAX))
}

fn dead_most(candidates: &[Candidate], usual: u64) -> Option<Range<usize>> {
    let share = |candidate: &Candidate| candidate.dead() as f64 / candidate.used.max(1) as f64;
    let worth = candidates.iter().enumerate().filter(|(_, it)| it.is_open() && it.dead() >= it.used / WORTH_DEAD && it.dead() > 0);
    let (start, most) = worth.max_by(|(_, a), (_, b)| share(a).total_cmp(&share(b)))?;
    let fits = |candidate: &Candidate| candidate.is_open() && (share(candidate) >= share(most) / 2.0 || candidate.is_small(usual));
    Some(extended(candidates, start..start + 1, usual, fits))
}

fn small(candidates: &[Candidate], usual: u64) -> Option<Range<usize>> {
    let is_small = |candidate: &Candidate| candidate.is_small(usual) && candidate.is_open();
    let runs = candidates.chunk_by(|a, b| is_small(a) && is_small(b));
    let mut start = 0;
    for run in runs {
        let range = start..start + run.len();
        if run.len() >= SMALL_MIN {
            return Some(extended(&candidates[..range.end], range.start..range.start + 1, usual, is_small));
        }
        start = range.end;
    }
    None
}

fn next(candidates: &[Candidate], from: u64, upto: u64, usual: u64) -> Option<Range<usize>> {
    let end = candidates.partition_point(|candidate| candidate.at < upto);
    let candidates = &candidates[..end];
    let gains = |candidate: &Candidate| candidate.is_there && (candidate.gains() || candidate.has_remains);
    let is_small = |candidate: &Candidate| candidate.is_there && candidate.is_small(usual);
    let start = (0..end).find(|&at| {
        let (it, behind) = (&candidates[at], candidates.get(at + 1));
        it.at >= from
            && (gains(it) || it.is_small(usual) && behind.is_some_and(|behind| behind.is_small(usual) && it.live + behind.live <= usual))
    })?;
    let fits = |candidate: &Candidate| gains(candidate) || is_small(candidate);
    let behind = extended(&candidates[start..], 0..1, usual, fits);
    Some(start..start + behind.end)
}

/// A run with its neighbours, for as long as they fit and what is kept goes into one segment.
fn extended(candidates: &[Candidate], run: Range<usize>, usual: u64, fits: impl Fn(&Candidate) -> bool) -> Range<usize> {
    let Range { mut start, mut end } = run;
    let mut live: u64 = candidates[start..end].iter().map(|candidate| candidate.live).sum();
    let may_join =
        |live: u64, candidate: Option<&Candidate>| candidate.filter(|it| fits(it) && live + it.live <= usual).map(|it| live + it.live);
    while let Some(more) = may_join(live, candidates.get(end)) {
        (live, end) = (more, end + 1);
    }
    while let Some(more) = may_join(live, start.checked_sub(1).map(|before| &candidates[before])) {
        (live, start) = (more, start - 1);
    }
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: u64 = 800;

    /// Segments of (used, live), one after the other.
    fn segments(sizes: &[(u64, u64)]) -> Vec<Candidate> {
        let at = |index: usize| sizes[..index].iter().map(|(used, _)| used + 72).sum();
        sizes
            .iter()
            .enumerate()
            .map(|(index, &(used, live))| Candidate {
                at: at(index),
                used,
                live,
                packable: 0,
                is_there: true,
                has_remains: false,
                settled: false,
            })
            .collect()
    }

    fn best(sizes: &[(u64, u64)]) -> Option<Range<usize>> {
        choose(&segments(sizes), Wanted::Best, USUAL)
    }

    #[test]
    fn what_is_wholly_dead_goes_first() {
        assert_eq!(best(&[(800, 100), (800, 0), (800, 0), (800, 700)]), Some(1..3));
    }

    #[test]
    fn then_what_is_dead_most_with_neighbours_that_are_worth_it() {
        assert_eq!(best(&[(800, 790), (800, 400), (800, 80), (800, 300), (800, 780)]), Some(1..4));
        assert_eq!(best(&[(800, 790), (800, 700), (800, 80), (800, 790)]), Some(2..3));
        // What is kept fits into one segment.
        assert_eq!(best(&[(800, 400), (800, 390), (800, 380)]), Some(1..3));
    }

    #[test]
    fn little_that_is_dead_is_left() {
        assert_eq!(best(&[(800, 790), (800, 601)]), None);
        assert_eq!(best(&[]), None);
        let mut settled = segments(&[(800, 0), (800, 100)]);
        settled.iter_mut().for_each(|candidate| candidate.settled = true);
        assert_eq!(choose(&settled, Wanted::Best, USUAL), None);
        let mut missing = segments(&[(800, 700), (800, 0), (800, 100)]);
        missing[1].is_there = false;
        assert_eq!(choose(&missing, Wanted::Best, USUAL), Some(2..3));
        assert_eq!(choose(&missing, Wanted::Next(0, u64::MAX), USUAL), Some(0..1));
    }

    #[test]
    fn many_small_ones_are_merged() {
        let small = [(80, 80); 9];
        assert_eq!(best(&small[..7]), None);
        assert_eq!(best(&small), Some(0..9));
        assert!(are_many_small(small.iter().map(|(used, _)| *used), USUAL));
        assert!(!are_many_small([80, 80, 80, 80, 800, 80, 80, 80, 80, 80].into_iter(), USUAL));
        let apart = [&[(80, 80); 7][..], &[(800, 800)], &[(80, 80); 8]].concat();
        assert_eq!(best(&apart), Some(8..16));
    }

    #[test]
    fn asked_for_everything_dead_goes() {
        let sizes = [(800, 800), (800, 799), (800, 800), (800, 0), (800, 10), (80, 80)];
        let next = |from, upto| choose(&segments(&sizes), Wanted::Next(from, upto), USUAL);
        let at: Vec<u64> = segments(&sizes).iter().map(|candidate| candidate.at).collect();
        assert_eq!(next(0, u64::MAX), Some(1..2));
        assert_eq!(next(at[2], u64::MAX), Some(3..6));
        assert_eq!(next(at[2], at[4]), Some(3..4));
        assert_eq!(next(at[5], u64::MAX), None);
        let mut packable = segments(&[(800, 800), (800, 800), (800, 800)]);
        packable[1].packable = 300;
        assert_eq!(choose(&packable, Wanted::Next(0, u64::MAX), USUAL), Some(1..2));
        assert_eq!(choose(&packable, Wanted::Best, USUAL), None, "unasked it is not worth it");
        assert_eq!(choose(&segments(&[(80, 80), (80, 80), (800, 800)]), Wanted::Next(0, u64::MAX), USUAL), Some(0..2));
        assert_eq!(choose(&segments(&[(80, 80), (800, 800)]), Wanted::Next(0, u64::MAX), USUAL), None);
    }

    #[test]
    fn what_is_left_alone_is_told_in_parts_of_a_segment() {
        assert_eq!([0, USUAL, 4 * USUAL].map(|live| dead_max(live, USUAL)), [600, 600, 2400]);
        let row = |used, count| are_many_small(std::iter::repeat_n(used, count), USUAL);
        assert!(row(USUAL / 8 - 1, 8) && !row(USUAL / 8 - 1, 7));
        assert!(!row(USUAL / 8, 8));
        let small = |used| choose(&segments(&[(used, used), (used, used)]), Wanted::Next(0, u64::MAX), USUAL);
        assert_eq!((small(USUAL / 8 - 1), small(USUAL / 8)), (Some(0..2), None));
    }
}
