//! A disk in memory that fails or lies as it is told.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub const EIO: u32 = 5;
pub const ENOSPC: u32 = 28;
const PAGE: usize = 4096;

/// What the disk does wrong from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fault {
    #[default]
    None,
    /// Writes are answered with this error: the next one, or all.
    Writes(u32, bool),
    /// Flushes are, and what was written since the last good one is lost when the power goes.
    Flushes(u32, bool),
    Reads(u32),
    /// All is answered well, and nothing that is written from now on lasts.
    ForgetsAll,
    /// The same, and of what is written some lasts.
    ForgetsSome,
}

type Pages = HashMap<u64, Vec<u8>>;

/// Pages that were never written are zeros.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub length: u64,
    pages: Pages,
    fault: Fault,
    /// How often the disk did wrong.
    pub faults: usize,
    /// What lasts although later writes were answered well.
    lasting: Option<Pages>,
    /// What pages were before they were written since the last flush; and those whose flush failed.
    unflushed: Pages,
    lost: Pages,
}

impl Disk {
    /// A disk that holds what the file does.
    pub fn of(image: &Path) -> Disk {
        let file = File::open(image).unwrap();
        let mut disk = Disk { length: file.metadata().unwrap().len(), ..Disk::default() };
        let mut page = vec![0; PAGE];
        for number in 0..disk.length / PAGE as u64 {
            file.read_exact_at(&mut page, number * PAGE as u64).unwrap();
            if page != [0; PAGE] {
                disk.pages.insert(number, page.clone());
            }
        }
        disk
    }

    pub fn set(&mut self, fault: Fault) {
        self.fault = fault;
        self.lasting = matches!(fault, Fault::ForgetsAll | Fault::ForgetsSome).then(|| self.pages.clone());
    }

    /// The power goes: what lasts is left, and the disk is well again.
    pub fn cut(&mut self) {
        self.fault = Fault::None;
        self.pages.extend(self.lost.drain());
        if let Some(lasting) = self.lasting.take() {
            self.pages = lasting;
        }
    }

    /// Whether what is asked fails, by the kinds of faults that meet it.
    fn fails(&mut self, meets: impl Fn(Fault) -> Option<(u32, bool)>) -> Result<(), u32> {
        let Some((error, for_ever)) = meets(self.fault) else { return Ok(()) };
        self.faults += 1;
        if !for_ever {
            self.fault = Fault::None;
        }
        Err(error)
    }

    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), u32> {
        self.fails(|fault| if let Fault::Reads(error) = fault { Some((error, true)) } else { None })?;
        each_page(offset, buffer.len(), |number, inside, at| match self.pages.get(&number) {
            Some(page) => buffer[at..at + inside.len()].copy_from_slice(&page[inside]),
            None => buffer[at..at + inside.len()].fill(0),
        });
        Ok(())
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), u32> {
        self.fails(|fault| if let Fault::Writes(error, for_ever) = fault { Some((error, for_ever)) } else { None })?;
        let forgets = self.lasting.is_some();
        self.faults += usize::from(forgets);
        let lasts = !forgets || self.fault == Fault::ForgetsSome && !self.faults.is_multiple_of(3);
        each_page(offset, bytes.len(), |number, _, _| {
            self.lost.remove(&number);
            self.unflushed.entry(number).or_insert_with(|| self.pages.get(&number).cloned().unwrap_or_else(|| vec![0; PAGE]));
        });
        put(&mut self.pages, offset, bytes);
        if let Some(lasting) = self.lasting.as_mut().filter(|_| lasts) {
            put(lasting, offset, bytes);
        }
        Ok(())
    }

    pub fn flush(&mut self) -> Result<(), u32> {
        let flushed = self.fails(|fault| if let Fault::Flushes(error, for_ever) = fault { Some((error, for_ever)) } else { None });
        let unflushed = std::mem::take(&mut self.unflushed);
        if flushed.is_err() {
            for (number, page) in unflushed {
                self.lost.entry(number).or_insert(page);
            }
        }
        flushed
    }
}

fn put(pages: &mut Pages, offset: u64, bytes: &[u8]) {
    each_page(offset, bytes.len(), |number, inside, at| {
        let length = inside.len();
        pages.entry(number).or_insert_with(|| vec![0; PAGE])[inside].copy_from_slice(&bytes[at..at + length]);
    });
}

/// The pages of a range: each one's number, the part of it, and where that is in the range.
fn each_page(offset: u64, length: usize, mut give: impl FnMut(u64, std::ops::Range<usize>, usize)) {
    let mut at = 0;
    while at < length {
        let inside = ((offset + at as u64) % PAGE as u64) as usize;
        let part = (PAGE - inside).min(length - at);
        give((offset + at as u64) / PAGE as u64, inside..inside + part, at);
        at += part;
    }
}
