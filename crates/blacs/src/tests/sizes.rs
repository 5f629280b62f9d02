//! Messages whose two sides differ in size and shape: where they are cut.

use boundary::UserBuf;
use proptest::prelude::*;

use super::matrix;
use crate::simulator::{Process, run};
use crate::{Blacs, Element, Error, Part, Scope, Shape};

/// A message between two matrices that need have nothing in common but that the second has room.
#[derive(Clone, Debug)]
struct Unlike {
    /// Rows, columns, gap between columns.
    sent: (i32, i32, i32),
    received: (i32, i32, i32),
    /// A letter of a topology, or `P`: from each process to the next.
    way: u8,
    /// Who of the processes comes late.
    late: u32,
}

fn unlike() -> impl Strategy<Value = Unlike> {
    let cut = (crate::flow::CUT / 4) as i32;
    let sides = || {
        prop_oneof![
            (1..400i32, 1..400i32),
            (1..20i32, 1..20i32),
            prop::sample::select(vec![
                cut - 1,
                cut,
                cut + 1,
                3 * cut / 2,
                3 * cut / 2 + 1,
                2 * cut,
                3 * cut
            ])
            .prop_map(|n| (1, n)),
        ]
    };
    let way = prop::sample::select(&b"PPPI1"[..]);
    (sides(), sides(), (0..2i32, 0..2i32), way, 0u32..4).prop_map(
        |(mut one, mut two, gaps, way, late)| {
            if one.0 * one.1 > two.0 * two.1 {
                std::mem::swap(&mut one, &mut two);
            }
            Unlike {
                sent: (one.0, one.1, gaps.0),
                received: (two.0, two.1, gaps.1),
                way,
                late,
            }
        },
    )
}

/// Process 0 sends with one shape, the others receive (and send on) with another.
fn unlike_step(blacs: &mut Blacs<Process>, context: i32, number: usize, step: &Unlike) {
    let own = blacs.grid(context).unwrap().number();
    let matrix_of = |(m, n, gap): (i32, i32, i32), filler: u32| {
        let a = matrix(Element::Int, filler, number, ((m + gap) * n) as usize);
        (Shape::new(Part::General, m, n, m + gap, 4).unwrap(), a)
    };
    let (sent, mut theirs) = matrix_of(step.sent, 0);
    let mut packed = vec![0; sent.bytes()];
    let place = UserBuf::of_array(&mut packed);
    let from = UserBuf::of_array(&mut theirs);
    sent.cursor().pack(from, place, sent.bytes());
    if step.late == own {
        std::thread::sleep(std::time::Duration::from_micros(300));
    }
    let (next, before) = ((0, own as i32 + 1), (0, own as i32 - 1));
    if own == 0 {
        match step.way {
            b'P' => blacs.send(context, &sent, from, next),
            way => blacs.broadcast(context, Scope::All, way, &sent, from),
        }
        .unwrap();
        theirs.fill(0xee);
        return;
    }
    let (shape, mut a) = matrix_of(step.received, 9);
    let mut expected = a.clone();
    let to = UserBuf::of_array(&mut expected);
    shape.cursor().unpack(to, place, sent.bytes());
    let buf = UserBuf::of_array(&mut a);
    match step.way {
        b'P' => blacs.receive(context, &shape, buf, before).unwrap(),
        way => blacs
            .receive_broadcast(context, Scope::All, way, &shape, buf, (0, 0))
            .unwrap(),
    }
    assert!(a == expected, "message {number}: {step:?}");
    if step.way == b'P' && own < 2 {
        // As much as came, in one run.
        let all = Shape::new(Part::General, 1, (sent.bytes() / 4) as i32, 1, 4).unwrap();
        blacs.send(context, &all, place, next).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn unlike_matrices(steps in prop::collection::vec(unlike(), 1..12)) {
        run(3, |process| {
            let mut blacs = Blacs::new(process);
            let context = blacs.open(&[0, 1, 2], 1, 3, 0).unwrap();
            for (number, step) in steps.iter().enumerate() {
                unlike_step(&mut blacs, context, number, step);
            }
        });
    }
}

/// A message between two matrices in one run is one piece if its receiver is there.
#[test]
fn in_one_run_is_not_cut() {
    run(2, |process| {
        let mut blacs = Blacs::new(process);
        let context = blacs.open(&[0, 1], 1, 2, 0).unwrap();
        let n = (crate::flow::CUT * 5 / 4) as i32;
        let shape = Shape::new(Part::General, n, 1, n, 4).unwrap();
        let mut a = vec![1u8; shape.bytes()];
        let buf = UserBuf::of_array(&mut a);
        let id = if blacs.grid(context).unwrap().number() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(200));
            blacs.send(context, &shape, buf, (0, 1)).unwrap();
            blacs.send_id(context, (0, 1)).unwrap()
        } else {
            blacs.receive(context, &shape, buf, (0, 0)).unwrap();
            blacs.receive_id(context, (0, 0)).unwrap()
        };
        // With the six pieces of one that is cut it would be one more.
        assert_eq!(id % 4, 0, "one piece has gone");
    });
}

/// A receiver with a smaller matrix is told; a larger one is fine.
#[test]
fn sizes_that_differ() {
    run(2, |process| {
        let mut blacs = Blacs::new(process);
        let context = blacs.open(&[0, 1], 1, 2, 0).unwrap();
        let shape = |n| Shape::new(Part::General, 1, n, 1, 4).unwrap();
        let mut a = vec![0u8; 4 << 20];
        let buf = UserBuf::of_array(&mut a);
        let own = blacs.grid(context).unwrap().number();
        let cut = (crate::flow::CUT / 4) as i32;
        let mut trial = |sent, received| match own {
            0 => {
                blacs.send(context, &shape(sent), buf, (0, 1)).unwrap();
                Ok(())
            }
            _ => blacs.receive(context, &shape(received), buf, (0, 0)),
        };
        // More room than the message needs is fine.
        assert_eq!(trial(5, 9), Ok(()));
        let small = trial(9, 5);
        if own == 1 {
            assert_eq!(small, Err(Error::Message(crate::Trouble::Truncated)));
        }
        for (sent, received) in [(cut + 5, 3 * cut), (cut, 2 * cut), (3 * cut, 9 * cut)] {
            assert_eq!(trial(sent, received), Ok(()));
        }
        // In the last piece of a message.
        let small = trial(2 * cut + 9, 2 * cut + 8);
        if own == 1 {
            assert_eq!(small, Err(Error::Message(crate::Trouble::Truncated)));
        }
    });
}
