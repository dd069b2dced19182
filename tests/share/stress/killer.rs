//! A round's processes: starts them, kills, stops and continues them at random moments, ends them.
//!
//! One kill in ten is meant for a process that is opening the store, two for one that is the first to
//! open it after all others were killed, and so recovers it; how many are met there is counted.

use std::ops::{AddAssign, Range};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::failed;
use super::opening;
use super::round::{Ending, Round};
use crate::chance::Chance;
use crate::child::Child;
use crate::posix::signal;

/// The longest that a process is stopped.
const STOPPED_MILLIS_MAX: u64 = 120;
/// How long processes may take to end when they are asked to.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who was killed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Killed {
    /// Moments at which one was, or all were.
    pub moments: u64,
    /// Processes.
    pub all: u64,
    /// Of them those that were opening the store.
    pub opening: u64,
    /// Of these those that were alone, and the first to open it since others were killed.
    pub recovering: u64,
}

impl AddAssign for Killed {
    fn add_assign(&mut self, other: Killed) {
        self.moments += other.moments;
        self.all += other.all;
        self.opening += other.opening;
        self.recovering += other.recovering;
    }
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Writer,
    Reader,
    Compactor,
}

struct Member {
    role: Role,
    number: u64,
    life: u64,
    child: Child,
    stopped_until: Option<Instant>,
}

/// Runs a round to its end: afterwards none of its processes is there, and none has failed, however it ended.
pub fn run(round: &Round) -> Killed {
    let mut chance = Chance::new(!round.seed);
    let of = |role: Role, count: u64| (0..count).map(move |number| Member::start(round, role, number, 0, 0));
    let members = of(Role::Writer, round.writers).chain(of(Role::Reader, round.readers)).chain(of(Role::Compactor, 1));
    let mut crew = Crew { round, members: members.collect(), killed: Killed::default() };
    let end = Instant::now() + Duration::from_millis(round.millis);
    let mut kills = round.kills;
    while Instant::now() < end {
        std::thread::sleep(chance.micros(12_000));
        continue_those_due(&mut crew.members);
        let all = 0..crew.members.len();
        let at = chance.below(all.end as u64) as usize;
        if kills > 0 && chance.once_in(3) {
            kills -= 1;
            crew.killed.moments += 1;
            match chance.below(10) {
                0 => crew.kill_while_opening(at..at + 1, at, &mut chance),
                1..=3 => crew.kill_while_opening(all, at, &mut chance),
                // Now and then all at once, so that the next one is the first to open the store.
                _ if chance.once_in(6) => crew.replace(all, &mut chance),
                _ => crew.replace(at..at + 1, &mut chance),
            }
        } else if crew.members[at].stopped_until.is_none() && chance.once_in(2) {
            signal_if_there(&mut crew.members[at], libc::SIGSTOP);
            crew.members[at].stopped_until = Some(Instant::now() + Duration::from_millis(1 + chance.below(STOPPED_MILLIS_MAX)));
        }
    }
    let killed = crew.killed;
    finish(round, crew.members, &mut chance);
    failed::is_none(&round.ground(), &round.context());
    killed
}

/// The longest that an opening is left alone before its process dies: one of these.
const OPENING_MICROS_MAX: [u64; 4] = [100, 300, 1_000, 3_000];

/// A round's processes while it lasts.
struct Crew<'a> {
    round: &'a Round,
    members: Vec<Member>,
    killed: Killed,
}

