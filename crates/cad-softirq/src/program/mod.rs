//! The program at the interfaces: what it does with each packet that comes in.
//!
//! A packet is *ours* if it is for this host (by the link's address), IPv4 or IPv6 and UDP, without options and not a fragment, to our port, and begins with our
//! magic number, and has the id of the context that it names. Everything else passes untouched. Ours never go further up. One is dropped unless it fits: it has the number
//! that is next there, at least as many data as it says (what is more does not count), not too many hops, and
//!
//! * START comes in through the loopback interface, and has the ticket of a process of this host;
//! * WAIT does so too; its sender gets a packet when the result is there, or at once if it is (`wake`);
//! * UP (from a host below) and DOWN (from the one above) have a tag that only who knows the key could make. One that comes again, at whatever time, fits no
//!   number that is next (`REPEATED`); one of another context, which may have been at the same place, has another id.
//!
//! Invariants, of all of `program`:
//! * Each input is taken once for each number: whoever exchanges `CLAIMED` successfully. So a packet may come as often as it likes.
//! * The next number starts on a host when the result of the one before is there (`DONE`), and each input gives one contribution at a
//!   time. So an input's data are nobody's else when it writes them, and a result stays until all have seen it.
//! * Contributions are combined in pairs (`gather`) by whoever brings the second one of a pair, in an order that depends on nothing but the inputs'
//!   numbers: the bits of a result are the same whoever was first, and the same on all hosts, since one host combines last.
//! * A host below whose DOWN was lost says UP again, when one of its processes says START again; that asks for DOWN again.

mod arithmetic;
pub(crate) mod calc;
mod float;
mod gather;
mod machine;
mod parts;
mod send;
#[cfg(test)]
mod simulation;
mod siphash;
#[cfg(test)]
mod tests;
mod wake;
#[cfg(test)]
mod written;

use crate::asm::{
    Alu, Asm, Atomic, Code, Cond, Func, Helper, Kind as Fn, Label, Reg, Reg::*, Size,
};
use crate::layout::{self, HOPS_MAX, Kind, context, header, input, map, result, scratch};
use parts::Parts;

/// Let others look at it.
const NEXT: i32 = -1;
/// It goes no further.
const DROP: i32 = 2;
/// The loopback interface's number, in every namespace.
pub(crate) const LOOPBACK: i32 = 1;
/// What the kernel says of an IPv4 packet, and of an IPv6 one: its protocol, in the network's order of bytes.
const IPV4: i32 = 0x0008;
const IPV6: i32 = 0xdd86;
/// Fields of what the kernel says of a packet: its length, whom it is for (0: this host), its protocol and the interface that it came in through.
const LENGTH: i16 = 0;
const FOR: i16 = 4;
const PROTOCOL: i16 = 16;
const INTERFACE: i16 = 40;

/// The program's functions.
pub(crate) struct Functions {
    /// `gather(entry, input)`: combines what is there with an input's contribution; 1 if that was the last.
    gather: Func,
    /// `combine(lower, upper, entry)`: combines two inputs of all, into the lower one.
    combine: Func,
    /// `fold(entry, lower, upper)`: does so by byte code of this context's; 0 if it isn't there.
    fold: Func,
    /// One step of it, which `fold` calls.
    step: Func,
    /// `publish(entry, number, input)`: makes an input's contribution, or the packet's (-1), the result.
    publish: Func,
    /// `send(packet, entry, peer, kind and hops, number)`: to the host above, or a result to one below.
    send: Func,
    /// `tag(entry, words)` of the packet in the scratch.
    tag: Func,
    /// `wake(packet, entry)`: a packet to each process of this host that waits.
    wake: Func,
    /// One of these, which `wake` calls.
    wake_one: Func,
}

/// Where a part of our header lies in the scratch.
fn ours(at: i16) -> i16 {
    scratch::OURS + at
}

/// What main keeps on its stack.
const NUMBER: i16 = -8;
const ENTRY: i16 = -16;
const INPUT: i16 = -24;
const WORDS: i16 = -32;
const KIND: i16 = -40;
const CHILD: i16 = -48;
const BASE: i16 = -56;
/// Where the data begin in the packet.
const AT: i16 = -64;

