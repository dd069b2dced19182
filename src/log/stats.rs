//! What a store says of itself: its size, and what reading all of it finds.

use super::Shared;
use super::examine::Examination;
use super::tail::Marks;
use crate::error::{Error, Result};
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::query::ThreadQuery;
use crate::report::{Finding, Stats};

impl Shared {
    pub(super) fn stats(&self) -> Result<Stats> {
        self.refresh()?;
        // Before the manifest: an end beyond a segment begun in between would count twice.
        let appended = self.tail.appended();
        let manifest = self.directory.manifest()?;
        let mut stats = Stats { max_history: manifest.keep(), ..Stats::default() };
        for view in self.index.list(&ThreadQuery::default()) {
            stats.threads += 1;
            stats.checkpoints += view.len() as u64;
            stats.logical_bytes += view.state_bytes();
            stats.stored_bytes += view.frame_bytes();
        }
        stats.keyframes = stats.checkpoints;
        stats.segments = manifest.segments.len() as u64;
        let mut used = 0;
        for listed in &manifest.segments {
            let end = if listed.end == 0 { appended.saturating_sub(listed.base) } else { listed.end };
            used += end.saturating_sub(u64::from(listed.first_frame));
        }
        stats.dead_bytes = used.saturating_sub(stats.stored_bytes);
        stats.disk_bytes = self.disk_bytes()?;
        Ok(stats)
    }

    /// Reads everything and compares it with its checksums.
    pub(super) fn verify(&self) -> Result<Vec<Finding>> {
        let mut findings = self.read_all()?;
        if self.directory.contents()?.quarantine {
            let file = self.directory.file(names::QUARANTINE);
            let what = "quarantine holds files that recovery could not believe; remove it once they are not needed".to_owned();
            findings.push(Finding { file, offset: None, thread: None, id: None, damage: true, what });
        }
        Ok(findings)
    }

    /// Beside whoever writes; and again if something was missing under a newer manifest, which retired
    /// it. The page is read before the manifest that it is judged by: a segment begun in between would
    /// else make its end look like one that the segment before it has lost.
    fn read_all(&self) -> Result<Vec<Finding>> {
        loop {
            let marks = Marks::read(&self.directory, &self.directory.manifest()?);
            let manifest = self.directory.manifest()?;
            let findings = self.examine(&manifest, marks);
            let is_missing = |finding: &Finding| finding.damage && finding.offset.is_none();
            let is_whole = findings.as_ref().is_ok_and(|findings| !findings.iter().any(is_missing));
            if is_whole || self.directory.manifest()?.generation == manifest.generation {
                return findings;
            }
        }
    }

    fn examine(&self, manifest: &Manifest, marks: Option<Marks>) -> Result<Vec<Finding>> {
        let page_synced = marks.map_or(0, |marks| marks.synced);
        let examination = Examination { directory: &self.directory, manifest, page_synced, payloads: true, upto: None };
        let examined = examination.run(&mut |_, _| {})?;
        let mut findings = examined.damage;
        findings.extend(examined.unproven);
        if examined.end.torn_bytes > 0 {
            let file = self.directory.file(&names::segment(manifest.segments.last().map_or(0, |listed| listed.number)));
            let what = format!("an unfinished last write of {} bytes, which opening drops", examined.end.torn_bytes);
            findings.push(Finding { file, offset: Some(examined.end.end), thread: None, id: None, damage: false, what });
        }
        Ok(findings)
    }

    fn disk_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for name in self.directory.fs.list(&self.directory.path).map_err(|error| Error::os("list", &self.directory.path, error))? {
            let path = self.directory.path.join(name);
            if let Ok(Some(false)) = self.directory.fs.is_dir(&path) {
                // A file that goes away while we look counts nothing.
                bytes += self.directory.fs.open(&path, false).and_then(|file| file.len()).unwrap_or(0);
            }
        }
        Ok(bytes)
    }
}
