//! `import`: checkpoints into a place, all that can be, each refusal named: from JSON Lines here, from SQLite
//! databases by the library.
//!
//! Two passes over the source, so that one chunk of states is held at a time: the first reads the
//! ids and decides (by `taffrail::carry::fates`), the second puts in the order of the source, a chunk a batch. A
//! chunk that is refused is halved until the bad row stands alone, so that it costs itself alone.
//!
//! A parent that is not in the thread (it was trimmed or refused) cannot be named: such a
//! checkpoint begins anew, without a parent.

use std::collections::{HashMap, HashSet};

use taffrail::carry::{Fate, fates};
use taffrail::{Batch, CheckpointId, Committed, Error, ErrorKind, HistoryQuery, OnExisting, Parent, PutOptions, TypeTag};

use crate::args::Import;
use crate::carried::Teller;
use crate::failure::{Failure, REFUSED, Result};
use crate::output::note;
use crate::place::Place;
use crate::rows::{self, Followed, Kind, Row};
use crate::source::{self, Source};

const CHUNK_ROWS_MAX: usize = 256;
const CHUNK_BYTES_MAX: usize = 8 * 1024 * 1024;

pub fn import(place: &str, args: &Import) -> Result<()> {
    if source::is_database(&args.file)? {
        return import_database(place, args);
    }
    let mut source = Source::open(&args.file)?;
    let mut tally = Tally { source: format!("taffrail: {place}: {}", source.name), ..Tally::default() };
    let marks = scan(&mut source, &mut tally)?;
    let place = Place::to_put(place)?;
    let plan = decide(&place, marks, &mut tally)?;
    let mut import = Importer { place: &place, tally, chunk: Vec::new(), chunk_bytes: 0, known: plan.known };
    let ended = import.run(&mut source, &plan.fates);
    source.bar.finish_and_clear();
    import.tally.tell();
    ended?;
    if import.tally.refused > 0 { Err(Failure::said(REFUSED)) } else { Ok(()) }
}

fn import_database(place: &str, args: &Import) -> Result<()> {
    let database = taffrail::import::Database::open(&args.file)?;
    let dest = Place::to_put(place)?;
    let mut teller = Teller::new(&format!("{place}: {}", args.file.display()));
    let imported = database.carry_to(&*dest, &mut |event| teller.hear(event))?;
    teller.ended(&imported, "imported")
}

/// What was done with the rows.
#[derive(Default)]
struct Tally {
    imported: u64,
    present: u64,
    too_old: u64,
    diverged: u64,
    refused: u64,
    /// How a line about a row begins.
    source: String,
}

impl Tally {
    fn refuse(&mut self, line: u64, error: &Error) {
        self.refused += 1;
        note(&format!("{} line {line} refused: {error}", self.source));
    }

    fn tell(&self) {
        if self.too_old > 0 {
            note(&format!("{} are older than what the threads keep or have, and were left out", self.too_old));
        }
        let skipped = self.present + self.too_old + self.diverged;
        note(&format!("imported {}, skipped {skipped}, refused {}", self.imported, self.refused));
    }
}

/// What is known of the rows after the first pass: of each good one, in order, thread and id.
#[derive(Default)]
struct Marks {
    threads: Vec<String>,
    rows: Vec<Mark>,
}

struct Mark {
    thread: usize,
    /// The checkpoint's id; of an attachment, its checkpoint's.
    id: Option<CheckpointId>,
    attachment: bool,
}

fn scan(source: &mut Source, tally: &mut Tally) -> Result<Marks> {
    let mut marks = Marks::default();
    let mut numbers = HashMap::new();
    while let Some((line, text)) = source.next()? {
        let row = match rows::parse(text) {
            Ok(row) => row,
            Err(error) => {
                tally.refuse(line, &error);
                continue;
            }
        };
        let (id, attachment) = match row.kind {
            Kind::Checkpoint { id, .. } => (id, false),
            Kind::Attachment { checkpoint, .. } => (Some(checkpoint), true),
        };
        let thread = *numbers.entry(row.thread).or_insert_with_key(|thread| {
            marks.threads.push(thread.clone());
            marks.threads.len() - 1
        });
        marks.rows.push(Mark { thread, id, attachment });
    }
    source.rewind()?;
    Ok(marks)
}

/// What is to be done with each good row, in order, and the ids each thread has before that.
struct Plan {
    fates: Vec<Fate>,
    known: HashMap<String, HashSet<CheckpointId>>,
}

fn decide(place: &Place, marks: Marks, tally: &mut Tally) -> Result<Plan> {
    let mut rows_of = vec![Vec::new(); marks.threads.len()];
    for (at, mark) in marks.rows.iter().enumerate() {
        rows_of[mark.thread].push(at);
    }
    let mut plan = Plan { fates: vec![Fate::Take; marks.rows.len()], known: HashMap::new() };
    for (thread, rows) in marks.threads.into_iter().zip(rows_of) {
        let newest_first = place.list(&thread, &HistoryQuery::default())?;
        let mut there: Vec<_> = newest_first.map(|info| info.map(|info| info.id)).collect::<taffrail::Result<_>>()?;
        there.reverse();
        let keep = match place.max_history(Some(&thread)) {
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            keep => keep?.map(|keep| keep as u64),
        };
        if decide_thread(&marks.rows, rows, &there, keep, &mut plan.fates) {
            note(&format!("{}: thread {thread:?} skipped: what it has is not there in the same order", tally.source));
        }
        plan.known.insert(thread, there.into_iter().collect());
    }
    for fate in &plan.fates {
        match fate {
            Fate::Take => {}
            Fate::Present => tally.present += 1,
            Fate::TooOld => tally.too_old += 1,
            Fate::Diverged => tally.diverged += 1,
        }
    }
    Ok(plan)
}