/// The program, for packets to this port.
pub(crate) fn program(port: u16) -> Code {
    let mut asm = Asm::new();
    let main = asm.declare("main", Fn::Main);
    let functions = Functions {
        gather: asm.declare("gather", Fn::Global(2)),
        combine: asm.declare("combine", Fn::Global(3)),
        fold: asm.declare("fold", Fn::Global(3)),
        step: asm.declare("step", Fn::Callback),
        publish: asm.declare("publish", Fn::Global(3)),
        send: asm.declare("send", Fn::Packet(4)),
        tag: asm.declare("tag", Fn::Global(2)),
        wake: asm.declare("wake", Fn::Packet(1)),
        wake_one: asm.declare("wake_one", Fn::Callback),
    };
    let parts = Parts::new(&mut asm);
    asm.begin(main);
    Main::new(&mut asm, &functions).write(port);
    gather::gather(&mut asm, &functions);
    gather::combine(&mut asm, &functions, &parts);
    machine::fold(&mut asm, &functions, &parts);
    machine::step(&mut asm, functions.step);
    send::publish(&mut asm, &functions, &parts);
    send::send(&mut asm, &functions, &parts);
    siphash::tag(&mut asm, &functions, &parts);
    wake::wake(&mut asm, &functions);
    wake::wake_one(&mut asm, &functions, port);
    parts.write(&mut asm);
    asm.finish()
}

/// The program proper, with the labels that its pieces share. `R6` is the packet, `R8` the scratch, `R9` the context.
struct Main<'a> {
    asm: &'a mut Asm,
    functions: &'a Functions,
    next: Label,
    drop: Label,
    repeated: Label,
    forged: Label,
    take: Label,
    wait: Label,
    down: Label,
    all: Label,
    again: Label,
}

