//! An allocator that refuses any single request over 16 MiB: a decoder that believes a length it
//! read ends the test there, on any machine.

use std::alloc::{GlobalAlloc, Layout, System};

const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

struct Bounded;

// SAFETY: every request is either answered by the system's allocator as it is, or by null, which
// means that there is no memory.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > REQUEST_BYTES_MAX { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > REQUEST_BYTES_MAX { std::ptr::null_mut() } else { unsafe { System.realloc(block, layout, size) } }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static BOUNDED: Bounded = Bounded;
