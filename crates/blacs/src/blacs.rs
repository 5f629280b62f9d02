//! The contexts of a process, and the operations on them.

use boundary::UserBuf;

use crate::combine::{self, Combine};
use crate::context::{Context, INDICES, Scope, Stream};
use crate::flow::{FACE, Flow};
use crate::{Ends, Error, Grid, Net, Options, Shape, Topology};

/// BLACS in one process.
///
/// Every operation that exchanges messages is called by the processes it concerns in the same order within each
/// stream, as BLACS asks for; it returns when its matrix may be used again.
pub struct Blacs<N: Net> {
    net: N,
    contexts: Vec<Option<Context<N::Comm>>>,
    /// One bit for each run of indices: whether a context of this process has it, or there is no such run.
    used: Vec<u64>,
    /// Contexts made so far.
    made: u64,
    faces: Option<[UserBuf; 2]>,
    /// The block of a combine, kept so that a combine does not allocate.
    block: Vec<u8>,
}

impl<N: Net> Blacs<N> {
    /// With no context yet.
    pub fn new(net: N) -> Blacs<N> {
        let places = net.indices() / INDICES;
        let word = |first: u32| match places - first {
            64.. => 0,
            some => u64::MAX << some,
        };
        let used = (0..places).step_by(64).map(word).collect();
        Blacs {
            net,
            contexts: Vec::new(),
            used,
            made: 0,
            faces: None,
            block: Vec::new(),
        }
    }

    /// What the messages travel by.
    pub fn net(&mut self) -> &mut N {
        &mut self.net
    }

    /// Makes a context: `members` are the ranks of the grid's processes row by row, and `system` the handle that
    /// `blacs_get` shall give for it. Only members call.
    pub fn open(
        &mut self,
        members: &[u32],
        rows: i32,
        columns: i32,
        system: i32,
    ) -> Result<i32, Error> {
        Grid::check(rows, columns, members.len())?;
        let rank = self.net.rank();
        let own = members.iter().position(|&member| member == rank);
        let own = own.ok_or(Error::Grid(rows, columns, members.len()))?;
        let grid = Grid::new(rows as u32, columns as u32, own as u32);
        self.faces()?;
        let all = self.net.comm(members, 0)?;
        let mut common = self.used.clone();
        self.net.unite(all, &mut common)?;
        let word = common.iter().position(|&word| word != u64::MAX);
        let Some(word) = word else {
            self.net.comm_free(all)?;
            return Err(Error::Contexts(self.net.indices() / INDICES));
        };
        let bit = common[word].trailing_ones();
        self.used[word] |= 1 << bit;
        let place = word as u32 * 64 + bit;
        let mut context = Context::new(grid, system, place, all);
        self.made += 1;
        context.made = self.made;
        context.row = self.line(&context, members, Scope::Row)?;
        context.column = self.line(&context, members, Scope::Column)?;
        let number = self.contexts.iter().position(Option::is_none);
        let number = number.unwrap_or_else(|| {
            self.contexts.push(None);
            self.contexts.len() - 1
        });
        self.contexts[number] = Some(context);
        Ok(number as i32)
    }

    /// The communicator of our row or column.
    fn line(
        &mut self,
        context: &Context<N::Comm>,
        members: &[u32],
        scope: Scope,
    ) -> Result<Option<N::Comm>, Error> {
        let size = context.grid.size(scope);
        if size == 1 {
            return Ok(None);
        }
        let numbers = (0..size).map(|index| context.grid.number_in(scope, index));
        let line: Vec<_> = numbers.map(|number| members[number as usize]).collect();
        let tag = if scope == Scope::Row { 1 } else { 2 };
        Ok(Some(self.net.comm(&line, tag)?))
    }

    /// Frees a context; its members call. Gives the system handle that it was made with.
    pub fn close(&mut self, number: i32) -> Result<i32, Error> {
        let place = usize::try_from(number).ok();
        let place = place.and_then(|place| self.contexts.get_mut(place));
        let context = place.and_then(Option::take).ok_or(Error::Context(number))?;
        self.used[context.place as usize / 64] &= !(1 << (context.place % 64));
        let system = context.system;
        context.close(&mut self.net)?;
        Ok(system)
    }