impl Crew<'_> {
    fn kill(&mut self, range: Range<usize>) {
        self.members[range.clone()].iter_mut().for_each(|member| signal_if_there(member, libc::SIGKILL));
        self.count(range);
    }

    /// Waits for these to be gone; answers how many of them were opening.
    fn count(&mut self, range: Range<usize>) -> u64 {
        let mut opening = 0;
        for member in &mut self.members[range] {
            member.is_gone(&self.round.context());
            self.killed.all += 1;
            opening += u64::from(opening::was_met(&self.round.ground(), member.child.id()));
        }
        self.killed.opening += opening;
        opening
    }

    fn start(&mut self, range: Range<usize>) {
        for member in &mut self.members[range] {
            *member = member.again(self.round, 0);
        }
    }

    fn replace(&mut self, range: Range<usize>, chance: &mut Chance) {
        self.kill(range.clone());
        std::thread::sleep(chance.micros(2_000));
        self.start(range);
    }

    /// Kills these, and lets one of them die once more, while it opens what they have left.
    fn kill_while_opening(&mut self, range: Range<usize>, at: usize, chance: &mut Chance) {
        self.kill(range.clone());
        let most = chance.one_of(&OPENING_MICROS_MAX);
        let dies = 1 + chance.below(most);
        self.members[at] = self.members[at].again(self.round, dies);
        let met = self.count(at..at + 1);
        if range.len() > 1 {
            self.killed.recovering += met;
        }
        self.start(range);
    }
}

fn finish(round: &Round, mut members: Vec<Member>, chance: &mut Chance) {
    // Those who are still stopped are killed like that.
    let doomed = |chance: &mut Chance| match round.ending {
        Ending::Asked => false,
        Ending::Killed => true,
        Ending::Mixed => chance.once_in(2),
    };
    let (mut killed, mut asked): (Vec<Member>, Vec<Member>) = members.drain(..).partition(|_| doomed(chance));
    killed.iter_mut().for_each(|member| signal_if_there(member, libc::SIGKILL));
    asked.iter_mut().filter(|member| member.stopped_until.is_some()).for_each(|member| signal_if_there(member, libc::SIGCONT));
    std::thread::sleep(chance.micros(5_000));
    std::fs::write(round.file("stop"), b"").unwrap();
    killed.iter_mut().for_each(|member| member.is_gone(&round.context()));
    let start = Instant::now();
    for member in &mut asked {
        let status = loop {
            match member.child.ended() {
                Some(status) => break status,
                None if start.elapsed() > PATIENCE => panic!("{}: {} does not end", round.context(), member.name()),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(status.success(), "{}: {} failed: {status}", round.context(), member.name());
    }
}

fn continue_those_due(members: &mut [Member]) {
    for member in members {
        if member.stopped_until.is_some_and(|until| until <= Instant::now()) {
            member.stopped_until = None;
            signal_if_there(member, libc::SIGCONT);
        }
    }
}

/// Signals a process, unless it has ended by itself, which is judged when it is waited for.
fn signal_if_there(member: &mut Member, which: libc::c_int) {
    if member.child.ended().is_none() {
        signal(member.child.id(), which);
    }
}

impl Member {
    fn start(round: &Round, role: Role, number: u64, life: u64, dies: u64) -> Member {
        let (dir, ground) = (round.dir(), round.ground());
        let [dir, ground] = [&dir, &ground].map(|path| path.to_str().unwrap());
        let [own, seed, writers, segment_bytes, reopen, dies] =
            [number, round.seed, round.writers, round.segment_bytes, round.reopen, dies].map(|number| number.to_string());
        let child = match role {
            Role::Writer => Child::start("writer", &[dir, ground, &own, &seed, &segment_bytes, &reopen, &dies]),
            Role::Reader => {
                Child::start("reader", &[dir, ground, &format!("reader {life} {number}"), &writers, &seed, &segment_bytes, &dies])
            }
            Role::Compactor => Child::start("compactor", &[dir, ground, &dies]),
        };
        Member { role, number, life, child, stopped_until: None }
    }

    /// The next life of one that has ended, which dies so many microseconds after it has begun to open; 0 for never.
    fn again(&self, round: &Round, dies: u64) -> Member {
        Member::start(round, self.role, self.number, self.life + 1, dies)
    }

    fn name(&self) -> String {
        format!("{:?} {}, life {}", self.role, self.number, self.life)
    }

    /// Waits for one that was killed or kills itself; it may have ended well by itself before, but not failed.
    fn is_gone(&mut self, context: &str) {
        let status: ExitStatus = self.child.wait();
        let expected = status.success() || status.signal() == Some(libc::SIGKILL);
        assert!(expected, "{context}: {} failed before it was killed: {status}", self.name());
    }
}