impl<'a> Main<'a> {
    fn new(asm: &'a mut Asm, functions: &'a Functions) -> Main<'a> {
        let mut label = || asm.label();
        let [next, drop, repeated, forged, take, wait, down, all, again] =
            std::array::from_fn(|_| label());
        Main {
            asm,
            functions,
            next,
            drop,
            repeated,
            forged,
            take,
            wait,
            down,
            all,
            again,
        }
    }

    fn write(&mut self, port: u16) {
        self.ours(port);
        self.context();
        self.kinds();
        self.take();
        self.wait(port);
        self.down();
        self.again();
        self.all();
        self.ends();
    }

    /// Falls through with a packet of ours in the scratch, all of it, and its words on the stack.
    fn ours(&mut self, port: u16) {
        let (asm, next, drop) = (&mut *self.asm, self.next, self.drop);
        let (six, udp) = (asm.label(), asm.label());
        asm.mov(R6, R1);
        // What a host passes on as a switch does is not its own.
        asm.load(Size::W, R2, R6, FOR);
        asm.jump_if(Cond::Ne, R2, 0, next);
        asm.load(Size::W, R7, R6, LENGTH);
        lookup_scratch(asm, R8, next);
        asm.load(Size::W, R2, R6, PROTOCOL);
        asm.jump_if(Cond::Eq, R2, IPV6, six);
        asm.jump_if(Cond::Ne, R2, IPV4, next);
        load_headers(asm, scratch::ETHERNET, next);
        asm.load(Size::B, R2, R8, scratch::IP);
        asm.jump_if(Cond::Ne, R2, 0x45, next);
        asm.load(Size::B, R2, R8, scratch::IP + 9);
        asm.jump_if(Cond::Ne, R2, 17, next);
        asm.load(Size::H, R2, R8, scratch::IP + 6);
        asm.alu(Alu::And, R2, i32::from(0x3fff_u16.to_be()));
        asm.jump_if(Cond::Ne, R2, 0, next);
        asm.jump(udp);
        asm.bind(six);
        load_headers(asm, scratch::ETHERNET_6, next);
        asm.load(Size::B, R2, R8, scratch::IP_6);
        asm.alu(Alu::And, R2, 0xf0);
        asm.jump_if(Cond::Ne, R2, 0x60, next);
        // A fragment has a header between.
        asm.load(Size::B, R2, R8, scratch::IP_6 + 6);
        asm.jump_if(Cond::Ne, R2, 17, next);
        asm.bind(udp);
        asm.load(Size::H, R2, R8, scratch::UDP + 2);
        asm.jump_if(Cond::Ne, R2, i32::from(port.to_be()), next);
        asm.load(Size::W, R2, R8, ours(header::MAGIC_AT));
        asm.mov(R3, header::MAGIC as i32);
        asm.jump_if(Cond::Ne, R2, R3, next);
        // It is ours. The data have whole words.
        let empty = asm.label();
        asm.load(Size::H, R2, R8, ours(header::WHAT) + 2);
        asm.alu(Alu::Add, R2, 7);
        asm.alu(Alu::And, R2, !7);
        asm.jump_if(Cond::Gt, R2, R7, drop);
        asm.mov(R7, R2);
        asm.alu(Alu::Rsh, R2, 3);
        asm.store(Size::D, Fp, WORDS, R2);
        asm.jump_if(Cond::Lt, R7, 1, empty);
        asm.jump_if(Cond::Gt, R7, layout::DATA_MAX as i32, drop);
        asm.mov(R1, R6);
        asm.load(Size::D, R2, Fp, AT);
        asm.mov(R3, R8);
        asm.alu(Alu::Add, R3, i32::from(scratch::DATA));
        asm.mov(R4, R7);
        asm.call(Helper::LoadBytes);
        asm.jump_if(Cond::Ne, R0, 0, drop);
        asm.bind(empty);
    }

    /// Falls through with the packet's context, if that has the packet's id. What is of none passes: another's program may know it.
    fn context(&mut self) {
        let (asm, next, drop) = (&mut *self.asm, self.next, self.drop);
        asm.load(Size::W, R2, R8, ours(header::ENTRY));
        asm.store(Size::D, Fp, ENTRY, R2);
        asm.load(Size::W, R2, R8, ours(header::INPUT));
        asm.store(Size::D, Fp, INPUT, R2);
        asm.load(Size::D, R2, R8, ours(header::NUMBER));
        asm.store(Size::D, Fp, NUMBER, R2);
        lookup_at(asm, map::CONTEXTS, ENTRY, R9, next);
        asm.load(Size::D, R2, R9, context::ID);
        asm.jump_if(Cond::Eq, R2, 0, next);
        asm.load(Size::D, R3, R8, ours(header::ID));
        asm.jump_if(Cond::Ne, R2, R3, next);
        asm.load(Size::B, R2, R8, ours(header::HOPS));
        asm.jump_if(Cond::Gt, R2, i32::from(HOPS_MAX), drop);
    }

    /// Goes to `take` with an input that the packet may fill in `R7`, or to `down`.
    fn kinds(&mut self) {
        let (asm, drop, forged) = (&mut *self.asm, self.drop, self.forged);
        let start = asm.label();
        asm.load(Size::B, R2, R8, ours(header::KIND));
        asm.store(Size::D, Fp, KIND, R2);
        asm.jump_if(Cond::Eq, R2, Kind::Start as i32, start);
        asm.jump_if(Cond::Eq, R2, Kind::Wait as i32, start);
        // The packet's tag has to be what it should be.
        asm.load(Size::D, R7, R8, ours(header::TAG));
        asm.store(Size::D, R8, ours(header::TAG), 0);
        asm.load(Size::D, R1, Fp, ENTRY);
        asm.load(Size::D, R2, Fp, WORDS);
        asm.alu(Alu::Add, R2, i32::from(header::BYTES) / 8);
        asm.call_function(self.functions.tag);
        asm.jump_if(Cond::Ne, R0, R7, forged);
        asm.load(Size::D, R2, Fp, KIND);
        asm.jump_if(Cond::Eq, R2, Kind::Down as i32, self.down);
        asm.jump_if(Cond::Ne, R2, Kind::Up as i32, drop);
        asm.load(Size::D, R1, Fp, INPUT);
        asm.load(Size::W, R2, R9, context::LOCAL);
        asm.jump_if(Cond::Lt, R1, R2, drop);
        asm.load(Size::W, R2, R9, context::INPUTS);
        asm.jump_if(Cond::Ge, R1, R2, drop);
        lookup_input(asm, R7, drop);
        asm.jump(self.take);
        // From a process of this host.
        asm.bind(start);
        asm.load(Size::W, R2, R6, INTERFACE);
        asm.jump_if(Cond::Ne, R2, LOOPBACK, drop);
        asm.load(Size::D, R1, Fp, INPUT);
        asm.load(Size::W, R2, R9, context::LOCAL);
        asm.jump_if(Cond::Ge, R1, R2, drop);
        lookup_input(asm, R7, drop);
        asm.load(Size::D, R2, R7, input::TICKET);
        asm.load(Size::D, R3, R8, ours(header::TAG));
        asm.jump_if(Cond::Ne, R2, R3, forged);
        asm.load(Size::D, R2, Fp, KIND);
        asm.jump_if(Cond::Eq, R2, Kind::Wait as i32, self.wait);
    }

    /// A contribution for the input in `R7`.
    fn take(&mut self) {
        let (asm, drop) = (&mut *self.asm, self.drop);
        let empty = asm.label();
        asm.bind(self.take);
        asm.load(Size::D, R3, Fp, NUMBER);
        asm.mov(R0, R3);
        asm.alu(Alu::Sub, R0, 1);
        asm.load(Size::D, R2, R9, context::DONE);
        asm.jump_if(Cond::Ne, R2, R0, self.again);
        asm.mov(R2, R0);
        asm.atomic(Atomic::CompareExchange, R7, input::CLAIMED, R3);
        asm.jump_if(Cond::Ne, R0, R2, self.again);
        asm.load(Size::D, R2, R8, ours(header::WHAT));
        asm.store(Size::D, R7, layout::WHAT, R2);
        asm.load(Size::B, R2, R8, ours(header::HAVE));
        asm.store(Size::D, R7, layout::HAVE, R2);
        asm.load(Size::D, R4, Fp, WORDS);
        asm.alu(Alu::Lsh, R4, 3);
        asm.jump_if(Cond::Lt, R4, 1, empty);
        asm.jump_if(Cond::Gt, R4, layout::DATA_MAX as i32, drop);
        asm.mov(R1, R6);
        asm.load(Size::D, R2, Fp, AT);
        asm.mov(R3, R7);
        asm.alu(Alu::Add, R3, i32::from(layout::DATA));
        asm.call(Helper::LoadBytes);
        asm.bind(empty);
        asm.load(Size::D, R1, Fp, ENTRY);
        asm.load(Size::D, R2, Fp, INPUT);
        asm.call_function(self.functions.gather);
        asm.jump_if(Cond::Eq, R0, 0, drop);
        asm.load(Size::D, R2, Fp, NUMBER);
        asm.atomic(Atomic::Exchange, R9, context::GATHERED, R2);
        asm.load(Size::W, R2, R9, context::PARENT);
        let root = asm.label();
        asm.jump_if(Cond::Eq, R2, 0, root);
        self.send(Kind::Up, |asm| asm.mov(R3, 0));
        let asm = &mut *self.asm;
        asm.jump(drop);
        asm.bind(root);
        asm.load(Size::D, R2, Fp, NUMBER);
        asm.atomic(Atomic::Exchange, R9, context::DONE, R2);
        asm.load(Size::D, R1, Fp, ENTRY);
        asm.load(Size::D, R2, Fp, NUMBER);
        asm.load(Size::W, R3, R9, context::BASE);
        asm.call_function(self.functions.publish);
        asm.jump(self.all);
    }

    /// The process of the input in `R7` waits. Who makes a result public looks for those who wait afterwards, and who waits looks for
    /// the result afterwards; so one of the two sees the other. Nobody waits at our own port: what wakes him would be looked at here, and wake again.
    fn wait(&mut self, port: u16) {
        let (asm, drop) = (&mut *self.asm, self.drop);
        asm.bind(self.wait);
        asm.load(Size::H, R2, R8, scratch::UDP);
        asm.jump_if(Cond::Eq, R2, i32::from(port.to_be()), drop);
        asm.atomic(Atomic::Exchange, R7, input::PORT, R2);
        asm.mov(R2, 1);
        asm.atomic(Atomic::Exchange, R9, context::WAITERS, R2);
        lookup_result(asm, ENTRY, R7, drop);
        asm.load(Size::D, R3, R7, result::NUMBER);
        asm.load(Size::D, R2, Fp, NUMBER);
        asm.jump_if(Cond::Lt, R3, R2, drop);
        asm.mov(R1, R6);
        asm.load(Size::D, R2, Fp, ENTRY);
        asm.call_function(self.functions.wake);
        asm.jump(drop);
    }

    /// The result, from the host above.
    fn down(&mut self) {
        let asm = &mut *self.asm;
        asm.bind(self.down);
        asm.load(Size::W, R2, R9, context::PARENT);
        asm.jump_if(Cond::Eq, R2, 0, self.drop);
        asm.load(Size::D, R3, Fp, NUMBER);
        asm.load(Size::D, R2, R9, context::GATHERED);
        asm.jump_if(Cond::Ne, R2, R3, self.repeated);
        asm.mov(R0, R3);
        asm.alu(Alu::Sub, R0, 1);
        asm.mov(R2, R0);
        asm.atomic(Atomic::CompareExchange, R9, context::DONE, R3);
        asm.jump_if(Cond::Ne, R0, R2, self.repeated);
        asm.load(Size::D, R1, Fp, ENTRY);
        asm.load(Size::D, R2, Fp, NUMBER);
        asm.mov(R3, -1);
        asm.call_function(self.functions.publish);
        asm.jump(self.all);
    }

    /// A contribution that was there before, or is for another number: whoever sends it may lack what was sent to it.
    fn again(&mut self) {
        let (asm, repeated) = (&mut *self.asm, self.repeated);
        asm.bind(self.again);
        let start = asm.label();
        asm.load(Size::D, R2, Fp, NUMBER);
        asm.load(Size::D, R3, R9, context::GATHERED);
        asm.jump_if(Cond::Ne, R2, R3, repeated);
        asm.load(Size::D, R3, R7, input::CLAIMED);
        asm.jump_if(Cond::Ne, R2, R3, repeated);
        asm.load(Size::D, R3, Fp, KIND);
        asm.jump_if(Cond::Eq, R3, Kind::Start as i32, start);
        // The result's page says whether it is complete, unlike `DONE`.
        lookup_result(asm, ENTRY, R7, repeated);
        asm.load(Size::D, R3, R7, result::NUMBER);
        asm.load(Size::D, R2, Fp, NUMBER);
        asm.jump_if(Cond::Ne, R2, R3, repeated);
        self.send(Kind::Down, |asm| {
            asm.load(Size::D, R3, Fp, INPUT);
            asm.load(Size::W, R2, R9, context::LOCAL);
            asm.alu(Alu::Sub, R3, R2);
            asm.alu(Alu::Add, R3, 1);
        });
        let asm = &mut *self.asm;
        asm.jump(repeated);
        asm.bind(start);
        asm.load(Size::W, R3, R9, context::PARENT);
        asm.jump_if(Cond::Eq, R3, 0, repeated);
        asm.load(Size::D, R3, R9, context::DONE);
        asm.jump_if(Cond::Eq, R2, R3, repeated);
        self.send(Kind::Up, |asm| asm.mov(R3, 0));
        self.asm.jump(repeated);
    }

    /// Wakes who waits, and sends the result to all hosts below.
    fn all(&mut self) {
        self.asm.bind(self.all);
        self.asm.mov(R1, R6);
        self.asm.load(Size::D, R2, Fp, ENTRY);
        self.asm.call_function(self.functions.wake);
        // `send` fills the scratch; its hops are kept.
        self.asm.load(Size::B, R7, R8, ours(header::HOPS));
        for child in 1..=layout::CHILDREN_MAX as i32 {
            let asm = &mut *self.asm;
            asm.load(Size::W, R2, R9, context::CHILDREN);
            asm.jump_if(Cond::Lt, R2, child, self.drop);
            asm.store(Size::B, R8, ours(header::HOPS), R7);
            self.send(Kind::Down, |asm| asm.mov(R3, child));
        }
        self.asm.jump(self.drop);
    }

    /// Sends to the peer that `peer` puts into `R3`.
    fn send(&mut self, kind: Kind, peer: impl FnOnce(&mut Asm)) {
        let asm = &mut *self.asm;
        peer(asm);
        asm.mov(R1, R6);
        asm.load(Size::D, R2, Fp, ENTRY);
        asm.load(Size::B, R4, R8, ours(header::HOPS));
        asm.alu(Alu::Add, R4, 1);
        asm.alu(Alu::Lsh, R4, 8);
        asm.alu(Alu::Or, R4, kind as i32);
        asm.load(Size::D, R5, Fp, NUMBER);
        asm.call_function(self.functions.send);
    }

    fn ends(&mut self) {
        let asm = &mut *self.asm;
        asm.bind(self.next);
        asm.give(NEXT);
        asm.bind(self.forged);
        count(asm, R9, context::FORGED);
        asm.jump(self.drop);
        asm.bind(self.repeated);
        count(asm, R9, context::REPEATED);
        asm.bind(self.drop);
        asm.give(DROP);
    }
}

