//! The allocator of what is Rust in a worker, and of nginx's pools: the C library's, with lists of freed blocks before it.
//!
//! A request makes some ten short-lived blocks in quiche, of as many sizes and mixed with nginx's large ones, for which
//! glibc's own cache of seven blocks of a size is too small. Only short lists are kept, and blocks are the C library's:
//! what is above the limit goes back to it one by one.

use std::alloc::GlobalAlloc;
use std::alloc::Layout;
use std::alloc::System;
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Sizes are rounded up to a multiple of this many octets up to `SHORT`, which is also the alignment of all blocks.
const SHORT_STEP: usize = 16;
const SHORT: usize = 1024;
/// The same for larger ones, but that the last list ends here: a piece of 4,096 octets, as bodies are buffered in, and
/// its two counters.
const LONG_STEP: usize = 512;
const LONG: usize = 4096 + 16;

const SHORT_LISTS: usize = SHORT / SHORT_STEP;
const LISTS: usize = SHORT_LISTS + (LONG - SHORT).div_ceil(LONG_STEP);

/// What a list may hold, in octets: blocks of a hundred requests at once, mostly.
const SHORT_LIMIT: usize = 64 * 1024;
/// The same for blocks above `SHORT`, such as those of pools.
const LONG_LIMIT: usize = 256 * 1024;
/// The same for the last list: acknowledgments free many pieces at once.
const LAST_LIMIT: usize = 512 * 1024;

#[derive(Clone, Copy)]
struct List {
    /// Freed blocks; the first word of each leads to the next.
    head: *mut u8,
    len: usize,
}

type Lists = UnsafeCell<[List; LISTS]>;

const EMPTY: List = List {
    head: null_mut(),
    len: 0,
};

thread_local! {
    /// Without a destructor, so it is there for as long as the thread. Workers have one thread that calls quiche;
    /// those that read files never do.
    static FREED: Lists = const { UnsafeCell::new([EMPTY; LISTS]) };
}

/// The allocator; see the head of this file.
pub struct Cached;

/// The list for a layout, and the size of its blocks.
#[inline(always)]
fn list_of(layout: Layout) -> Option<(usize, usize)> {
    let size = layout.size();
    if cfg!(feature = "libc-allocator") || layout.align() > SHORT_STEP || size > LONG {
        None
    } else if size <= SHORT {
        // Nobody asks for nothing.
        let steps = size.div_ceil(SHORT_STEP).max(1);
        Some((steps - 1, steps * SHORT_STEP))
    } else {
        let steps = (size - SHORT).div_ceil(LONG_STEP);
        let size = (SHORT + steps * LONG_STEP).min(LONG);
        Some((SHORT_LISTS + steps - 1, size))
    }
}

/// What the list of blocks of this size may hold, in octets.
#[inline(always)]
fn limit(size: usize) -> usize {
    match size {
        ..=SHORT => SHORT_LIMIT,
        LONG => LAST_LIMIT,
        _ => LONG_LIMIT,
    }
}

/// What the lists of this thread have, in octets as glibc's `mallinfo2()` counts blocks in use: with 16 for each. It
/// counts these, too, which nothing uses.
#[no_mangle]
pub extern "C" fn ngx_quic_freed_bytes() -> usize {
    let size = |index: usize| {
        if index < SHORT_LISTS {
            (index + 1) * SHORT_STEP
        } else {
            (SHORT + (index + 1 - SHORT_LISTS) * LONG_STEP).min(LONG)
        }
    };
    FREED.with(|lists| {
        let lists = unsafe { &*lists.get() };
        let each = lists.iter().enumerate();
        each.map(|(index, list)| list.len * (size(index) + 16))
            .sum()
    })
}

/// The layout of a block of a pool.
#[inline(always)]
fn pool_block(size: usize) -> Layout {
    Layout::from_size_align(size, SHORT_STEP).expect("no pool is as large as half of memory")
}

/// A block of `size` octets for a pool, aligned to 16, or null. A request takes and frees some three.
#[no_mangle]
pub extern "C" fn ngx_quic_alloc_block(size: usize) -> *mut u8 {
    unsafe { Cached.alloc(pool_block(size)) }
}

/// Takes a block back.
///
/// # Safety
/// `ptr` is of [`ngx_quic_alloc_block`] for the same `size`, and nothing uses it any more.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_free_block(ptr: *mut u8, size: usize) {
    Cached.dealloc(ptr, pool_block(size));
}

/// What the C library is asked for.
#[inline(always)]
unsafe fn block(size: usize) -> Layout {
    Layout::from_size_align_unchecked(size, SHORT_STEP)
}

// SAFETY: a block has at least the size and alignment asked for, comes from `System`, and is in a list only between
// `dealloc` and the next `alloc` of this thread. Nothing in here allocates or panics.
unsafe impl GlobalAlloc for Cached {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((index, size)) = list_of(layout) else {
            return System.alloc(layout);
        };

