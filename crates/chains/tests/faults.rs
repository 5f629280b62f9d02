//! What is refused: graphs that cannot be chains, and programs that nobody may run.

mod sim;

use cad::{BufId, Builder, Graph, Region, Shape, Team, TypeSlot, allreduce};
use chains::program::{CALC, END, Entry, LINK, MAX_ENTRIES, POST, RECV, SEND, WAIT};
use chains::team::{self, Misfit};
use chains::verify::Fault;
use chains::{Options, Program, Refused, compile};
use sim::Rng;

const TEAM: Team = Team::new(0, 2);

fn refusal(b: Builder, options: &Options) -> Option<Refused> {
    compile(&b.finish(), &[0, 1], None, options).err()
}

#[test]
fn graphs_that_cannot_be_chains_are_refused() {
    let options = Options::default();
    let gaps = Shape {
        size: 8,
        extent: 24,
        true_extent: 20,
        contiguous: false,
    };
    let elements = Region {
        buf: BufId::Send,
        offset: 0,
        count: 2,
        ty: TypeSlot::Send,
    };
    let mut b = Builder::new(TEAM);
    b.send_buffer(gaps, 2);
    b.send(1, 0, elements, &[]);
    assert_eq!(refusal(b, &options), Some(Refused::Type(0)));
    let mut b = Builder::new(TEAM);
    b.send(0, 0, Region::EMPTY, &[]);
    assert_eq!(refusal(b, &options), Some(Refused::Myself(0)));
    let mut b = Builder::new(TEAM);
    b.send(2, 0, Region::EMPTY, &[]);
    let invalid = Refused::Invalid(cad::Invalid::Peer(0));
    assert_eq!(refusal(b, &options), Some(invalid));
    // The message of the lower tag waits for that of the higher.
    let mut b = Builder::new(TEAM);
    let first = b.send(1, 5, Region::EMPTY, &[]);
    b.send(1, 4, Region::EMPTY, &[first]);
    let graph = b.finish();
    assert_eq!(
        compile(&graph, &[0, 1], None, &options),
        Err(Refused::Order)
    );
    assert!(compile(&graph, &[0, 1], Some(&[4, 5]), &options).is_ok());
    assert_eq!(
        compile(&graph, &[0, 1], Some(&[4]), &options),
        Err(Refused::Arguments)
    );
    assert_eq!(
        compile(&graph, &[0], None, &options),
        Err(Refused::Arguments)
    );
    let mut b = Builder::new(TEAM);
    for _ in 0..MAX_ENTRIES {
        b.send(1, 0, Region::EMPTY, &[]);
    }
    assert_eq!(refusal(b, &options), Some(Refused::TooLong));
}

#[test]
fn pieces_grow_until_the_program_fits() {
    let bytes = 1 << 20;
    let mut b = Builder::new(TEAM);
    b.recv_buffer(Shape::BYTE, bytes);
    let all = Region::bytes(BufId::Recv, 0, bytes);
    let got = b.recv(1, 0, all, &[]);
    b.send(1, 0, all, &[got]);
    let options = Options {
        piece: Some(1),
        ..Options::default()
    };
    let p = compile(&b.finish(), &[0, 1], None, &options).unwrap();
    assert!(p.entries.len() <= MAX_ENTRIES && p.entries.len() > MAX_ENTRIES / 4);
    assert_eq!(p.verify(2), Ok(()));
}

/// Programs of an allreduce among four: messages, calculations, tokens.
fn programs() -> Vec<Program> {
    let graph = |rank| -> Graph {
        let p = allreduce::Params {
            team: Team::new(rank, 4),
            count: 64,
            ty: Shape::BYTE,
            commutative: true,
            in_place: false,
            together: true,
        };
        allreduce::build(&p, allreduce::Algorithm::Rabenseifner)
    };
    let compiled = |r| compile(&graph(r), &[0, 1, 2, 3], None, &Options::default()).unwrap();
    (0..4).map(compiled).collect()
}

fn position(p: &Program, code: u8) -> usize {
    p.entries.iter().position(|e| e.code == code).unwrap()
}

/// The fault of a program after a change at its first entry of this code, and where that is.
fn fault(code: u8, change: impl Fn(&mut Entry)) -> (Fault, u32) {
    let mut p = programs().remove(0);
    let i = position(&p, code);
    change(&mut p.entries[i]);
    (p.verify(4).unwrap_err(), i as u32)
}

