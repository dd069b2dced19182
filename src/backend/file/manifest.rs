//! MANIFEST.json: the settings, and what the last batch of several files was to do. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::names;
use super::text::{sealed, unsealed};
use crate::error::{Error, ErrorKind, Result};

/// The largest manifest: a batch of about a million files.
pub(super) const BYTES_MAX: u64 = 256 * 1024 * 1024;

const FORMAT: &str = "taffrail files";
const VERSION: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: String,
    version: u32,
    /// The highest number that was given when this was written.
    pub last: u64,
    /// How many checkpoints a thread keeps; None for all.
    pub max_history: Option<usize>,
    /// The same for threads that have a number of their own.
    pub threads: BTreeMap<String, Option<usize>>,
    /// The files that get their names by this batch.
    pub named: Vec<String>,
    /// And those that are removed by it.
    pub removed: Vec<String>,
}

impl Manifest {
    /// That of a place where nothing was put yet.
    pub fn new(max_history: Option<usize>) -> Self {
        Manifest { format: FORMAT.to_owned(), version: VERSION, max_history, ..Manifest::default() }
    }

    /// The one that comes behind this one, as yet without files.
    pub fn next(&self, last: u64, max_history: Option<usize>) -> Self {
        Manifest { last, threads: self.threads.clone(), ..Manifest::new(max_history) }
    }

    /// Errors: `TooLarge` for a batch of more files than can be listed.
    pub fn encode(&self) -> Result<String> {
        let object = serde_json::to_string_pretty(self).map_err(|error| Error::invalid("the manifest is no JSON").with_source(error))?;
        let text = sealed(&object);
        if text.len() as u64 > BYTES_MAX {
            let message = format!("{} files are more than one batch can write and remove", self.named.len() + self.removed.len());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(text)
    }

    /// Errors: `Corrupt`; `Unsupported` for a newer version.
    pub fn decode(text: &[u8]) -> Result<Self> {
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("{what}: restore it from a copy"));
        let object = unsealed(text).ok_or_else(|| corrupt("the manifest is not as it was written"))?;
        #[derive(Deserialize)]
        struct Kind {
            format: String,
            version: u32,
        }
        let kind: Kind = serde_json::from_slice(&object).map_err(|error| corrupt("this is no manifest").with_source(error))?;
        if kind.format != FORMAT || kind.version != VERSION {
            let message = format!("the files here are {:?}, version {}; this program knows version {VERSION}", kind.format, kind.version);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let manifest: Manifest =
            serde_json::from_slice(&object).map_err(|error| corrupt("the manifest means nothing").with_source(error))?;
        let is_odd = |name: &&String| !names::is_ours(name);
        if manifest.named.iter().chain(&manifest.removed).any(|name| is_odd(&name)) || manifest.max_history == Some(0) {
            return Err(corrupt("the manifest means nothing"));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_its_version_is_looked_at() {
        let mut manifest = Manifest::new(Some(50));
        manifest.threads.insert("a\n\"}".to_owned(), None);
        manifest.named.push("a@000000000001@b.json".to_owned());
        let text = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(text.as_bytes()).unwrap(), manifest);
        manifest.version = 2;
        let kind = |manifest: &Manifest| Manifest::decode(manifest.encode().unwrap().as_bytes()).unwrap_err().kind();
        assert_eq!(kind(&manifest), ErrorKind::Unsupported);
        manifest.version = 1;
        manifest.removed.push("../outside.json".to_owned());
        assert_eq!(kind(&manifest), ErrorKind::Corrupt);
        assert_eq!(Manifest::decode(text.replace("50", "51").as_bytes()).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
