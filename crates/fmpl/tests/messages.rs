//! Sends and receives between simulated processes: what a program may rely on.

mod common;

use std::time::Duration;

use boundary::UserBuf;
use common::{MANNERS, Rank, job};
use fmpl::p2p::{self, Args, Name};
use fmpl::{Host, PROGRAM, Stash, any, barrier, finish};
use fmpl_table::{code, consts};

const ANY: i32 = consts::TAG_ANY;

/// A buffer and where it goes.
fn to(bytes: &mut [u8], rank: u32, mai: i32) -> Args {
    Args {
        size: bytes.len() as i64,
        buf: UserBuf::of_array(bytes),
        rank: rank as i32,
        mai,
        comm: 0,
    }
}

/// The name of an operation in the world.
fn name(rank: u32, mai: i32) -> Name {
    Name {
        rank: rank as i32,
        mai,
        comm: 0,
    }
}

fn stash(h: &Rank, stash: Stash, ms: Option<u64>) {
    let patience = ms.map(Duration::from_millis);
    let set = h.with(|core, _| core.area(PROGRAM).unwrap().set_stash(stash, patience));
    assert_eq!(set, code::SUCCESS);
}

fn check(h: &Rank) -> (u32, u32) {
    h.progress();
    h.with(|core, _| core.area(PROGRAM).unwrap().check())
}

fn meet(h: &Rank) {
    assert_eq!(barrier::barrier(h, 0), code::SUCCESS);
}

#[test]
fn messages_of_all_lengths_reach_everybody_and_oneself() {
    for manner in MANNERS {
        for len in [0, 1, 8, 4096, 200_000] {
            job(3, manner, 4, |h, me| {
                let mut out: Vec<u8> = (0..len).map(|i| (i as u32 + me) as u8).collect();
                let mut ins = vec![vec![0; len]; 3];
                for (peer, buf) in (0..).zip(&mut ins) {
                    assert_eq!(p2p::irecv(h, &to(buf, peer, 2)), 0);
                }
                for peer in 0..3 {
                    assert_eq!(p2p::send(h, &to(&mut out, peer, 2)), 0);
                }
                for (peer, buf) in (0..).zip(&ins) {
                    let end = p2p::irecv_wait(h, name(peer, 2)).unwrap();
                    assert_eq!((end.code, end.bytes, end.index), (0, len as u64, 2));
                    let right = |(i, b): (usize, &u8)| *b == (i as u32 + peer) as u8;
                    assert!(buf.iter().enumerate().all(right));
                }
                meet(h);
            });
        }
    }
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    job(2, MANNERS[0], 4, |h, me| {
        let other = 1 - me;
        let mut b = [0u8; 8];
        let good = to(&mut b, other, 1);
        let wrong = [
            (Args { rank: 2, ..good }, code::ERR_RANK),
            (Args { rank: -1, ..good }, code::ERR_RANK),
            (Args { mai: 4, ..good }, code::ERR_INDEX),
            (Args { mai: -2, ..good }, code::ERR_INDEX),
            (Args { comm: 7, ..good }, code::ERR_COMM),
            (Args { comm: -1, ..good }, code::ERR_COMM),
            (Args { comm: 1, ..good }, code::ERR_COMM),
            (Args { size: -1, ..good }, code::ERR_SIZE),
            (
                Args {
                    buf: UserBuf::NULL,
                    ..good
                },
                code::ERR_BUFFER,
            ),
        ];
        for (args, code) in wrong {
            assert_eq!(p2p::send(h, &args), code, "{args:?}");
            assert_eq!(p2p::isend(h, &args), code, "{args:?}");
            assert_eq!(p2p::recv(h, &args), code, "{args:?}");
            assert_eq!(p2p::irecv(h, &args), code, "{args:?}");
        }
        let any = Args { mai: ANY, ..good };
        assert_eq!(p2p::send(h, &any), code::ERR_INDEX);
        assert_eq!(p2p::isend_wait(h, name(other, 1)), code::ERR_NOTHING);
        assert!(matches!(
            p2p::irecv_wait(h, name(other, 1)),
            Err(code::ERR_NOTHING)
        ));
        assert!(matches!(
            p2p::irecv_wait(h, name(other, ANY)),
            Err(code::ERR_NOTHING)
        ));
        // Used twice while in flight.
        meet(h);
        assert_eq!(p2p::isend(h, &good), 0);
        assert_eq!(p2p::isend(h, &good), code::ERR_BUSY);
        assert_eq!(p2p::send(h, &good), code::ERR_BUSY);
        let mut back = [0u8; 8];
        let receive = to(&mut back, other, 1);
        assert_eq!(p2p::irecv(h, &receive), 0);
        assert_eq!(p2p::irecv(h, &receive), code::ERR_BUSY);
        assert_eq!(p2p::recv(h, &receive), code::ERR_BUSY);
        assert_eq!(p2p::irecv_wait(h, name(other, 1)).unwrap().code, 0);
        assert_eq!(p2p::isend_wait(h, name(other, 1)), 0);
        meet(h);
    });
}

