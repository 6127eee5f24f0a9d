//! No controller allocates for an ACK, a loss or a trace.

mod common;

use common::*;

use std::alloc::GlobalAlloc;
use std::alloc::Layout;
use std::alloc::System;
use std::cell::Cell;

use mpq_decision::cc;
use mpq_decision::PathId;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts for each thread.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        System.dealloc(block, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

#[test]
fn nothing_is_allocated_after_the_paths_have_joined() {
    let before = allocations();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(allocations(), before + 1, "the count works");

    for entry in cc::CONTROLLERS {
        let mut sender = Sender::new(entry.name, &[20, 50, 80]);
        let before = allocations();
        for step in 0..6000_u32 {
            let id = u64::from(step % 3);
            // A queue that comes and goes, over 30 s.
            let path = sender.paths.get_mut(PathId(id)).unwrap();
            path.one_way_delay_micros = Some(i64::from(step / 100 % 5) * 30_000);
            match step % 997 {
                13 => sender.lose(id, MS),
                _ => sender.ack(id, 2),
            }
            sender.now += 5 * MS;
            let trace = sender.group.trace(sender.now, &sender.paths, PathId(id));
            std::hint::black_box(trace);
        }
        assert_eq!(allocations() - before, 0, "{}", entry.name);
    }
}
