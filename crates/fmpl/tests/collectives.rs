//! Communicators and collectives between simulated processes.

mod common;

use boundary::UserBuf;
use common::{MANNERS, Rank, job};
use fmpl::reduce::{self, Args};
use fmpl::{Func, Host, barrier, bcast, build};
use fmpl_table::{code, consts};
use testkit::Manner;

const SIZES: [u32; 5] = [1, 2, 3, 5, 11];

/// A pattern that differs by seed and place.
fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i * 7 + seed * 31 + i / 251) as u8)
        .collect()
}

fn cast(h: &Rank, comm: i32, me: u32, root: u32, len: usize, seed: u32) {
    let mut b = match me == root {
        true => pattern(len, seed),
        false => vec![0; len],
    };
    let buf = UserBuf::of_array(&mut b);
    let done = bcast::bcast(h, buf, len as i64, root as i32, comm);
    assert_eq!(done, code::SUCCESS);
    assert_eq!(b, pattern(len, seed), "{me} of root {root}");
}

#[test]
fn everybody_gets_what_the_roots_have() {
    for (manner, size) in MANNERS.iter().flat_map(|&m| SIZES.map(|s| (m, s))) {
        job(size, manner, 1, |h, me| {
            let lens = [0, 1, 8192, 65_536, 65_537, 300_001];
            for (i, len) in (0..).zip(lens) {
                for root in 0..size.min(4) {
                    cast(h, 0, me, root, len, i + root);
                }
            }
            assert_eq!(barrier::barrier(h, 0), 0);
        });
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_are_in() {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    // The last two: looked at by everybody, and a tree.
    let sizes = [1, 2, 3, 4, 5, 8, 11, 16, 17];
    for (manner, size) in MANNERS.iter().flat_map(|&m| sizes.map(|s| (m, s))) {
        let inside = AtomicU32::new(0);
        job(size, manner, 1, |h, me| {
            for round in 1..20 {
                if me == round % size {
                    std::thread::yield_now();
                }
                inside.fetch_add(1, SeqCst);
                assert_eq!(barrier::barrier(h, 0), 0);
                assert!(inside.load(SeqCst) >= round * size);
            }
        });
    }
}

/// `inout = 31 inout + input`: the result shows the order.
unsafe extern "C" fn digits(inout: *mut i32, input: *const i32, n: *const i32) {
    // SAFETY: FMPL calls it with two arrays of `*n` integers.
    unsafe {
        for i in 0..*n as usize {
            let both = (*inout.add(i)).wrapping_mul(31).wrapping_add(*input.add(i));
            *inout.add(i) = both;
        }
    }
}

fn digits_func(element: u32) -> Func {
    // SAFETY: a function of the prototype that FMPL demands.
    let function = unsafe { boundary::UserFn::new(digits as *const () as usize) };
    Func::User { function, element }
}

#[test]
fn the_programs_function_is_called() {
    job(4, MANNERS[1], 1, |h, me| {
        let mut b = ints(&mut [me as i32 + 1; 3]);
        let mut work = vec![0; b.len()];
        let args = Args {
            buf: UserBuf::of_array(&mut b),
            count: 3,
            func: digits_func(4),
            comm: 0,
            work: UserBuf::of_array(&mut work),
        };
        assert_eq!(reduce::allreduce(h, &args), 0);
        let two = |a: i32, b: i32| a * 31 + b;
        let expected = two(two(1, 2), two(3, 4));
        assert_eq!(b, ints(&mut [expected; 3]));
    });
}

fn ints(values: &mut [i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn sum(h: &Rank, comm: i32, mine: i32, root: Option<i32>) -> i32 {
    const N: usize = 700;
    let mut b = ints(&mut [mine; N]);
    let mut work = vec![0; b.len()];
    let args = Args {
        buf: UserBuf::of_array(&mut b),
        count: N as i64,
        func: Func::builtin(1).unwrap(),
        comm,
        work: UserBuf::of_array(&mut work),
    };
    let done = match root {
        Some(root) => reduce::reduce(h, &args, root),
        None => reduce::allreduce(h, &args),
    };
    assert_eq!(done, 0);
    let last = b.len() - 4;
    assert_eq!(b[..4], b[last..]);
    i32::from_ne_bytes([b[0], b[1], b[2], b[3]])
}

#[test]
fn sums_are_right_at_the_root_and_everywhere() {
    for (manner, size) in MANNERS.iter().flat_map(|&m| SIZES.map(|s| (m, s))) {
        job(size, manner, 1, |h, me| {
            let total = (1..=size as i32).sum::<i32>();
            for root in 0..size as i32 {
                let got = sum(h, 0, me as i32 + 1, Some(root));
                assert!(me as i32 != root || got == total);
            }
            assert_eq!(sum(h, 0, me as i32 + 1, None), total);
        });
    }
}

/// A reduction of `n` integers that differ by place, to this root, into `b`; its code.
fn reduce_many(h: &Rank, me: u32, root: u32, n: usize) -> (i32, Vec<u8>) {
    let mut values: Vec<i32> = (0..n as i32).map(|i| i * 5 + me as i32).collect();
    let mut b = ints(&mut values);
    let mut work = vec![0; b.len()];
    let args = Args {
        buf: UserBuf::of_array(&mut b),
        count: n as i64,
        func: Func::builtin(1).unwrap(),
        comm: 0,
        work: UserBuf::of_array(&mut work),
    };
    (reduce::reduce(h, &args, root as i32), b)
}

#[test]
fn reductions_of_many_pieces_in_a_row() {
    // One piece, several, as many as there are places, and many more; nothing at all between them.
    for (manner, size) in MANNERS.iter().flat_map(|&m| [2, 3, 6, 8].map(|s| (m, s))) {
        // As much as the root takes from all at once, and more.
        let limit = (64 << 10) / 4 / size as usize;
        let lens = [
            3,
            2500,
            16_384,
            0,
            70_001,
            0,
            1,
            33_000,
            limit,
            limit + 1,
            limit,
            5,
        ];
        job(size, manner, 1, |h, me| {
            for (i, n) in (0..).zip(lens) {
                let root = i % size;
                let (done, b) = reduce_many(h, me, root, n);
                assert_eq!(done, code::SUCCESS);
                let ranks = (0..size as i32).sum::<i32>();
                let mut all: Vec<i32> =
                    (0..n as i32).map(|i| i * 5 * size as i32 + ranks).collect();
                assert!(me != root || b == ints(&mut all), "{n} to {root} of {size}");
            }
        });
    }
}

#[test]
fn lengths_that_differ_are_noticed_and_do_no_harm() {
    // Places for pieces hold less than the longer of these.
    let lengths = [(40_000, 7), (7, 40_000), (3000, 0), (0, 3000)];
    for (size, (most, one)) in [3, 8].iter().flat_map(|&s| lengths.map(|l| (s, l))) {
        job(size, Manner::SHARED, 1, |h, me| {
            for other in 0..size {
                let n = if me == other { one } else { most };
                let (done, _) = reduce_many(h, me, 0, n);
                assert!(me != 0 || done == code::ERR_TRUNCATE, "{other} of {size}");
                // Ranks that go on have not lost count.
                for n in [100, 9000] {
                    let (done, b) = reduce_many(h, me, 1, n);
                    let (p, all) = (size as i32, (0..size as i32).sum::<i32>());
                    let mut sum: Vec<i32> = (0..n as i32).map(|i| i * 5 * p + all).collect();
                    assert_eq!(done, code::SUCCESS);
                    assert!(me != 1 || b == ints(&mut sum), "{other} of {size}");
                }
            }
        });
    }
}

/// A reduction of all functions that are there, of elements that differ, to this root, into arrays; by messages or not.
fn reduce_all_kinds(h: &Rank, me: u32, root: u32, n: usize, software: bool) -> Vec<Vec<u8>> {
    assert_eq!(barrier::barrier(h, 0), 0);
    h.with(|core, _| core.set_software(software));
    let numbers = (0..80).filter_map(|number| Func::builtin(number).ok());
    numbers
        .map(|func| {
            // As numbers of any type: small ones, the sums of which are rounded.
            let len = n * func.size() as usize;
            let mut b: Vec<u8> = (0..len as u32)
                .map(|i| match i % 4 {
                    3 => 0x3f + (i / 4 * 7 + me * 3) as u8 % 3,
                    _ => (i * 31 + me * 77 + i / 97) as u8,
                })
                .collect();
            let mut work = vec![0; len];
            let args = Args {
                buf: UserBuf::of_array(&mut b),
                count: n as i64,
                func,
                comm: 0,
                work: UserBuf::of_array(&mut work),
            };
            assert_eq!(reduce::reduce(h, &args, root as i32), code::SUCCESS);
            b
        })
        .collect()
}

#[test]
fn bits_are_the_same_by_any_way() {
    for size in [3, 4, 5, 7, 8, 13, 16, 17] {
        job(size, Manner::SHARED, 1, |h, me| {
            // One step, several with a rest, and more than fits.
            for (i, n) in (0..).zip([1, 64, 350, 700, 1500]) {
                let root = (i * 3 + 1) % size;
                let flags = reduce_all_kinds(h, me, root, n, false);
                let messages = reduce_all_kinds(h, me, root, n, true);
                assert!(me != root || flags == messages, "{n} of {size}");
            }
            assert_eq!(barrier::barrier(h, 0), 0);
        });
    }
}

/// What rank `dead` misses, which the others call when it is gone and before it is known to be.
fn without_one(dead: u32, call: impl Fn(&Rank, u32) -> Option<i32> + Sync) {
    use std::sync::atomic::Ordering::SeqCst;
    use testkit::World;
    let world = World::new(5, Manner::SHARED);
    let through = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for rank in (0..5).filter(|&r| r != dead) {
            let (world, call, through) = (world.clone(), &call, &through);
            scope.spawn(move || {
                let h = &Rank::new(mtmi::Matched::new(world.join(rank)), 1);
                if rank == (dead + 1) % 5 {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    world.kill(dead);
                }
                for _ in 0..4 {
                    if let Some(code) = call(h, rank) {
                        assert_eq!(code, code::ERR_PEER, "{rank} without {dead}");
                    }
                }
                // Buffers that are asked back need those who would fill them.
                through.fetch_add(1, SeqCst);
                while through.load(SeqCst) < 4 {
                    h.progress();
                    std::thread::yield_now();
                }
            });
        }
    });
}

#[test]
fn nobody_waits_for_the_dead() {
    for dead in [0, 2, 4] {
        without_one(dead, |h, _| Some(barrier::barrier(h, 0)));
        let root = (dead + 1) % 5;
        // From all at once; a root has to miss it, others need not.
        without_one(dead, |h, me| {
            let (done, _) = reduce_many(h, me, root, 100);
            (me == root).then_some(done)
        });
    }
    // Whoever has put out for a dead root finds no place for more.
    without_one(3, |h, me| {
        let codes = [0; 9].map(|_| reduce_many(h, me, 3, 100).0);
        assert!(codes.iter().all(|&c| c == 0 || c == code::ERR_PEER));
        Some(codes[8])
    });
}

#[test]
fn all_that_are_left_hear_of_a_death_in_any_collective() {
    let kinds = ["barrier", "bcast", "reduce", "allreduce", "create", "list"];
    for (dead, software) in [0, 2, 4].iter().flat_map(|&d| [(d, false), (d, true)]) {
        for (kind, n) in kinds.iter().flat_map(|&k| [(k, 3), (k, 25_000)]) {
            let root = (dead + 1) % 5;
            without_one(dead, |h, me| {
                h.with(|core, _| core.set_software(software));
                let once = || match kind {
                    "barrier" => barrier::barrier(h, 0),
                    "bcast" => {
                        let mut b = vec![0; n * 4];
                        let buf = UserBuf::of_array(&mut b);
                        bcast::bcast(h, buf, n as i64 * 4, root as i32, 0)
                    }
                    "reduce" => reduce_many(h, me, root, n).0,
                    "create" => build::create(h, 1).err().unwrap_or(0),
                    "list" => build::from_ranks(h, 0, &[0, 1, 2, 3, 4], 1)
                        .err()
                        .unwrap_or(0),
                    _ => {
                        let mut b = vec![0; n * 4];
                        let mut work = vec![0; n * 4];
                        let args = Args {
                            buf: UserBuf::of_array(&mut b),
                            count: n as i64,
                            func: Func::builtin(1).unwrap(),
                            comm: 0,
                            work: UserBuf::of_array(&mut work),
                        };
                        reduce::allreduce(h, &args)
                    }
                };
                // Who only sends may be through with some before it hears of it.
                let heard = (0..1000).map(|_| once()).find(|&c| c != code::SUCCESS);
                assert_eq!(once(), code::ERR_PEER);
                heard.or(Some(code::SUCCESS))
            });
        }
    }
}

#[test]
fn flags_may_be_anything() {
    use mtmi::Boards;
    for value in [u64::MAX, 1 << 63, 1 << 32 | 1] {
        job(4, Manner::SHARED, 1, |h, me| {
            // All are in the job.
            assert_eq!(barrier::barrier(h, 0), 0);
            h.with(|core, _| core.set_software(true));
            assert_eq!(barrier::barrier(h, 0), 0);
            if me == 2 {
                // The page of flags of the communicator of all.
                let flags = (0..4096).step_by(8);
                h.with(|_, below| flags.for_each(|at| below.board_store(at, value)));
            }
            assert_eq!(barrier::barrier(h, 0), 0);
            h.with(|core, _| core.set_software(false));
            if me != 2 {
                let (done, _) = reduce_many(h, me, 1, 100);
                assert!(me != 1 || done == code::ERR_TRUNCATE);
            }
            h.with(|core, _| core.set_software(true));
        });
    }
}

#[test]
fn the_order_is_the_documented_one() {
    // Doubles of very different size: the sum depends on the order.
    let values: Vec<f64> = [1e16, 1.0, -1e16, 3.0, 1e-3, 7e15, -2.0, -7e15, 0.3]
        .into_iter()
        .cycle()
        .take(17)
        .collect();
    let sizes = [2, 3, 5, 7, 8, 16, 17u32];
    for (manner, size) in MANNERS[..2].iter().flat_map(|&m| sizes.map(|s| (m, s))) {
        for root in (0..size).step_by(size as usize / 6 + 1) {
            let expected = expect(&values[..size as usize], root);
            job(size, manner, 1, |h, me| {
                let mut b = f64::to_ne_bytes(values[me as usize]);
                let mut work = [0; 8];
                let args = Args {
                    buf: UserBuf::of_array(&mut b),
                    count: 1,
                    func: Func::builtin(2 * 16 + 1).unwrap(),
                    comm: 0,
                    work: UserBuf::of_array(&mut work),
                };
                assert_eq!(reduce::reduce(h, &args, root as i32), 0);
                if me == root {
                    assert_eq!(f64::from_ne_bytes(b).to_bits(), expected.to_bits());
                }
            });
        }
    }
}

/// The sum along the documented tree.
fn expect(values: &[f64], root: u32) -> f64 {
    fn node(values: &[f64], root: u32, v: u32) -> f64 {
        let p = values.len() as u32;
        let mut own = values[((v + root) % p) as usize];
        let mut step = 1;
        while step < p && v & step == 0 {
            if v + step < p {
                own += node(values, root, v + step);
            }
            step *= 2;
        }
        own
    }
    node(values, root, 0)
}

#[test]
fn bad_arguments_of_collectives() {
    job(2, MANNERS[0], 1, |h, _| {
        let mut b = [0u8; 8];
        let buf = UserBuf::of_array(&mut b);
        assert_eq!(bcast::bcast(h, buf, 8, 2, 0), code::ERR_RANK);
        assert_eq!(bcast::bcast(h, buf, -1, 0, 0), code::ERR_SIZE);
        assert_eq!(bcast::bcast(h, UserBuf::NULL, 8, 0, 0), code::ERR_BUFFER);
        assert_eq!(bcast::bcast(h, buf, 8, 0, 9), code::ERR_COMM);
        assert_eq!(barrier::barrier(h, -5), code::ERR_COMM);
        let args = Args {
            buf,
            count: 2,
            func: Func::builtin(1).unwrap(),
            comm: 0,
            work: UserBuf::NULL,
        };
        assert_eq!(reduce::reduce(h, &args, 0), code::ERR_BUFFER);
        let args = Args {
            count: i64::MAX,
            work: buf,
            ..args
        };
        assert_eq!(reduce::allreduce(h, &args), code::ERR_SIZE);
        let func = digits_func(0);
        let args = Args {
            count: 1,
            func,
            ..args
        };
        assert_eq!(reduce::allreduce(h, &args), code::ERR_FUNCTION);
        assert_eq!(build::free(h, consts::COMM_WORLD), code::ERR_COMM);
    });
}

#[test]
fn keys_decide_who_is_in() {
    for manner in MANNERS {
        job(5, manner, 2, |h, me| {
            let key = [3, 0, 9, 3, 9][me as usize];
            let comm = build::create(h, key).unwrap();
            if me == 1 {
                assert_eq!(comm, consts::COMM_NULL);
                return;
            }
            let (size, members) = h.with(|core, _| {
                let comm = core.comm(comm).unwrap();
                (comm.size, comm.members())
            });
            assert_eq!(size, 2);
            let expected = if key == 3 { [0, 3] } else { [2, 4] };
            assert_eq!(members, expected);
            let total = expected.iter().sum::<u32>() as i32;
            assert_eq!(sum(h, comm, me as i32, None), total);
            assert_eq!(build::free(h, comm), 0);
            assert_eq!(barrier::barrier(h, comm), code::ERR_COMM);
        });
    }
}

#[test]
fn numbers_are_used_again_and_their_flags_begin_again() {
    for manner in MANNERS {
        job(3, manner, 1, |h, me| {
            for round in 0..12 {
                let out = round % 3;
                let key = if me == out { 0 } else { 1 };
                let comm = build::create(h, key).unwrap();
                if me == out {
                    continue;
                }
                for i in 0..round {
                    assert_eq!(barrier::barrier(h, comm), 0);
                    let rank = h.with(|core, _| core.comm(comm).unwrap().rank);
                    cast(h, comm, rank, i % 2, 70_000, i);
                }
                assert_eq!(build::free(h, comm), 0);
            }
        });
    }
}

#[test]
fn lists_make_communicators_among_their_members_only() {
    for manner in MANNERS {
        job(4, manner, 1, |h, me| {
            // A grid of 2 by 2: rows and columns overlap.
            let (row, column) = (me / 2 * 2, me % 2);
            let row = build::from_ranks(h, 0, &[row as i32 + 1, row as i32], 0).unwrap();
            let column = build::from_ranks(h, 0, &[column as i32, column as i32 + 2], 1).unwrap();
            for i in 0..10 {
                assert_eq!(sum(h, row, me as i32, None), (me / 2 * 4 + 1) as i32);
                assert_eq!(sum(h, column, me as i32, None), (me % 2 * 2 + 2) as i32);
                let rank = h.with(|core, _| core.comm(column).unwrap().rank);
                cast(h, column, rank, i % 2, 10_000, i);
                assert_eq!(barrier::barrier(h, row), 0);
            }
            let refused = build::from_ranks(h, 0, &[me as i32, me as i32], 0);
            assert_eq!(refused, Err(code::ERR_ARGUMENT));
            assert_eq!(
                build::from_ranks(h, 0, &[me as i32, 4], 0),
                Err(code::ERR_RANK)
            );
            assert_eq!(build::free(h, row), 0);
            assert_eq!(build::free(h, column), 0);
        });
    }
}

#[test]
fn a_count_that_differs_is_noticed_by_all() {
    let world = testkit::World::new(3, Manner::NETWORK);
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let world = world.clone();
            scope.spawn(move || {
                let count = if rank == 1 { 5 } else { 4 };
                let below = mtmi::Matched::new(world.join(rank));
                let process = Rank::new(below, count);
                assert_eq!(build::agree_on_count(&process, count), code::ERR_COUNT);
            });
        }
    });
}

#[test]
fn flags_and_messages_do_the_same() {
    job(5, MANNERS[0], 1, |h, me| {
        for software in [true, false, true] {
            assert_eq!(barrier::barrier(h, 0), 0);
            h.with(|core, _| core.set_software(software));
            for i in 0..5 {
                cast(h, 0, me, i % 5, 66_000, i);
                assert_eq!(barrier::barrier(h, 0), 0);
            }
        }
    });
}