#[test]
fn too_long_a_message_fills_the_buffer_and_no_more() {
    for manner in MANNERS {
        job(2, manner, 1, |h, me| match me {
            0 => {
                meet(h);
                let mut out = [7u8; 100];
                assert_eq!(p2p::send(h, &to(&mut out, 1, 0)), code::ERR_TRUNCATE);
                meet(h);
            }
            _ => {
                let mut memory = [1u8; 60];
                let args = to(&mut memory[..50], 0, 0);
                assert_eq!(p2p::irecv(h, &args), 0);
                meet(h);
                let end = p2p::irecv_wait(h, name(0, 0)).unwrap();
                assert_eq!((end.code, end.bytes), (code::ERR_TRUNCATE, 100));
                assert!(memory[..50].iter().all(|&b| b == 7));
                assert!(memory[50..].iter().all(|&b| b == 1));
                meet(h);
            }
        });
    }
}

/// A sender sees what its next message would meet: nothing, nothing while earlier ones wait, or a receive.
#[test]
fn a_sender_sees_what_its_receiver_offers() {
    for manner in MANNERS {
        job(2, manner, 2, |h, me| match me {
            0 => {
                stash(h, Stash::growing(), Some(0));
                for patience in [Duration::ZERO, Duration::from_millis(2)] {
                    assert_eq!(p2p::offered(h, name(1, 0), patience), Ok(None));
                }
                assert_eq!(
                    p2p::offered(h, name(1, 2), Duration::ZERO),
                    Err(code::ERR_INDEX)
                );
                let mut out = [7u8; 10];
                assert_eq!(p2p::send(h, &to(&mut out, 1, 0)), 0);
                meet(h);
                // An earlier message of that index goes first, or has taken the receive.
                assert_eq!(p2p::offered(h, name(1, 0), Duration::ZERO), Ok(None));
                let patience = Duration::from_secs(600);
                assert_eq!(p2p::offered(h, name(1, 1), patience), Ok(Some(70)));
                assert_eq!(p2p::offered(h, name(1, 1), Duration::ZERO), Ok(Some(70)));
                assert_eq!(p2p::send(h, &to(&mut out, 1, 1)), 0);
                assert_eq!(p2p::offered(h, name(1, 1), Duration::ZERO), Ok(None));
                meet(h);
            }
            _ => {
                let (mut first, mut second) = ([0u8; 50], [0u8; 70]);
                meet(h);
                assert_eq!(p2p::irecv(h, &to(&mut first, 0, 0)), 0);
                assert_eq!(p2p::irecv(h, &to(&mut second, 0, 1)), 0);
                for index in 0..2 {
                    let end = p2p::irecv_wait(h, name(0, index)).unwrap();
                    assert_eq!((end.code, end.bytes), (0, 10));
                }
                meet(h);
            }
        });
    }
}

#[test]
fn spooled_sends_of_an_index_arrive_in_order() {
    for manner in MANNERS {
        job(2, manner, 3, |h, me| match me {
            0 => {
                stash(h, Stash::growing(), Some(0));
                for i in 0..60u8 {
                    let mut out = [i; 5];
                    assert_eq!(p2p::send(h, &to(&mut out, 1, i32::from(i % 3))), 0);
                }
                assert_eq!(check(h), (0, 60));
                let set =
                    h.with(|core, _| core.area(PROGRAM).unwrap().set_stash(Stash::none(), None));
                assert_eq!(set, code::ERR_STASH);
                meet(h);
                // Finishing the area sends them all.
                finish::drain(h, "test", PROGRAM);
                assert_eq!(check(h), (60, 0));
                meet(h);
            }
            _ => {
                meet(h);
                for mai in 0..3 {
                    for i in (mai..60).step_by(3) {
                        let mut b = [0; 5];
                        assert_eq!(p2p::recv(h, &to(&mut b, 0, mai)), 0);
                        assert_eq!(b, [i as u8; 5]);
                    }
                }
                meet(h);
            }
        });
    }
}

