//! A round's processes: starts them, kills, stops and continues them at random moments, ends them.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::round::{Ending, Round};
use crate::chance::Chance;
use crate::child::Child;
use crate::posix::signal;

/// The longest that a process is stopped.
const STOPPED_MILLIS_MAX: u64 = 120;
/// How long processes may take to end when they are asked to.
const PATIENCE: Duration = Duration::from_secs(60);

struct Member {
    writes: bool,
    number: u64,
    life: u64,
    child: Child,
    stopped_until: Option<Instant>,
}

/// Runs a round to its end: afterwards none of its processes is there.
pub fn run(round: &Round) {
    let mut chance = Chance::new(!round.seed);
    let writers = (0..round.writers).map(|number| (true, number));
    let readers = (0..round.readers).map(|number| (false, number));
    let mut members: Vec<Member> = writers.chain(readers).map(|(writes, number)| Member::start(round, writes, number, 0)).collect();
    let end = Instant::now() + Duration::from_millis(round.millis);
    let mut kills = round.kills;
    while Instant::now() < end {
        std::thread::sleep(chance.micros(12_000));
        continue_those_due(&mut members);
        let at = chance.below(members.len() as u64) as usize;
        if kills > 0 && chance.once_in(3) {
            kills -= 1;
            // Now and then all at once, so that the next one is the first to open the store.
            let all = chance.once_in(6);
            let range = if all { 0..members.len() } else { at..at + 1 };
            members[range.clone()].iter_mut().for_each(|member| signal_if_there(member, libc::SIGKILL));
            members[range.clone()].iter_mut().for_each(|member| member.is_gone(&round.context()));
            std::thread::sleep(chance.micros(2_000));
            members[range].iter_mut().for_each(|member| *member = Member::start(round, member.writes, member.number, member.life + 1));
        } else if members[at].stopped_until.is_none() && chance.once_in(2) {
            signal_if_there(&mut members[at], libc::SIGSTOP);
            members[at].stopped_until = Some(Instant::now() + Duration::from_millis(1 + chance.below(STOPPED_MILLIS_MAX)));
        }
    }
    finish(round, members, &mut chance);
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
    fn start(round: &Round, writes: bool, number: u64, life: u64) -> Member {
        let dir = round.dir();
        let ground = dir.parent().unwrap().to_str().unwrap();
        let dir = dir.to_str().unwrap();
        let [own, seed, writers, segment_bytes, reopen] =
            [number, round.seed, round.writers, round.segment_bytes, round.reopen].map(|number| number.to_string());
        let child = if writes {
            Child::start("writer", &[dir, ground, &own, &seed, &segment_bytes, &reopen])
        } else {
            Child::start("reader", &[dir, ground, &format!("reader {life} {number}"), &writers])
        };
        Member { writes, number, life, child, stopped_until: None }
    }

    fn name(&self) -> String {
        format!("{} {}, life {}", if self.writes { "writer" } else { "reader" }, self.number, self.life)
    }

    /// Waits for one that was killed; it may have ended well by itself before, but not failed.
    fn is_gone(&mut self, context: &str) {
        let status: ExitStatus = self.child.kill();
        let expected = status.success() || status.signal() == Some(libc::SIGKILL);
        assert!(expected, "{context}: {} failed before it was killed: {status}", self.name());
    }
}
