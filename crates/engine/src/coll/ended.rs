//! Collectives that are over, kept for the next like them: programs call the same ones again and again.
//!
//! For one that ran in calls that is its memory: of what an `MPI_Iallreduce` of 64 bytes on two ranks takes, a fifth went into making the state of its
//! run and its temporary buffers, and into dropping them. For one that the [kernel](super::handed) ran it is the plan too.
//!
//! Invariants: each has ended well, is nobody's any more, and was of a communicator that has not been freed. Its types and its operation are alive as
//! long as it is, so none that was made after them can be taken for them. Who calls it: collectives that are not persistent, when they start in calls or in chains of
//! the kernel, and when they end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use types::{Result, consts};

use super::{Call, Running};
use crate::comm::Comm;
use crate::state::Engine;

/// What may be kept.
pub(crate) trait Keep {
    /// The call that it was.
    fn call(&self) -> &Call;
    /// Bytes of memory of ours that it has beside its own.
    fn bytes(&self) -> usize;
}

/// At most `MOST` of them, each with at most `BYTES`; the one that ended last is the last.
pub(crate) struct Ended<T, const MOST: usize, const BYTES: usize>(RefCell<VecDeque<Box<T>>>);

/// Those that ran in calls. More than a program has different ones in a loop. Longer temporary buffers may serve [others](super::Spare); with these of
/// 8 and 16 KiB an `MPI_Iallreduce` of two ranks takes a twentieth less than where those go back.
pub(crate) type EndedInCalls = Ended<Running, 8, { 32 << 10 }>;

impl<T, const MOST: usize, const BYTES: usize> Default for Ended<T, MOST, BYTES> {
    fn default() -> Self {
        Ended(RefCell::default())
    }
}

impl<T: Keep, const MOST: usize, const BYTES: usize> Ended<T, MOST, BYTES> {
    /// One that serves.
    pub fn take(&self, serves: impl Fn(&T) -> bool) -> Option<Box<T>> {
        let mut all = self.0.borrow_mut();
        let found = all.iter().rposition(|one| serves(one))?;
        all.remove(found)
    }

    /// Keeps one that has ended well.
    pub fn keep(&self, one: Box<T>) {
        let call = one.call();
        // Where nobody else has the graph no later call has the same.
        let known = Rc::strong_count(&call.graph) > 1;
        let freed = call.comm.handle.get() == consts::COMM_NULL;
        if !known || freed || one.bytes() > BYTES {
            return;
        }
        let mut all = self.0.borrow_mut();
        all.push_back(one);
        let oldest = (all.len() > MOST).then(|| all.pop_front());
        drop((all, oldest));
    }

    /// Drops those of a communicator.
    pub fn forget(&self, comm: &Comm) {
        let all = self.0.take();
        let (gone, kept) = all
            .into_iter()
            .partition(|one| std::ptr::eq(&*one.call().comm, comm));
        self.0.replace(kept);
        drop::<VecDeque<_>>(gone);
    }

    /// Drops all.
    pub fn clear(&self) {
        drop(self.0.take());
    }
}

impl Call {
    /// Whether another has the same graph and types.
    pub(super) fn is_like(&self, other: &Call) -> bool {
        fn same<T>(a: Option<&Rc<T>>, b: Option<&Rc<T>>) -> bool {
            a.map(Rc::as_ptr) == b.map(Rc::as_ptr)
        }
        Rc::ptr_eq(&self.graph, &other.graph)
            && same(self.send_type.as_ref(), other.send_type.as_ref())
            && same(self.recv_type.as_ref(), other.recv_type.as_ref())
            && self.types.is_none()
            && other.types.is_none()
    }
}

impl Keep for Running {
    fn call(&self) -> &Call {
        &self.call
    }

    fn bytes(&self) -> usize {
        self.temps.bytes()
    }
}

impl Running {
    /// Begins anew with a call like its own: its temporary buffers lie as the graph and the types say.
    fn renew(&mut self, call: Call) {
        (self.tag, self.node_tag) = call.tags.resolve(&call.comm);
        self.call = call;
        self.run.reset(&self.call.graph);
    }
}