#[test]
fn a_full_stash_makes_a_send_wait_for_its_receive() {
    for manner in MANNERS {
        job(2, manner, 2, |h, me| match me {
            0 => {
                let mut memory = vec![0u8; 1000];
                stash(
                    h,
                    Stash::given(UserBuf::of_array(&mut memory), 1000),
                    Some(0),
                );
                let mut small = [1u8; 600];
                assert_eq!(p2p::send(h, &to(&mut small, 1, 0)), 0);
                assert_eq!(check(h).1, 1);
                // No room for it: it comes back only when the receive has been posted, or room was made.
                let mut large = [2u8; 900];
                assert_eq!(p2p::send(h, &to(&mut large, 1, 1)), 0);
                finish::drain(h, "test", PROGRAM);
                meet(h);
            }
            _ => {
                std::thread::sleep(Duration::from_millis(20));
                let mut b = [0; 900];
                assert_eq!(p2p::recv(h, &to(&mut b, 0, 1)), 0);
                assert_eq!(b, [2; 900]);
                assert_eq!(p2p::recv(h, &to(&mut b, 0, 0)), 0);
                assert_eq!(b[..600], [1; 600]);
                meet(h);
            }
        });
    }
}

#[test]
fn a_send_waits_as_long_as_it_was_told() {
    job(2, MANNERS[0], 1, |h, me| {
        if me == 1 {
            let mut b = [0u8; 4];
            meet(h);
            // Both sends are over.
            meet(h);
            assert_eq!(p2p::recv(h, &to(&mut b, 0, 0)), 0);
            assert_eq!(p2p::recv(h, &to(&mut b, 0, 0)), 0);
            assert_eq!(b, [9; 4]);
            meet(h);
            return;
        }
        let told = Duration::from_millis(30);
        stash(h, Stash::growing(), Some(30));
        meet(h);
        let start = std::time::Instant::now();
        let mut out = [9u8; 4];
        assert_eq!(p2p::send(h, &to(&mut out, 1, 0)), 0);
        assert!(start.elapsed() >= told);
        assert_eq!(check(h).1, 1);
        // An isend counts from its begin, and its test moves it to the stash.
        let start = std::time::Instant::now();
        assert_eq!(p2p::isend(h, &to(&mut out, 1, 0)), 0);
        match p2p::isend_test(h, name(1, 0)).unwrap() {
            None => {
                std::thread::sleep(told + Duration::from_millis(1));
                assert_eq!(p2p::isend_test(h, name(1, 0)).unwrap(), Some(0));
            }
            // This thread did not run for so long.
            over => assert!(over == Some(0) && start.elapsed() >= told),
        }
        assert!(matches!(
            p2p::isend_test(h, name(1, 0)),
            Err(code::ERR_NOTHING)
        ));
        meet(h);
        meet(h);
        assert_eq!(check(h).1, 0);
    });
}

#[test]
fn receives_from_any_index_are_filled_in_order() {
    for manner in MANNERS {
        job(2, manner, 8, |h, me| match me {
            0 => {
                meet(h);
                for i in [5, 3, 5, 7] {
                    let mut out = [i as u8; 3];
                    assert_eq!(p2p::send(h, &to(&mut out, 1, i)), 0);
                }
                meet(h);
            }
            _ => {
                let mut bufs = [[0u8; 3]; 4];
                let mut explicit = [0u8; 3];
                for buf in &mut bufs[..3] {
                    assert_eq!(p2p::irecv(h, &to(buf, 0, ANY)), 0);
                }
                // One that is posted for the very index is preferred, though it is younger.
                assert_eq!(p2p::irecv(h, &to(&mut explicit, 0, 3)), 0);
                meet(h);
                for i in [5, 5, 7] {
                    let end = p2p::irecv_wait(h, name(0, ANY)).unwrap();
                    assert_eq!((end.code, end.bytes, end.index), (0, 3, i));
                }
                assert!(matches!(
                    p2p::irecv_wait(h, name(0, ANY)),
                    Err(code::ERR_NOTHING)
                ));
                assert_eq!(p2p::irecv_wait(h, name(0, 3)).unwrap().code, 0);
                assert_eq!((bufs[0], bufs[1], bufs[2]), ([5; 3], [5; 3], [7; 3]));
                assert_eq!(explicit, [3; 3]);
                meet(h);
            }
        });
    }
}

#[test]
fn the_ring_of_any_receives_turns_and_has_an_end() {
    for manner in MANNERS {
        job(2, manner, 2, |h, me| {
            const ROUNDS: i32 = consts::ANY_MAX + 30;
            if me == 0 {
                for i in 0..ROUNDS {
                    let mut out = i.to_ne_bytes();
                    assert_eq!(p2p::send(h, &to(&mut out, 1, i % 2)), 0);
                }
                meet(h);
                meet(h);
                return;
            }
            for i in 0..ROUNDS {
                let mut b = [0; 4];
                assert_eq!(p2p::recv(h, &to(&mut b, 0, ANY)), 0);
                assert_eq!(i32::from_ne_bytes(b), i);
            }
            meet(h);
            let mut b = vec![[0u8; 4]; consts::ANY_MAX as usize + 1];
            for (i, buf) in b.iter_mut().enumerate() {
                let full = i == consts::ANY_MAX as usize;
                let code = if full { code::ERR_BUSY } else { 0 };
                assert_eq!(p2p::irecv(h, &to(buf, 0, ANY)), code);
            }
            // Closing takes them back.
            let posted = h.with(|core, below| core.area(PROGRAM).unwrap().receives(below));
            assert_eq!(posted.len(), consts::ANY_MAX as usize);
            for which in posted {
                h.with(|core, below| core.area(PROGRAM).unwrap().withdraw(below, which));
            }
            meet(h);
        });
    }
}

