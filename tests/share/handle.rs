//! A handle as a long-lived program keeps it, or opened anew for each use as short-lived ones do.

use std::path::PathBuf;

use taffrail::{Options, Store};

use crate::chance;

/// A store that is open all the time, or only while it is used.
pub struct Handle {
    dir: PathBuf,
    options: Options,
    kept: Option<Store>,
}

impl Handle {
    /// Keeps the store open, unless `TAFFRAIL_STRESS_REOPEN` asks for short-lived handles everywhere.
    pub fn new(dir: impl Into<PathBuf>, options: Options) -> Handle {
        let mut handle = Handle { dir: dir.into(), options, kept: None };
        if chance::number("TAFFRAIL_STRESS_REOPEN").is_none() {
            handle.kept = Some(handle.open());
        }
        handle
    }

    /// Does something with the open store.
    pub fn with<R>(&self, act: impl FnOnce(&Store) -> R) -> R {
        match &self.kept {
            Some(store) => act(store),
            None => act(&self.open()),
        }
    }

    fn open(&self) -> Store {
        self.options.clone().open(&self.dir).unwrap_or_else(|error| panic!("{}: {error:?}", self.dir.display()))
    }
}
