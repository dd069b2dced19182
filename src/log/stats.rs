//! What a store says of itself: its size, and what reading all of it finds.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Shared;
use super::backup::Live;
use super::chains::{Chains, Unread, Why};
use super::copy::Source;
use super::examine::Examination;
use super::ids::{self, IdKey};
use super::tail::Marks;
use super::view::{Entry, View};
use crate::error::{Error, Result};
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::report::{Finding, Stats};

impl Shared {
    pub(super) fn stats(&self) -> Result<Stats> {
        self.refresh()?;
        // Before the manifest: an end beyond a segment begun in between would count twice.
        let appended = self.tail.appended();
        let manifest = self.directory.manifest()?;
        let (mut stats, mut chained) = (Stats { max_history: manifest.keep(), ..Stats::default() }, 0);
        for view in self.index.moment().views {
            stats.threads += u64::from(view.len() > 0);
            stats.attachments += view.attached().len() as u64;
            stats.checkpoints += view.len() as u64;
            stats.logical_bytes += view.state_bytes();
            stats.stored_bytes += view.frame_bytes();
            for (entry, followed) in chains(&view) {
                stats.deltas += u64::from(entry.is_delta());
                stats.longest_chain = stats.longest_chain.max(followed);
                chained += followed;
            }
        }
        stats.keyframes = stats.checkpoints - stats.deltas;
        stats.mean_chain = if stats.checkpoints > 0 { chained as f64 / stats.checkpoints as f64 } else { 0.0 };
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
        self.rebuild_all(&mut findings)?;
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

    /// Makes every state that is shown from the files, and adds the checkpoints of which that fails; also
    /// their names to what was found of their own frames.
    fn rebuild_all(&self, findings: &mut Vec<Finding>) -> Result<()> {
        loop {
            let look = || {
                self.refresh()?;
                Ok((self.index.moment().views, self.follower.reading().manifest.clone()))
            };
            let ((views, manifest), _) = self.at_one_moment(look)?;
            let live = Live::new(&self.directory, &manifest);
            let unread = unread(&views, &live);
            // As above, and by what this handle itself goes by.
            if live.gone.get() && self.directory.manifest()?.generation > manifest.generation {
                self.follower.reading().renew(self)?;
                continue;
            }
            add(findings, unread?);
            return Ok(());
        }
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

/// A checkpoint that cannot be read, or a value attached to one.
struct Lost {
    thread: Arc<str>,
    id: IdKey,
    /// The value's key.
    key: Option<Arc<str>>,
    unread: Unread,
}

/// What of these threads cannot be read. Payloads are not looked at but for what is made of them.
fn unread(views: &[Arc<View>], live: &Live<'_>) -> Result<Vec<Lost>> {
    let open = |segment| live.open(segment);
    let mut chains = Chains::new(&open, false);
    let mut lost = Vec::new();
    for view in views {
        let thread = view.thread();
        chains.judge(view, &mut |entry, unread| lost.push(Lost { thread: thread.clone(), id: entry.id.clone(), key: None, unread }))?;
        for one in view.attached().iter() {
            let unread = chains.attachment(view, one)?;
            lost.extend(unread.map(|unread| Lost { thread: thread.clone(), id: one.id.clone(), key: Some(one.key.clone()), unread }));
        }
    }
    Ok(lost)
}

/// Adds what cannot be read to what is damaged.
fn add(findings: &mut Vec<Finding>, lost: Vec<Lost>) {
    let damaged = (0..).zip(&*findings).filter(|(_, finding)| finding.damage);
    let known: HashMap<(PathBuf, Option<u64>), usize> = damaged.map(|(at, found)| ((found.file.clone(), found.offset), at)).collect();
    for Lost { thread, id, key, unread: Unread { path, offset, why } } in lost {
        let (thread, id) = (Some(thread.to_string()), ids::public(&id.to_record()).ok());
        let what = key.map_or_else(|| "checkpoint".to_owned(), |key| format!("attachment {key:?}"));
        let own = |offset| known.get(&(path.clone(), offset)).filter(|_| matches!(why, Why::Damaged(_)));
        if let Some(&at) = own(Some(offset)) {
            let finding = &mut findings[at];
            (finding.thread, finding.id) = (thread, id);
        } else if own(None).is_none() {
            let what = match why {
                Why::Damaged(flaw) => format!("{what} cannot be read: {flaw}"),
                why => why.to_string(),
            };
            findings.push(Finding { file: path, offset: Some(offset), thread, id, damage: true, what });
        }
    }
}

/// The checkpoints that a thread shows, each with how many deltas a read of it follows.
fn chains(view: &View) -> impl Iterator<Item = (&Entry, u64)> {
    let mut hidden = view.hidden().iter().peekable();
    // Of what stands directly before.
    let mut before = 0;
    let follow = |entry: &Entry, before: u64| if entry.is_delta() { before + 1 } else { 0 };
    view.entries().map(move |entry| {
        let mut there = None;
        while let Some(next) = hidden.next_if(|next| next.place <= entry.place) {
            before = follow(next, before);
            there = Some(next.place);
        }
        let followed = follow(entry, before);
        // Where two stand at one place, what comes next is made of the one that was there first.
        if there != Some(entry.place) {
            before = followed;
        }
        (entry, followed)
    })
}
