//! What is put: the same states in the same order for every store, made one by one outside the clock.

use taffrail_benches::Outcome;
use taffrail_benches::load::thread_name;
use taffrail_benches::noise::Noise;
use taffrail_benches::traces::Growing;

/// A workload: durable puts, thread after thread.
pub struct Work {
    pub name: &'static str,
    pub title: &'static str,
    pub threads: usize,
    /// At once; each has its share of the threads.
    pub workers: usize,
    /// Puts in each thread.
    pub steps: usize,
    /// How many newest checkpoints each thread keeps; None for all.
    pub keep: Option<usize>,
    states: States,
}

enum States {
    /// An agent's: each the one before it and about 1 KiB more.
    Growing,
    /// So many bytes that have nothing in common and do not pack.
    Fixed(usize),
}

/// All workloads; the main one stands first.
pub const WORKS: [Work; 6] = [
    agents("agents", "20 threads x 100 states that grow by 1 KiB a step, the newest 50 kept", 1),
    agents("agents-4", "the same, by four workers at once", 4),
    Work {
        name: "chat",
        title: "one chat of 200 states that grow by 1 KiB a step, all kept",
        threads: 1,
        workers: 1,
        steps: 200,
        keep: None,
        states: States::Growing,
    },
    fixed("4k", "states of 4 KiB, all kept", 4 << 10, 100),
    fixed("64k", "states of 64 KiB, all kept", 64 << 10, 25),
    fixed("1m", "states of 1 MiB, all kept", 1 << 20, 3),
];

const fn agents(name: &'static str, title: &'static str, workers: usize) -> Work {
    Work { name, title, threads: 20, workers, steps: 100, keep: Some(50), states: States::Growing }
}

const fn fixed(name: &'static str, title: &'static str, bytes: usize, steps: usize) -> Work {
    Work { name, title, threads: 20, workers: 1, steps, keep: None, states: States::Fixed(bytes) }
}

impl Work {
    /// The one of that name.
    pub fn of(name: &str) -> Outcome<&'static Work> {
        WORKS.iter().find(|work| work.name == name).ok_or_else(|| format!("there is no workload {name}").into())
    }

    /// Hands over each state of a worker's threads, in order.
    pub fn each(&self, worker: usize, mut put: impl FnMut(&str, &[u8]) -> Outcome<()>) -> Outcome<()> {
        let threads = (0..self.threads).skip(worker).step_by(self.workers);
        let names: Vec<String> = threads.clone().map(thread_name).collect();
        match self.states {
            States::Growing => {
                let mut agents: Vec<Growing> = threads.map(|thread| Growing::new(thread as u64 + 1)).collect();
                for _ in 0..self.steps {
                    for (name, agent) in names.iter().zip(&mut agents) {
                        put(name, &agent.step())?;
                    }
                }
            }
            States::Fixed(bytes) => {
                let mut noise = Noise::new(worker);
                for _ in 0..self.steps {
                    for name in &names {
                        put(name, noise.next(bytes))?;
                    }
                }
            }
        }
        Ok(())
    }
}