        FREED.with(|lists| {
            let list = &mut (*lists.get())[index];
            let head = list.head;
            if head.is_null() {
                return System.alloc(block(size));
            }
            list.head = *(head as *mut *mut u8);
            list.len -= 1;
            head
        })
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let Some((index, size)) = list_of(layout) else {
            return System.dealloc(ptr, layout);
        };

        FREED.with(|lists| {
            let list = &mut (*lists.get())[index];
            if list.len * size >= limit(size) {
                return System.dealloc(ptr, block(size));
            }
            *(ptr as *mut *mut u8) = list.head;
            list.head = ptr;
            list.len += 1;
        })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if list_of(layout).is_none() {
            // Perhaps fresh from the kernel, and not written to here.
            return System.alloc_zeroed(layout);
        }
        let ptr = self.alloc(layout);
        if !ptr.is_null() {
            ptr.write_bytes(0, layout.size());
        }
        ptr
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
        match (list_of(layout), list_of(new_layout)) {
            (None, None) => System.realloc(ptr, layout, new_size),
            (Some((old, _)), Some((new, _))) if old == new => ptr,
            _ => {
                let moved = self.alloc(new_layout);
                if !moved.is_null() {
                    ptr.copy_to_nonoverlapping(moved, layout.size().min(new_size));
                    self.dealloc(ptr, layout);
                }
                moved
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    /// How many blocks the list has that this size comes from.
    fn len(size: usize) -> usize {
        let (index, _) = list_of(layout(size)).unwrap();
        FREED.with(|lists| unsafe { (*lists.get())[index].len })
    }

    #[test]
    fn blocks_hold_what_their_list_is_for() {
        let mut last = (0, 16);
        for size in 1..=LONG {
            let (index, room) = list_of(layout(size)).unwrap();
            assert!(room >= size && room % SHORT_STEP == 0 && index < LISTS);
            // One list, one size; no gap between them.
            assert!(
                (index, room) == last || (index == last.0 + 1 && size == last.1 + 1),
                "{size}"
            );
            last = (index, room);
        }
        assert_eq!(last, (LISTS - 1, LONG));
        assert_eq!(list_of(layout(LONG + 1)), None);
        assert_eq!(list_of(Layout::from_size_align(64, 32).unwrap()), None);
    }

    #[test]
    fn freed_blocks_come_back_up_to_a_limit() {
        // A size that nothing else in this thread has.
        const SIZE: usize = 3000;
        unsafe {
            let first = Cached.alloc(layout(SIZE));
            first.write_bytes(0xff, SIZE);
            Cached.dealloc(first, layout(SIZE));
            assert_eq!(len(SIZE), 1);
            // Zeroed although it was used before.
            let again = Cached.alloc_zeroed(layout(SIZE - 1));
            assert_eq!(again, first);
            assert!((0..SIZE - 1).all(|i| *again.add(i) == 0));
            Cached.dealloc(again, layout(SIZE - 1));

            let blocks: Vec<_> = (0..100).map(|_| Cached.alloc(layout(SIZE))).collect();
            assert_eq!(len(SIZE), 0);
            for ptr in blocks {
                Cached.dealloc(ptr, layout(SIZE));
            }
            assert_eq!(len(SIZE), LONG_LIMIT.div_ceil(3072));
            let freed = ngx_quic_freed_bytes();
            let one = Cached.alloc(layout(SIZE));
            assert_eq!(freed - ngx_quic_freed_bytes(), 3072 + 16);
            Cached.dealloc(one, layout(SIZE));
        }
    }

    #[test]
    fn blocks_of_pools_come_from_the_same_lists() {
        const SIZE: usize = 2500;
        let block = ngx_quic_alloc_block(SIZE);
        assert_eq!(block as usize % 16, 0);
        unsafe {
            block.write_bytes(0xff, SIZE);
            ngx_quic_free_block(block, SIZE);
            assert_eq!(len(SIZE), 1);
            let again = Cached.alloc(layout(SIZE));
            assert_eq!((again, len(SIZE)), (block, 0));
            Cached.dealloc(again, layout(SIZE));
        }
        // What no list has.
        let block = ngx_quic_alloc_block(100_000);
        unsafe { ngx_quic_free_block(block, 100_000) };
    }

    #[test]
    fn blocks_that_grow_keep_what_they_have() {
        unsafe {
            let mut ptr = Cached.alloc(layout(1));
            *ptr = 1;
            let mut size = 1;
            // Within a list, from one to the next, past all of them, and back.
            for new in [9, 16, 17, 1000, 1025, 4112, 4113, 100_000, 5000, 4000, 20] {
                ptr = Cached.realloc(ptr, layout(size), new);
                for i in size..new {
                    *ptr.add(i) = (i % 251) as u8;
                }
                size = new;
                assert!((1..size).all(|i| *ptr.add(i) == (i % 251) as u8) && *ptr == 1);
            }
            Cached.dealloc(ptr, layout(size));
        }
    }
}
