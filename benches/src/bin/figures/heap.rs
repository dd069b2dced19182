//! The system's allocator with a count of what is held, kept only while it is asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static HELD: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// The allocator; costs one relaxed load more than the system's while nothing is counted.
pub struct Counting;

/// Starts the count at zero.
pub fn count_from_here() {
    HELD.store(0, Ordering::SeqCst);
    PEAK.store(0, Ordering::SeqCst);
    COUNTING.store(true, Ordering::SeqCst);
}

/// Bytes asked for and not given back since the count began.
pub fn held() -> i64 {
    HELD.load(Ordering::SeqCst)
}

/// The most that was held at once since the count began or the last call of this, which starts anew
/// from what is held now.
pub fn take_peak() -> i64 {
    PEAK.swap(HELD.load(Ordering::SeqCst), Ordering::SeqCst)
}

/// Ends the count.
pub fn stop_counting() {
    COUNTING.store(false, Ordering::SeqCst);
}

fn add(bytes: usize, sign: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        let bytes = sign * i64::try_from(bytes).unwrap_or(i64::MAX);
        let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(held, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size(), 1);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size(), 1);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        add(layout.size(), -1);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(layout.size(), -1);
        add(size, 1);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}
