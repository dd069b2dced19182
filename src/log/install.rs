//! Replacing the manifest: the one step by which the set of segments and the settings change.

use super::directory::Directory;
use super::tail::Tail;
use crate::error::{Error, Result};
use crate::format::manifest::Manifest;
use crate::format::names;

/// Installs `manifest` as the next generation and counts it up; in the turn, or while alone.
///
/// On an error before the rename the old manifest stands and nothing has changed. A failed rename
/// or directory sync poisons: nobody can say which of the two a power cut would leave, so whoever
/// made files for the new one must let them lie then.
pub(crate) fn install(directory: &Directory, tail: &Tail, manifest: &mut Manifest) -> Result<()> {
    let generation = manifest.generation;
    manifest.generation += 1;
    tail.set_installing(manifest.generation);
    if let Err(error) = directory.write_next_manifest(manifest) {
        manifest.generation = generation;
        tail.set_installing(generation);
        return Err(error);
    }
    // CRASH: killed around this rename the directory has one generation or the other, whole;
    // `installing` then differs from `generation`: the next turn reads which one it is, and the next
    // first opener takes the unclean path.
    directory.rename(names::MANIFEST_NEW, names::MANIFEST).inspect_err(|_: &Error| tail.poison(manifest.epoch))?;
    directory.sync().inspect_err(|_: &Error| tail.poison(manifest.epoch))?;
    tail.set_generation(manifest.generation);
    Ok(())
}
