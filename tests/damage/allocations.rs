//! An allocator that remembers the largest piece anyone asked for.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// More than any test here needs, and far less than a wrong length asks for.
pub const BYTES_MAX: usize = 64 * 1024 * 1024;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, watched.
pub struct Counting;

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: the caller's promises are those of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, so from the system.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Relaxed);
        // SAFETY: as for `dealloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Asserts that nobody in this process ever asked for more than the limit.
pub fn stayed_small() {
    let largest = LARGEST.load(Relaxed);
    assert!(largest <= BYTES_MAX, "someone allocated {largest} bytes at once");
}