    /// The contexts there are, in the order they were made. All processes that share some made them in that order, so
    /// they may be closed in it without anybody waiting for ever.
    pub fn numbers(&self) -> Vec<i32> {
        let made = |context: &Option<Context<_>>| context.as_ref().map(|context| context.made);
        let numbers = (0..).zip(&self.contexts);
        let mut numbers: Vec<_> = numbers
            .filter_map(|(number, context)| made(context).map(|made| (made, number)))
            .collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|(_, number)| number).collect()
    }

    fn context(&self, number: i32) -> Result<&Context<N::Comm>, Error> {
        let place = usize::try_from(number).ok();
        let context = place.and_then(|place| self.contexts.get(place));
        context
            .and_then(Option::as_ref)
            .ok_or(Error::Context(number))
    }

    /// The grid of a context.
    pub fn grid(&self, number: i32) -> Result<&Grid, Error> {
        Ok(&self.context(number)?.grid)
    }

    /// The system handle that a context was made with.
    pub fn system(&self, number: i32) -> Result<i32, Error> {
        Ok(self.context(number)?.system)
    }

    /// The options of a context.
    pub fn options(&mut self, number: i32) -> Result<&mut Options, Error> {
        Ok(&mut context_mut(&mut self.contexts, number)?.options)
    }

    fn faces(&mut self) -> Result<[UserBuf; 2], Error> {
        if let Some(faces) = self.faces {
            return Ok(faces);
        }
        let faces = [self.net.face(FACE)?, self.net.face(FACE)?];
        self.faces = Some(faces);
        Ok(faces)
    }

    /// The messages of a stream.
    #[inline]
    fn flow(&mut self, number: i32, stream: Stream) -> Result<Flow<'_, N>, Error> {
        let place = usize::try_from(number).ok();
        let context = place.and_then(|place| self.contexts.get_mut(place));
        let context = context.and_then(Option::as_mut);
        let (Some(context), Some(faces)) = (context, self.faces) else {
            return Err(Error::Context(number));
        };
        Ok(Flow {
            net: &mut self.net,
            context,
            faces,
            stream,
        })
    }

    /// Sends a matrix to the process at these coordinates.
    pub fn send(
        &mut self,
        number: i32,
        shape: &Shape,
        a: UserBuf,
        to: (i32, i32),
    ) -> Result<(), Error> {
        let mut flow = self.flow(number, Stream::Points)?;
        let peer = peer(&flow.context.grid, "RDEST, CDEST", to)?;
        flow.carry(None, &[peer], shape, a)
    }

    /// Receives a matrix from the process at these coordinates.
    pub fn receive(
        &mut self,
        number: i32,
        shape: &Shape,
        a: UserBuf,
        from: (i32, i32),
    ) -> Result<(), Error> {
        let mut flow = self.flow(number, Stream::Points)?;
        let peer = peer(&flow.context.grid, "RSRC, CSRC", from)?;
        flow.carry(Some(peer), &[], shape, a)
    }

    /// What matrices whose elements lie in one run of a [`piece`](crate::Shape::piece) need, the short way past [`Blacs::send`] and
    /// [`Blacs::receive`]: until the context is closed.
    pub fn ends(&self, number: i32) -> Result<&Ends<N::Comm>, Error> {
        Ok(&self.context(number)?.ends)
    }

    /// Broadcasts a matrix to the scope.
    pub fn broadcast(
        &mut self,
        number: i32,
        scope: Scope,
        topology: u8,
        shape: &Shape,
        a: UserBuf,
    ) -> Result<(), Error> {
        let own = self.grid(number)?.within(scope);
        self.spread(number, scope, topology, shape, a, own)
    }

    /// Receives a broadcast of the process at these coordinates.
    pub fn receive_broadcast(
        &mut self,
        number: i32,
        scope: Scope,
        topology: u8,
        shape: &Shape,
        a: UserBuf,
        from: (i32, i32),
    ) -> Result<(), Error> {
        let grid = self.grid(number)?;
        let root = grid.index_at(scope, from.0, from.1);
        let root = root.ok_or(Error::Place("RSRC, CSRC", from, grid.sides()))?;
        if root == grid.within(scope) {
            return Err(Error::OwnBroadcast);
        }
        self.spread(number, scope, topology, shape, a, root)
    }

    fn spread(
        &mut self,
        number: i32,
        scope: Scope,
        topology: u8,
        shape: &Shape,
        a: UserBuf,
        root: u32,
    ) -> Result<(), Error> {
        let mut flow = self.flow(number, scope.stream())?;
        let topology = Topology::of_broadcast(topology, &flow.context.options)?;
        flow.context.operate(scope);
        if topology == Topology::Best {
            return flow.spread_best(scope, root, shape, a);
        }
        let grid = &flow.context.grid;
        let size = grid.size(scope);
        let tree = topology.tree(size, (grid.within(scope) + size - root) % size);
        let process = |r: u32| grid.number_in(scope, (r + root) % size);
        let from = tree.parent.map(process);
        let to: Vec<_> = tree.children.into_iter().map(process).collect();
        flow.carry(from, &to, shape, a)
    }

    /// Combines a matrix of all processes of a scope.
    pub fn combine(&mut self, number: i32, what: &Combine) -> Result<(), Error> {
        let shape = Shape::new(
            crate::Part::General,
            what.m,
            what.n,
            what.lda,
            what.element.size(),
        );
        let shape = shape.ok_or(Error::Size(what.m, what.n))?;
        let mut block = std::mem::take(&mut self.block);
        let mut flow = self.flow(number, what.scope.stream())?;
        let topology = Topology::of_combine(what.topology, &flow.context.options)?;
        let destination = combine::destination(flow.context, what)?;
        flow.context.operate(what.scope);
        let run = combine::Run {
            flow: &mut flow,
            what,
            shape,
            block: &mut block,
            destination,
        };
        run.run(topology)?;
        self.block = block;
        Ok(())
    }

    /// Waits for all processes of a scope.
    pub fn barrier(&mut self, number: i32, scope: Scope) -> Result<(), Error> {
        match self.context(number)?.comm(scope) {
            Some(comm) => Ok(self.net.barrier(comm)?),
            None => Ok(()),
        }
    }

    /// The index of the next message to the process at these coordinates.
    pub fn send_id(&self, number: i32, to: (i32, i32)) -> Result<u32, Error> {
        let context = self.context(number)?;
        let peer = peer(&context.grid, "RDEST, CDEST", to)?;
        Ok(context.ends.to(Stream::Points, peer, 0).index)
    }

    /// The index of the next message from the process at these coordinates.
    pub fn receive_id(&self, number: i32, from: (i32, i32)) -> Result<u32, Error> {
        let context = self.context(number)?;
        let peer = peer(&context.grid, "RSRC, CSRC", from)?;
        Ok(context.ends.from(Stream::Points, peer, 0).index)
    }

    /// A number that all processes of the scope give the next broadcast.
    pub fn broadcast_id(&self, number: i32, scope: Scope) -> Result<u32, Error> {
        Ok(self.context(number)?.operation_id(scope))
    }
}

#[inline]
fn context_mut<C>(
    contexts: &mut [Option<Context<C>>],
    number: i32,
) -> Result<&mut Context<C>, Error> {
    let place = usize::try_from(number).ok();
    let context = place.and_then(|place| contexts.get_mut(place));
    let context = context.and_then(Option::as_mut);
    context.ok_or(Error::Context(number))
}

#[inline]
fn peer(grid: &Grid, what: &'static str, place: (i32, i32)) -> Result<u32, Error> {
    let number = grid.number_at(place.0, place.1);
    number.ok_or_else(|| Error::Place(what, place, grid.sides()))
}