/// One more.
fn count(asm: &mut Asm, base: Reg, at: i16) {
    asm.mov(R2, 1);
    asm.atomic(Atomic::Add, base, at, R2);
}

/// Loads all headers of the packet in `R6`, whose length is in `R7`, to the scratch in `R8`, where they begin at `start`. `R7` = how long the data are;
/// if that can't be, or it has no headers, goes to `next`.
fn load_headers(asm: &mut Asm, start: i16, next: Label) {
    let bytes = i32::from(scratch::DATA - start);
    asm.jump_if(Cond::Lt, R7, bytes, next);
    asm.jump_if(Cond::Gt, R7, bytes + layout::DATA_MAX as i32, next);
    asm.alu(Alu::Sub, R7, bytes);
    asm.store(Size::D, Fp, AT, bytes);
    asm.mov(R1, R6);
    asm.mov(R2, 0);
    asm.mov(R3, R8);
    asm.alu(Alu::Add, R3, i32::from(start));
    asm.mov(R4, bytes);
    asm.call(Helper::LoadBytes);
    asm.jump_if(Cond::Ne, R0, 0, next);
}

/// `to` = the entry of a map that has the number at `at` in the stack; if there is none, goes to `none`.
fn lookup_at(asm: &mut Asm, map: usize, at: i16, to: Reg, none: Label) {
    asm.map(R1, map);
    asm.mov(R2, Fp);
    asm.alu(Alu::Add, R2, i32::from(at));
    asm.call(Helper::MapLookup);
    asm.jump_if(Cond::Eq, R0, 0, none);
    asm.mov(to, R0);
}

/// `to` = the scratch. Uses the last words of the stack.
fn lookup_scratch(asm: &mut Asm, to: Reg, none: Label) {
    asm.store(Size::D, Fp, BASE, 0);
    lookup_at(asm, map::SCRATCH, BASE, to, none);
}

/// `to` = the input whose number in the context in `R9` is in `R1`.
fn lookup_input(asm: &mut Asm, to: Reg, none: Label) {
    asm.load(Size::W, R2, R9, context::BASE);
    asm.alu(Alu::Add, R2, R1);
    asm.store(Size::D, Fp, BASE, R2);
    lookup_at(asm, map::INPUTS, BASE, to, none);
}

/// `to` = the page of results of the entry whose number is at `at` in the stack.
fn lookup_result(asm: &mut Asm, at: i16, to: Reg, none: Label) {
    lookup_at(asm, map::RESULTS, at, to, none);
    asm.store(Size::D, Fp, BASE, 0);
    asm.mov(R1, to);
    asm.mov(R2, Fp);
    asm.alu(Alu::Add, R2, i32::from(BASE));
    asm.call(Helper::MapLookup);
    asm.jump_if(Cond::Eq, R0, 0, none);
    asm.mov(to, R0);
}
