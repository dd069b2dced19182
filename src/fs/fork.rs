//! Noticing that this process is a forked child of the one that opened a handle.
//!
//! A child has a copy of the handle and shares the parent's locks and files: whatever it did with
//! them, the parent would not know. On Linux a page that the kernel wipes in a child tells it for the
//! price of one load; elsewhere, and where the kernel has no such page, the process id does.

use std::sync::atomic::Ordering::Relaxed;

use super::page::SharedPage;

/// The process that a handle was opened in.
#[derive(Debug)]
pub(crate) struct Home {
    /// Holds 1 in that process, 0 in its children.
    page: Option<SharedPage>,
    pid: u32,
}

impl Home {
    /// This process.
    pub fn here() -> Home {
        let page = SharedPage::wiped_by_fork().ok();
        if let Some(page) = &page {
            page.word(0).store(1, Relaxed);
        }
        Home { page, pid: std::process::id() }
    }

    /// Whether this is still that process.
    pub fn is_here(&self) -> bool {
        match &self.page {
            Some(page) => page.word(0).load(Relaxed) == 1,
            None => self.pid == std::process::id(),
        }
    }
}
