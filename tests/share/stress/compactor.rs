//! A process that does nothing but compact the store.

use std::path::Path;
use std::time::Duration;

use taffrail::Store;

use super::failed;
use super::opening;
use crate::child::PATIENCE;

/// Plays it; its arguments are the directory, the round's ground and when it dies.
pub fn run(arguments: &[&str]) {
    let [dir, ground, dies] = arguments else { panic!("{arguments:?}") };
    let ground = Path::new(ground);
    failed::is_noted(ground);
    let options = Store::options().max_history(None).busy_timeout(PATIENCE);
    let store =
        opening::noted(ground, dies.parse().unwrap(), || options.open(dir)).unwrap_or_else(|error| panic!("the compactor: {error:?}"));
    while !ground.join("stop").exists() {
        store.compact().unwrap_or_else(|error| panic!("the compactor: {error:?}"));
        std::thread::sleep(Duration::from_millis(2));
    }
}