#[test]
fn programs_that_nobody_may_run_are_refused() {
    assert_eq!(programs()[0].verify(4), Ok(()));
    let (found, at) = fault(SEND, |e| e.peer = 4);
    assert_eq!(found, Fault::Peer(at));
    let (found, at) = fault(SEND, |e| e.peer = 0);
    assert_eq!(found, Fault::Peer(at));
    let (found, at) = fault(RECV, |e| e.bytes = 65);
    assert_eq!(found, Fault::Bounds(at));
    let (found, at) = fault(RECV, |e| e.offset = i64::MAX);
    assert_eq!(found, Fault::Bounds(at));
    let (found, at) = fault(RECV, |e| e.area = 77);
    assert_eq!(found, Fault::Bounds(at));
    let (found, at) = fault(CALC, |e| e.from_offset = -1);
    assert_eq!(found, Fault::Bounds(at));
    let (found, at) = fault(CALC, |e| e.unit = 0);
    assert_eq!(found, Fault::Bounds(at));
    let (found, at) = fault(CALC, |e| e.unit = 7);
    assert_eq!(found, Fault::Bounds(at));
    let (found, at) = fault(SEND, |e| e.code = 99);
    assert_eq!(found, Fault::Code(at));
    let (found, at) = fault(SEND, |e| e.flags |= 0x80);
    assert_eq!(found, Fault::Code(at));
    assert_eq!(fault(POST, |e| e.peer = 1000).0, Fault::Token(1000));
    assert!(matches!(fault(POST, |e| e.code = WAIT).0, Fault::Token(_)));
    assert_eq!(
        fault(END, |e| (e.code, e.peer) = (SEND, 1)).0,
        Fault::Bounds(position(&programs()[0], END) as u32)
    );
    let mut p = programs().remove(0);
    p.entries.last_mut().unwrap().flags |= LINK;
    assert_eq!(p.verify(4), Err(Fault::Length));
}

fn entry(code: u8, peer: u32, link: bool) -> Entry {
    let bytes = u64::from(matches!(code, SEND | RECV));
    Entry {
        code,
        peer,
        bytes,
        flags: if link { LINK } else { 0 },
        ..Entry::default()
    }
}

fn program(rank: u32, tokens: u32, entries: Vec<Entry>) -> Program {
    let area = chains::Area { low: 0, high: 8 };
    Program {
        rank,
        areas: vec![area],
        tokens,
        entries,
    }
}

#[test]
fn chains_that_wait_for_each_other_or_race_are_refused() {
    // Two chains, each waiting for the other's token.
    let circle = vec![
        entry(WAIT, 0, true),
        entry(POST, 1, false),
        entry(WAIT, 1, true),
        entry(POST, 0, true),
        entry(END, 0, false),
    ];
    assert_eq!(program(0, 2, circle).verify(2), Err(Fault::Cycle));
    // Two receives from one peer, in chains that nothing orders.
    let race = vec![
        entry(RECV, 1, true),
        entry(POST, 0, false),
        entry(RECV, 1, true),
        entry(WAIT, 0, true),
        entry(END, 0, false),
    ];
    assert!(matches!(
        program(0, 1, race).verify(2),
        Err(Fault::Stream(_))
    ));
    // A chain that END does not wait for.
    let early = vec![entry(SEND, 1, false), entry(END, 0, false)];
    assert_eq!(program(0, 0, early).verify(2), Err(Fault::End));
    let none = vec![entry(SEND, 1, false)];
    assert_eq!(program(0, 0, none).verify(2), Err(Fault::End));
}

#[test]
fn teams_that_do_not_fit_are_refused() {
    let mut team = programs();
    assert_eq!(team::verify(&team, 4, 0), Ok(()));
    let i = position(&team[2], SEND);
    team[2].entries[i].bytes -= 1;
    assert!(matches!(
        team::verify(&team, 4, 0),
        Err(Misfit::Bytes(2, _))
    ));
    // Both send before they receive: right only with connections that buffer.
    let head_on = |me, other| {
        let list = vec![
            entry(SEND, other, true),
            entry(RECV, other, true),
            entry(END, 0, false),
        ];
        program(me, 0, list)
    };
    let pair = [head_on(0, 1), head_on(1, 0)];
    assert!(matches!(
        team::verify(&pair, 2, 0),
        Err(Misfit::DeadLock(_))
    ));
    assert_eq!(team::verify(&pair, 2, 1), Ok(()));
}

#[test]
fn a_damaged_program_is_judged_without_panic() {
    let (good, mut refused) = (programs(), 0);
    for seed in 0..3000 {
        let rng = &mut Rng::new(seed);
        let mut team = good.clone();
        let p = &mut team[0];
        for _ in 0..1 + rng.below(3) {
            let n = p.entries.len();
            let any = rng.next();
            let value = rng.pick(&[0, 1, 2, 7, 64, 255, u64::from(u32::MAX), u64::MAX, any]);
            let e = &mut p.entries[rng.below(n)];
            match rng.below(9) {
                0 => e.code = value as u8,
                1 => e.flags = value as u8,
                2 => e.unit = value as u16,
                3 => e.peer = value as u32,
                4 => e.area = value as u32,
                5 => e.from_area = value as u32,
                6 => e.offset = value as i64,
                7 => e.bytes = value,
                _ => p.tokens = value as u32,
            }
        }
        refused += u32::from(p.verify(4).is_err());
        let _ = team::verify(&team, 4, 0);
        let _ = team[0].to_string();
    }
    assert!(refused > 1000, "{refused}");
}
