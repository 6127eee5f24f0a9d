//! No controller allocates for an ACK, a loss or a trace, no scheduler for a pick or a copy.

mod common;

use common::bench::Bench;
use common::bench::NEW;
use common::*;

use std::alloc::GlobalAlloc;
use std::alloc::Layout;
use std::alloc::System;
use std::cell::Cell;

use mpq_decision::cc;
use mpq_decision::sched;
use mpq_decision::sched::Moment;
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

#[test]
fn nothing_is_allocated_for_a_pick() {
    for entry in sched::SCHEDULERS {
        let mut bench = Bench::new(entry.name, &[(20, 9), (50, 9), (80, 0)]);
        bench.pick(NEW);
        let before = allocations();
        for step in 0..1000_u64 {
            bench.now += 5 * MS;
            bench.connection.sent_bytes += 1200;
            bench.path(step % 3).in_flight_bytes = step % 100 * 1200;
            std::hint::black_box(bench.pick(NEW));
            std::hint::black_box(bench.copies(0, 1, Moment::BeforeNew));
            std::hint::black_box(bench.copies(1, 2, Moment::NothingNew));
        }
        assert_eq!(allocations() - before, 0, "{}", entry.name);
    }
}