/// Decides the rows of one thread; answers whether it has diverged. An attachment goes where its
/// checkpoint goes.
fn decide_thread(marks: &[Mark], rows: Vec<usize>, there: &[CheckpointId], keep: Option<u64>, decided: &mut [Fate]) -> bool {
    let (attachments, checkpoints): (Vec<usize>, Vec<usize>) = rows.into_iter().partition(|&at| marks[at].attachment);
    let ids: Vec<_> = checkpoints.iter().map(|&at| marks[at].id.clone()).collect();
    let fates = fates(there, &ids, keep);
    for (&at, &fate) in checkpoints.iter().zip(&fates) {
        decided[at] = fate;
    }
    let left_out: HashMap<_, _> = ids.iter().zip(&fates).filter(|(_, fate)| matches!(fate, Fate::TooOld | Fate::Diverged)).collect();
    for at in attachments {
        decided[at] = left_out.get(&marks[at].id).map_or(Fate::Take, |fate| **fate);
    }
    fates.contains(&Fate::Diverged)
}

/// A row on its way, owning its bytes.
struct Pending {
    line: u64,
    thread: String,
    tag: TypeTag,
    value: Vec<u8>,
    what: What,
}

enum What {
    Put(PutOptions),
    Attach { checkpoint: CheckpointId, key: String },
}

/// The second pass.
struct Importer<'a> {
    place: &'a Place,
    tally: Tally,
    chunk: Vec<Pending>,
    chunk_bytes: usize,
    /// The ids each thread has, so that a parent can be told from one that was left behind.
    known: HashMap<String, HashSet<CheckpointId>>,
}

impl Importer<'_> {
    fn run(&mut self, source: &mut Source, fates: &[Fate]) -> Result<()> {
        let mut fates = fates.iter();
        while let Some((line, text)) = source.next()? {
            // The first pass refused and named what is no row.
            let Ok(row) = rows::parse(text) else { continue };
            if fates.next() == Some(&Fate::Take) {
                self.add(line, row)?;
            }
        }
        self.commit_chunk()
    }

    fn add(&mut self, line: u64, row: Row<'_>) -> Result<()> {
        let what = match row.kind {
            Kind::Attachment { checkpoint, key } => What::Attach { checkpoint, key },
            Kind::Checkpoint { id, parent, saved_at, metadata } => {
                let known = self.known.entry(row.thread.clone()).or_default();
                let mut options = PutOptions::default().metadata(metadata);
                options.saved_at = saved_at;
                options.parent = match parent {
                    Followed::Previous => Parent::Head,
                    Followed::Id(parent) if known.contains(&parent) => Parent::Id(parent),
                    Followed::Id(_) | Followed::Nothing => Parent::Root,
                };
                let id = id.unwrap_or_else(CheckpointId::fresh);
                known.insert(id.clone());
                What::Put(options.id(id))
            }
        };
        if self.chunk.len() == CHUNK_ROWS_MAX || self.chunk_bytes + row.value.len() > CHUNK_BYTES_MAX {
            self.commit_chunk()?;
        }
        self.chunk_bytes += row.value.len();
        self.chunk.push(Pending { line, thread: row.thread, tag: row.tag, value: row.value.into_owned(), what });
        Ok(())
    }

    fn commit_chunk(&mut self) -> Result<()> {
        self.chunk_bytes = 0;
        let mut chunk = std::mem::take(&mut self.chunk);
        self.commit_halves(&mut chunk)
    }

    /// Puts rows together if they can be, else each half by itself, down to the row that is to blame.
    fn commit_halves(&mut self, rows: &mut [Pending]) -> Result<()> {
        match (self.commit(rows), &mut *rows) {
            (Err(error), [row]) if refuses_input(&error) => self.retry_or_refuse(row, &error),
            (Err(error), rows) if refuses_input(&error) => {
                let (older, newer) = rows.split_at_mut(rows.len() / 2);
                self.commit_halves(older)?;
                self.commit_halves(newer)
            }
            (ended, _) => Ok(ended?),
        }
    }

    fn retry_or_refuse(&mut self, row: &mut Pending, error: &Error) -> Result<()> {
        match &mut row.what {
            // The parent was refused, or trimmed by what was put since.
            What::Put(options) if error.kind() == ErrorKind::NotFound && options.parent != Parent::Root => {
                options.parent = Parent::Root;
                self.commit_halves(std::slice::from_mut(row))
            }
            _ => {
                self.tally.refuse(row.line, error);
                Ok(())
            }
        }
    }

    fn commit(&mut self, rows: &[Pending]) -> taffrail::Result<()> {
        let mut batch = Batch::new();
        for row in rows {
            match &row.what {
                What::Put(options) => batch.put(&row.thread, row.tag.clone(), &row.value, options.clone()),
                What::Attach { checkpoint, key } => {
                    batch.attach(&row.thread, checkpoint.clone(), key, row.tag.clone(), &row.value, OnExisting::Keep)
                }
            };
        }
        for done in self.place.commit(&batch)? {
            match done {
                Committed::Attached { written: false } => self.tally.present += 1,
                _ => self.tally.imported += 1,
            }
        }
        Ok(())
    }
}

/// Whether it is the row's fault and not the place's.
fn refuses_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::TooLarge | ErrorKind::NotFound | ErrorKind::Unsupported)
}
