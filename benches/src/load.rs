//! The loops that are timed: puts by one or several workers, and filling a place to read from.

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::noise::Noise;
use crate::{Outcome, Place, Worker, device};

/// A worker with its own thread and its own states.
pub struct Writer {
    worker: Box<dyn Worker>,
    thread: String,
    noise: Noise,
}

/// The puts that grew no file, and their time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub settled: Duration,
    pub settled_puts: u64,
}

/// The puts of one writer within a stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// How long each put that was kept took, in nanoseconds, in the order of the puts.
    pub nanos: Vec<u64>,
    /// How many puts answered an error.
    pub errors: u64,
    /// What the first of those said.
    pub first_error: Option<String>,
}

impl Writer {
    pub fn new(place: &dyn Place, number: usize) -> Outcome<Self> {
        Ok(Writer { worker: place.worker()?, thread: thread_name(number), noise: Noise::new(number) })
    }

    /// Puts `count` states of `bytes` bytes; making the states is not in the time.
    pub fn put(&mut self, bytes: usize, count: u64) -> Outcome<Duration> {
        let start = Instant::now();
        for _ in 0..count {
            self.worker.put(&self.thread, self.noise.next(bytes))?;
        }
        Ok(start.elapsed())
    }

    /// Puts one state after another until `end`, and goes on after an error.
    pub fn put_until(&mut self, bytes: usize, end: Instant) -> Waits {
        let mut waits = Waits::default();
        let mut now = Instant::now();
        while now < end {
            let outcome = self.worker.put(&self.thread, self.noise.next(bytes));
            let before = std::mem::replace(&mut now, Instant::now());
            match outcome {
                Ok(()) => waits.nanos.push(u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX)),
                Err(error) => {
                    waits.errors += 1;
                    waits.first_error.get_or_insert_with(|| error.to_string());
                }
            }
        }
        waits
    }

    /// Puts `count` states with each put timed by itself; counts those at which no file under `dir` grew.
    pub fn put_watched(&mut self, bytes: usize, count: u64, dir: &Path) -> Outcome<Times> {
        let mut times = Times::default();
        let mut room = device::bytes_of(dir)?;
        for _ in 0..count {
            let state = self.noise.next(bytes);
            let start = Instant::now();
            self.worker.put(&self.thread, state)?;
            let took = start.elapsed();
            let room_after = device::bytes_of(dir)?;
            if room_after == room {
                times.settled += took;
                times.settled_puts += 1;
            }
            room = room_after;
        }
        Ok(times)
    }
}

/// Each writer puts `count` states at the same time; answers from their common start to the last end.
pub fn put_together(writers: &mut [Writer], bytes: usize, count: u64) -> Outcome<Duration> {
    if let [writer] = writers {
        return writer.put(bytes, count);
    }
    let gate = Barrier::new(writers.len() + 1);
    std::thread::scope(|scope| {
        let gate = &gate;
        let started: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                scope.spawn(move || {
                    gate.wait();
                    writer.put(bytes, count)
                })
            })
            .collect();
        gate.wait();
        let start = Instant::now();
        for worker in started {
            worker.join().map_err(|_| "a worker panicked")??;
        }
        Ok(start.elapsed())
    })
}

/// The threads that [`fill`] makes.
pub fn thread_name(number: usize) -> String {
    format!("thread-{number:04}")
}

/// Fills a place for reading: `depth` states in each of `threads` threads, step by step as runs go.
pub fn fill(place: &dyn Place, threads: usize, depth: usize, bytes: usize) -> Outcome<()> {
    let mut worker = place.worker()?;
    let mut noise = Noise::new(0);
    for _ in 0..depth {
        for number in 0..threads {
            worker.put(&thread_name(number), noise.next(bytes))?;
        }
    }
    Ok(())
}

/// Reads thread after thread for about `at_least`; answers the time of one read.
pub fn read_for(at_least: Duration, threads: &[String], mut read: impl FnMut(&str) -> Outcome<u64>) -> Outcome<Duration> {
    let (start, mut reads) = (Instant::now(), 0);
    loop {
        for thread in threads {
            std::hint::black_box(read(thread)?);
        }
        reads += u32::try_from(threads.len())?;
        if start.elapsed() >= at_least {
            return Ok(start.elapsed() / reads);
        }
    }
}
