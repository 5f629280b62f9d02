//! Whole operations on simulated processes, against what a naive reader of the BLACS definition would compute.

mod sizes;

use boundary::UserBuf;
use proptest::prelude::*;

use crate::simulator::{Process, run};
use crate::{Blacs, Combine, Element, Error, Grid, Locations, Operation, Part, Scope, Shape};

const ELEMENTS: [Element; 5] = [
    Element::Int,
    Element::Single,
    Element::Double,
    Element::Complex,
    Element::DoubleComplex,
];

const TOPOLOGIES: &[u8] = b" IDSMFHT123456789";

/// A number that is small, so that sums are exact and ties are frequent.
fn number(rank: u32, operation: usize, at: usize, half: usize) -> i64 {
    let mixed = (u64::from(rank) * 31 + operation as u64 * 7 + at as u64 * 3 + half as u64 * 5 + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as i64 % 5 - 2
}

/// An element as its real and imaginary parts.
type Value = (i64, i64);

fn value(element: Element, rank: u32, operation: usize, at: usize) -> Value {
    let re = number(rank, operation, at, 0);
    match element {
        Element::Complex | Element::DoubleComplex => (re, number(rank, operation, at, 1)),
        _ => (re, 0),
    }
}

fn bytes(element: Element, (re, im): Value) -> Vec<u8> {
    match element {
        Element::Int => (re as i32).to_ne_bytes().to_vec(),
        Element::Single => (re as f32).to_ne_bytes().to_vec(),
        Element::Double => (re as f64).to_ne_bytes().to_vec(),
        Element::Complex => [re, im].map(|x| (x as f32).to_ne_bytes()).concat(),
        Element::DoubleComplex => [re, im].map(|x| (x as f64).to_ne_bytes()).concat(),
    }
}

/// A whole matrix with all its gaps.
fn matrix(element: Element, rank: u32, operation: usize, elements: usize) -> Vec<u8> {
    (0..elements)
        .flat_map(|at| bytes(element, value(element, rank, operation, at)))
        .collect()
}

/// One operation, as all processes of the grid carry it out.
#[derive(Clone, Debug)]
struct Step {
    kind: usize,
    scope: Scope,
    topology: u8,
    element: Element,
    part: Part,
    sides: (i32, i32),
    gaps: (i32, i32),
    /// Chooses root, destination or partner.
    choice: u32,
    operation: Operation,
    located: bool,
}

fn step(most: i32) -> impl Strategy<Value = Step> {
    let part = prop_oneof![
        Just(Part::General),
        any::<bool>().prop_map(|unit| Part::Upper { unit }),
        any::<bool>().prop_map(|unit| Part::Lower { unit }),
    ];
    let scope = prop::sample::select(vec![Scope::Row, Scope::Column, Scope::All]);
    let operation = vec![Operation::Sum, Operation::Max, Operation::Min];
    (
        (0usize..4, scope, prop::sample::select(TOPOLOGIES)),
        (prop::sample::select(&ELEMENTS[..]), part),
        ((0..most, 0..most), (0..3i32, 0..3i32)),
        (0u32..1000, prop::sample::select(operation), any::<bool>()),
    )
        .prop_map(
            |((kind, scope, topology), (element, part), (sides, gaps), last)| Step {
                kind,
                scope,
                topology,
                element,
                part,
                sides,
                gaps,
                choice: last.0,
                operation: last.1,
                located: last.2 && last.1 != Operation::Sum,
            },
        )
}

/// One process carrying out steps.
struct Actor {
    blacs: Blacs<Process>,
    context: i32,
    grid: Grid,
}

impl Actor {
    fn act(&mut self, number: usize, step: &Step) {
        match step.kind {
            0 => self.exchange(number, step),
            1 => self.broadcast(number, step),
            _ => self.combine(number, step),
        }
    }

    /// Elements in memory, and the leading dimension, of a matrix with this gap.
    fn room(step: &Step, gap: i32) -> (usize, i32) {
        let lda = step.sides.0 + gap;
        ((lda * step.sides.1) as usize, lda)
    }

    /// What is to be in `mine` when `theirs`, with another gap, was received.
    fn received(step: &Step, theirs: &[u8], mine: &mut [u8], part: Part) {
        let size = step.element.size();
        let (from, to) = step.gaps;
        let shape = |gap| {
            let (m, n) = step.sides;
            Shape::new(part, m, n, m + gap, size).unwrap()
        };
        let mut packed = vec![0; shape(from).bytes()];
        let mut copy = theirs.to_vec();
        let all = packed.len();
        let buf = UserBuf::of_array(&mut packed);
        shape(from)
            .cursor()
            .pack(UserBuf::of_array(&mut copy), buf, all);
        shape(to).cursor().unpack(UserBuf::of_array(mine), buf, all);
    }

    /// Everybody sends to the process `choice` further on, twice; then everybody receives.
    fn exchange(&mut self, number: usize, step: &Step) {
        let (m, n) = step.sides;
        let size = self.grid.size(Scope::All);
        let own = self.grid.number();
        let to = (own + step.choice) % size;
        let from = (own + size - step.choice % size) % size;
        let place = |number: u32| self.grid.place_of(number as i32).unwrap();
        let (to_place, from_place) = (place(to), place(from));
        for again in 0..2 {
            let (room, lda) = Actor::room(step, step.gaps.0);
            let mut a = matrix(step.element, own, number + again, room);
            let shape = Shape::new(step.part, m, n, lda, step.element.size()).unwrap();
            let buf = UserBuf::of_array(&mut a);
            let id = self.blacs.send_id(self.context, to_place).unwrap();
            self.blacs
                .send(self.context, &shape, buf, to_place)
                .unwrap();
            a.fill(0xee);
            assert!(id < 1024);
        }
        for again in 0..2 {
            let (room, lda) = Actor::room(step, step.gaps.1);
            let mut a = matrix(step.element, 99, number, room);
            let mut expected = a.clone();
            let shape = Shape::new(step.part, m, n, lda, step.element.size()).unwrap();
            let buf = UserBuf::of_array(&mut a);
            self.blacs
                .receive(self.context, &shape, buf, from_place)
                .unwrap();
            let theirs = Actor::room(step, step.gaps.0).0;
            let theirs = matrix(step.element, from, number + again, theirs);
            Actor::received(step, &theirs, &mut expected, step.part);
            assert_eq!(a, expected, "{step:?}");
        }
    }

    fn broadcast(&mut self, number: usize, step: &Step) {
        let (m, n) = step.sides;
        let size = self.grid.size(step.scope);
        let root = step.choice % size;
        let source = self.grid.number_in(step.scope, root);
        let own = self.grid.within(step.scope) == root;
        let gap = if own { step.gaps.0 } else { step.gaps.1 };
        let (room, lda) = Actor::room(step, gap);
        let mut a = matrix(step.element, self.grid.number(), number, room);
        let mut expected = a.clone();
        let shape = Shape::new(step.part, m, n, lda, step.element.size()).unwrap();
        let buf = UserBuf::of_array(&mut a);
        let (context, scope, top) = (self.context, step.scope, step.topology);
        if own {
            self.blacs
                .broadcast(context, scope, top, &shape, buf)
                .unwrap();
        } else {
            let place = self.grid.place_of(source as i32).unwrap();
            self.blacs
                .receive_broadcast(context, scope, top, &shape, buf, place)
                .unwrap();
            let theirs = Actor::room(step, step.gaps.0).0;
            let theirs = matrix(step.element, source, number, theirs);
            Actor::received(step, &theirs, &mut expected, step.part);
        }
        assert_eq!(a, expected, "{step:?}");
    }

    fn combine(&mut self, number: usize, step: &Step) {
        let size = self.grid.size(step.scope);
        let destination = (!step.choice.is_multiple_of(3)).then_some(step.choice % size);
        let (room, lda) = Actor::room(step, step.gaps.0);
        let mut a = matrix(step.element, self.grid.number(), number, room);
        let (places, ldia) = Actor::room(step, step.gaps.1);
        let mut rows = vec![0x55; places * 4];
        let mut columns = rows.clone();
        let mut expected = (a.clone(), rows.clone(), columns.clone());
        if destination.is_none_or(|index| index == self.grid.within(step.scope)) {
            let result = self.naive(number, step, destination);
            for (at, (value, (row, column))) in result.into_iter().enumerate() {
                let m = step.sides.0 as usize;
                let size = step.element.size();
                let to = (at / m * lda as usize + at % m) * size;
                expected.0[to..to + size].copy_from_slice(&bytes(step.element, value));
                if step.located {
                    let to = (at / m * ldia as usize + at % m) * 4;
                    expected.1[to..to + 4].copy_from_slice(&row.to_ne_bytes());
                    expected.2[to..to + 4].copy_from_slice(&column.to_ne_bytes());
                }
            }
        }
        let locations = step.located.then(|| Locations {
            rows: UserBuf::of_array(&mut rows),
            columns: UserBuf::of_array(&mut columns),
            leading: ldia as usize,
        });
        let destination = destination.map_or((-1, -1), |index| {
            let number = self.grid.number_in(step.scope, index);
            self.grid.place_of(number as i32).unwrap()
        });
        let what = Combine {
            scope: step.scope,
            topology: step.topology,
            operation: step.operation,
            element: step.element,
            m: step.sides.0,
            n: step.sides.1,
            lda,
            a: UserBuf::of_array(&mut a),
            locations,
            destination,
        };
        self.blacs.combine(self.context, &what).unwrap();
        assert_eq!((a, rows, columns), expected, "{step:?}");
    }

    /// Elements of the result and where they were found.
    fn naive(
        &self,
        number: usize,
        step: &Step,
        destination: Option<u32>,
    ) -> Vec<(Value, (i32, i32))> {
        let (m, n) = (step.sides.0 as usize, step.sides.1 as usize);
        let lda = m + step.gaps.0 as usize;
        let size = self.grid.size(step.scope);
        let first = destination.unwrap_or(0);
        let magnitude = |value: Value| value.0.abs() + value.1.abs();
        let element = |at: usize| {
            let at = at / m * lda + at % m;
            let order = (0..size).map(|behind| {
                let process = self.grid.number_in(step.scope, (first + behind) % size);
                let place = self.grid.place_of(process as i32).unwrap();
                (value(step.element, process, number, at), place)
            });
            let better = |a: Value, b: Value| match step.operation {
                Operation::Max => magnitude(b) > magnitude(a),
                _ => magnitude(b) < magnitude(a),
            };
            order
                .reduce(|a, b| match step.operation {
                    Operation::Sum => ((a.0.0 + b.0.0, a.0.1 + b.0.1), a.1),
                    _ if better(a.0, b.0) => b,
                    _ if magnitude(a.0) == magnitude(b.0) && !step.located && b.0 > a.0 => b,
                    _ => a,
                })
                .unwrap()
        };
        (0..m * n).map(element).collect()
    }
}

fn play(rows: u32, columns: u32, column_major: bool, steps: &[Step]) {
    run(rows * columns, |process| {
        let map = Grid::in_order(column_major, rows as i32, columns as i32);
        let everybody: Vec<u32> = (0..rows * columns).collect();
        let members = Grid::members(&map, &everybody).unwrap();
        let mut blacs = Blacs::new(process);
        let context = blacs
            .open(&members, rows as i32, columns as i32, 7)
            .unwrap();
        let grid = blacs.grid(context).unwrap().clone();
        assert_eq!(
            members[grid.number() as usize],
            crate::Net::rank(blacs.net())
        );
        let mut actor = Actor {
            blacs,
            context,
            grid,
        };
        for (number, step) in steps.iter().enumerate() {
            actor.act(number, step);
        }
        actor.blacs.barrier(context, Scope::Row).unwrap();
        actor.blacs.barrier(context, Scope::Column).unwrap();
        actor.blacs.barrier(context, Scope::All).unwrap();
        assert_eq!(actor.blacs.close(context), Ok(7));
    });
}

fn sides() -> impl Strategy<Value = (u32, u32)> {
    (1u32..=8, 1u32..=8).prop_filter("1 to 8 processes", |(rows, columns)| rows * columns <= 8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn small_matrices(
        (rows, columns) in sides(), order in any::<bool>(), steps in prop::collection::vec(step(12), 1..25),
    ) {
        play(rows, columns, order, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    #[test]
    fn matrices_of_many_pieces(
        (rows, columns) in sides(), steps in prop::collection::vec(step(400), 1..5),
    ) {
        play(rows, columns, false, &steps);
    }
}

/// Sizes around a piece and a face, in one run and not.
#[test]
fn piece_edges() {
    let edges = [crate::flow::CUT, crate::flow::LAST, crate::flow::FACE];
    let [cut, last, face] = edges.map(|bytes| (bytes / 16) as i32);
    let mut steps = Vec::new();
    for elements in [
        cut - 1,
        cut,
        cut + 1,
        2 * cut,
        last,
        last + 1,
        face,
        face + 1,
    ] {
        for gaps in [(0, 0), (1, 0), (0, 2), (1, 1)] {
            for (kind, topology) in [(0, b' '), (1, b' '), (1, b'I'), (1, b'2'), (2, b' ')] {
                // One row: each element is a run of its own where there is a gap.
                steps.push(Step {
                    kind,
                    scope: Scope::All,
                    topology,
                    element: Element::DoubleComplex,
                    part: Part::General,
                    sides: (1, elements),
                    gaps,
                    choice: 1,
                    operation: Operation::Max,
                    located: false,
                });
            }
        }
    }
    play(1, 3, false, &steps);
}

/// One process sends ten thousand messages to one that does not answer, then they meet elsewhere, and only then
/// are they received, in order.
#[test]
fn many_unanswered_sends() {
    const MESSAGES: i32 = 10_000;
    run(2, |process| {
        let mut blacs = Blacs::new(process);
        let context = blacs.open(&[0, 1], 1, 2, 0).unwrap();
        let shape = Shape::new(Part::General, 2, 2, 3, 4).unwrap();
        let mut a = [0u8; 20];
        let own = blacs.grid(context).unwrap().place();
        let other = (0, 1 - own.1);
        let buf = UserBuf::of_array(&mut a);
        for message in 0..MESSAGES {
            buf.write(&message.to_ne_bytes());
            blacs.send(context, &shape, buf, other).unwrap();
        }
        blacs.barrier(context, Scope::All).unwrap();
        for message in 0..MESSAGES {
            blacs.receive(context, &shape, buf, other).unwrap();
            let mut came = [0; 4];
            buf.read(&mut came);
            assert_eq!(i32::from_ne_bytes(came), message);
        }
        assert!(blacs.net().spooled() >= MESSAGES as usize);
    });
}

/// Messages of different scopes and contexts do not meet.
#[test]
fn streams_are_separate() {
    run(2, |process| {
        let mut blacs = Blacs::new(process);
        let one = blacs.open(&[0, 1], 1, 2, 0).unwrap();
        let two = blacs.open(&[1, 0], 1, 2, 0).unwrap();
        let shape = Shape::new(Part::General, 1, 1, 1, 4).unwrap();
        let mut a = [0u8; 4];
        let buf = UserBuf::of_array(&mut a);
        let read = || {
            let mut number = [0; 4];
            buf.read(&mut number);
            i32::from_ne_bytes(number)
        };
        if blacs.grid(one).unwrap().number() == 0 {
            buf.write(&1i32.to_ne_bytes());
            blacs.send(one, &shape, buf, (0, 1)).unwrap();
            buf.write(&2i32.to_ne_bytes());
            blacs.broadcast(one, Scope::Row, b'I', &shape, buf).unwrap();
            buf.write(&3i32.to_ne_bytes());
            blacs.broadcast(one, Scope::All, b'I', &shape, buf).unwrap();
            buf.write(&4i32.to_ne_bytes());
            blacs.send(two, &shape, buf, (0, 0)).unwrap();
        } else {
            let source = (0, 0);
            blacs.receive(two, &shape, buf, (0, 1)).unwrap();
            assert_eq!(read(), 4);
            blacs
                .receive_broadcast(one, Scope::All, b'I', &shape, buf, source)
                .unwrap();
            assert_eq!(read(), 3);
            blacs
                .receive_broadcast(one, Scope::Row, b'I', &shape, buf, source)
                .unwrap();
            assert_eq!(read(), 2);
            blacs.receive(one, &shape, buf, source).unwrap();
            assert_eq!(read(), 1);
        }
    });
}

/// Both sides give the next message the same number.
#[test]
fn ids_agree() {
    let ids = std::sync::Mutex::new(Vec::new());
    run(2, |process| {
        let mut blacs = Blacs::new(process);
        let context = blacs.open(&[0, 1], 2, 1, 0).unwrap();
        let shape = Shape::new(Part::General, 1, 1, 1, 8).unwrap();
        let mut a = [0u8; 8];
        let buf = UserBuf::of_array(&mut a);
        let own = blacs.grid(context).unwrap().number();
        for round in 0..9 {
            let id = if own == 0 {
                let id = blacs.send_id(context, (1, 0)).unwrap();
                blacs.send(context, &shape, buf, (1, 0)).unwrap();
                id
            } else {
                let id = blacs.receive_id(context, (0, 0)).unwrap();
                blacs.receive(context, &shape, buf, (0, 0)).unwrap();
                id
            };
            let all = blacs.broadcast_id(context, Scope::Column).unwrap();
            match own {
                0 => blacs.broadcast(context, Scope::Column, b' ', &shape, buf),
                _ => blacs.receive_broadcast(context, Scope::Column, b' ', &shape, buf, (0, 0)),
            }
            .unwrap();
            ids.lock().unwrap().push((own, round, id, all));
        }
    });
    let ids = ids.into_inner().unwrap();
    for &(_, round, id, all) in ids.iter().filter(|one| one.0 == 0) {
        assert!(ids.contains(&(1, round, id, all)));
    }
}

/// Contexts come and go, and their indices with them; too many at once are refused by all members.
#[test]
fn contexts() {
    run(3, |process| {
        let rank = crate::Net::rank(&process);
        let mut blacs = Blacs::new(process);
        let mut kept = Vec::new();
        for round in 0..200 {
            let members: &[u32] = if round % 2 == 0 { &[0, 1, 2] } else { &[2, 0] };
            if members.contains(&rank) {
                let columns = members.len() as i32;
                let context = blacs.open(members, 1, columns, round).unwrap();
                assert_eq!(blacs.system(context), Ok(round));
                match round % 50 {
                    0 => kept.push(context),
                    _ => assert_eq!(blacs.close(context), Ok(round)),
                }
            }
        }
        assert_eq!(blacs.numbers(), kept);
        while kept.len() < 64 {
            kept.push(blacs.open(&[0, 1, 2], 3, 1, 0).unwrap());
        }
        let full = blacs.open(&[0, 1, 2], 3, 1, 0);
        assert_eq!(full, Err(Error::Contexts(64)));
        blacs.close(kept[0]).unwrap();
        assert_eq!(blacs.close(kept[0]), Err(Error::Context(kept[0])));
        assert_eq!(blacs.open(&[0, 1, 2], 3, 1, 0), Ok(kept[0]));
        assert_eq!(blacs.numbers().last(), Some(&kept[0]));
    });
}

/// What is wrong with the arguments is said before anything is sent.
#[test]
fn wrong_arguments() {
    run(1, |process| {
        let mut blacs = Blacs::new(process);
        assert_eq!(blacs.open(&[0], 2, 1, 0), Err(Error::Grid(2, 1, 1)));
        let context = blacs.open(&[0], 1, 1, 0).unwrap();
        let shape = Shape::new(Part::General, 1, 1, 1, 4).unwrap();
        let mut a = [7u8; 4];
        let buf = UserBuf::of_array(&mut a);
        let away = blacs.send(context, &shape, buf, (0, 1));
        assert!(matches!(away, Err(Error::Place(..))));
        assert_eq!(blacs.send(9, &shape, buf, (0, 0)), Err(Error::Context(9)));
        assert_eq!(
            blacs.broadcast(context, Scope::All, b'x', &shape, buf),
            Err(Error::Topology(b'x'))
        );
        assert_eq!(
            blacs.receive_broadcast(context, Scope::All, b' ', &shape, buf, (0, 0)),
            Err(Error::OwnBroadcast)
        );
        assert!(Scope::of(b'x').is_err());
        // To oneself.
        blacs.send(context, &shape, buf, (0, 0)).unwrap();
        buf.write(&[0; 4]);
        blacs.receive(context, &shape, buf, (0, 0)).unwrap();
        assert_eq!(a, [7; 4]);
    });
}