impl Engine {
    /// What a call that isn't persistent runs with.
    pub(super) fn running_for(&self, call: Call) -> Result<Box<Running>> {
        match self.ended.take(|running| running.call.is_like(&call)) {
            Some(mut running) => {
                running.renew(call);
                Ok(running)
            }
            None => Running::new(call, &self.spare).map(Box::new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::cell::Cell;

    use cad::{BufId, Builder, Graph, Region, Team};
    use types::Handle;

    use crate::coll::names;
    use crate::errhandler::Errhandler;
    use crate::group::Group;

    struct One {
        call: Call,
        bytes: usize,
        number: u32,
    }

    impl Keep for One {
        fn call(&self) -> &Call {
            &self.call
        }

        fn bytes(&self) -> usize {
            self.bytes
        }
    }

    type Few = Ended<One, 2, 100>;

    fn comm() -> Rc<Comm> {
        let group = Rc::new(Group::new(vec![0, 1]));
        let errhandler = Rc::new(Errhandler::predefined(consts::ERRORS_ARE_FATAL));
        let comm = Comm::new(8, None, group, 0, errhandler);
        comm.handle.set(Handle(77));
        Rc::new(comm)
    }

    fn graph() -> Rc<Graph> {
        let mut builder = Builder::new(Team::new(0, 2));
        builder.send(1, 0, Region::bytes(BufId::Send, 0, 8), &[]);
        Rc::new(builder.finish())
    }

    fn call(comm: &Rc<Comm>, graph: &Rc<Graph>) -> Call {
        Call::new(&names::BCAST, comm.clone(), graph.clone())
    }

    /// Keeps one of these, with a number.
    fn keep(few: &Few, comm: &Rc<Comm>, graph: &Rc<Graph>, bytes: usize) -> u32 {
        thread_local!(static NUMBER: Cell<u32> = const { Cell::new(0) });
        let number = NUMBER.get() + 1;
        NUMBER.set(number);
        let call = call(comm, graph);
        few.keep(Box::new(One {
            call,
            bytes,
            number,
        }));
        number
    }

    fn taken(few: &Few, call: &Call) -> Option<u32> {
        few.take(|one| one.call.is_like(call)).map(|one| one.number)
    }

    #[test]
    fn only_what_was_like_it_serves_a_call_the_last_first_and_once() {
        let (few, comm, graphs) = (Few::default(), comm(), [graph(), graph()]);
        let calls = graphs.each_ref().map(|graph| call(&comm, graph));
        let first = keep(&few, &comm, &graphs[0], 0);
        let second = keep(&few, &comm, &graphs[0], 0);
        assert_eq!(taken(&few, &calls[1]), None);
        assert_eq!(taken(&few, &calls[0]), Some(second));
        assert_eq!(taken(&few, &calls[0]), Some(first));
        assert_eq!(taken(&few, &calls[0]), None);
    }

    #[test]
    fn the_oldest_goes_and_what_is_long_or_nobody_can_call_again_is_not_kept() {
        let (few, comm, graphs) = (Few::default(), comm(), [graph(), graph(), graph()]);
        let calls = graphs.each_ref().map(|graph| call(&comm, graph));
        let kept = graphs.each_ref().map(|graph| keep(&few, &comm, graph, 100));
        let found = calls.each_ref().map(|call| taken(&few, call));
        assert_eq!(found, [None, Some(kept[1]), Some(kept[2])]);
        keep(&few, &comm, &graphs[0], 101);
        let lone = call(&comm, &graph());
        few.keep(Box::new(One {
            call: lone,
            bytes: 0,
            number: 0,
        }));
        assert!(few.0.borrow().is_empty());
    }

    #[test]
    fn nothing_stays_of_a_communicator_that_is_freed() {
        let (few, comms, graph) = (Few::default(), [comm(), comm()], graph());
        keep(&few, &comms[0], &graph, 0);
        let other = keep(&few, &comms[1], &graph, 0);
        few.forget(&comms[0]);
        comms[0].handle.set(consts::COMM_NULL);
        keep(&few, &comms[0], &graph, 0);
        assert_eq!(Rc::strong_count(&comms[0]), 1);
        let any = call(&comms[1], &graph);
        assert_eq!(taken(&few, &any), Some(other));
        keep(&few, &comms[1], &graph, 0);
        few.clear();
        assert_eq!(taken(&few, &any), None);
    }
}