#[test]
fn closing_takes_receives_back() {
    for manner in MANNERS {
        job(3, manner, 4, |h, me| {
            let mut b = [0u8; 64];
            let other = (me + 1) % 3;
            assert_eq!(p2p::irecv(h, &to(&mut b[..10], other, 3)), 0);
            assert_eq!(p2p::irecv(h, &to(&mut b[10..], other, ANY)), 0);
            assert_eq!(finish::close(h, "test", PROGRAM), 0);
            assert_eq!(
                p2p::irecv(h, &to(&mut b, other, 3)),
                code::ERR_NOT_INITIALISED
            );
        });
    }
}

#[test]
fn whoever_receives_from_anybody_learns_from_whom() {
    for manner in MANNERS {
        job(4, manner, 2, |h, me| {
            if me > 0 {
                for i in 0..5 {
                    let mut out = [me as u8, i];
                    assert_eq!(any::send_any(h, &to(&mut out, 0, 40)), 0);
                }
                // Another domain: these two never meet.
                let mut out = [99];
                assert_eq!(p2p::send(h, &to(&mut out, 0, 0)), 0);
                meet(h);
                return;
            }
            let mut next = [0; 4];
            for i in 0..15 {
                let mut b = [0; 2];
                let mai = if i % 2 == 0 { 40 } else { ANY };
                let got = any::recv_any(h, UserBuf::of_array(&mut b), 2, mai, 0).unwrap();
                let from = got.source as usize;
                assert_eq!((got.code, got.bytes, got.index), (0, 2, 40));
                assert_eq!(b, [from as u8, next[from]]);
                next[from] += 1;
            }
            for peer in 1..4 {
                let mut b = [0];
                assert_eq!(p2p::recv(h, &to(&mut b, peer, 0)), 0);
                assert_eq!(b, [99]);
            }
            let mut b = [0];
            let args = to(&mut b, 0, -2);
            assert_eq!(any::send_any(h, &args), code::ERR_INDEX);
            meet(h);
        });
    }
}

#[test]
fn two_thousand_unanswered_sends_both_ways() {
    job(2, MANNERS[1], 64, |h, me| {
        stash(h, Stash::growing(), Some(0));
        let other = 1 - me;
        for i in 0..2_000i32 {
            let mut out = i.to_ne_bytes();
            assert_eq!(p2p::send(h, &to(&mut out, other, i % 64)), 0);
        }
        for i in 0..2_000i32 {
            let mut b = [0; 4];
            assert_eq!(p2p::recv(h, &to(&mut b, other, i % 64)), 0);
            assert_eq!(i32::from_ne_bytes(b), i);
        }
        finish::drain(h, "test", PROGRAM);
        meet(h);
    });
}

#[test]
fn a_dead_peer_ends_what_needs_it() {
    use mtmi::Matched;
    use testkit::World;
    for manner in MANNERS {
        let world = World::new(3, manner);
        std::thread::scope(|scope| {
            for rank in 0..2u32 {
                let world = world.clone();
                scope.spawn(move || {
                    let h = &Rank::new(Matched::new(world.join(rank)), 4);
                    let mut b = [0u8; 8];
                    // The dead one is waited for before and after it dies; the other lives on.
                    assert_eq!(p2p::irecv(h, &to(&mut b, 2, 1)), 0);
                    if rank == 0 {
                        std::thread::sleep(Duration::from_millis(10));
                        world.kill(2);
                    }
                    let end = p2p::irecv_wait(h, name(2, 1)).unwrap();
                    assert_eq!(end.code, code::ERR_PEER);
                    assert_eq!(p2p::send(h, &to(&mut b, 2, 0)), code::ERR_PEER);
                    assert_eq!(p2p::recv(h, &to(&mut b, 2, 0)), code::ERR_PEER);
                    assert_eq!(p2p::recv(h, &to(&mut b, 2, ANY)), code::ERR_PEER);
                    assert_eq!(barrier::barrier(h, 0), code::ERR_PEER);
                    let other = 1 - rank;
                    let mut back = [0u8; 1];
                    assert_eq!(p2p::irecv(h, &to(&mut back, other, 3)), 0);
                    assert_eq!(p2p::send(h, &to(&mut [9], other, 3)), 0);
                    assert_eq!(p2p::irecv_wait(h, name(other, 3)).unwrap().code, 0);
                    assert_eq!(back, [9]);
                });
            }
        });
    }
}
