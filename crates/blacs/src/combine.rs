//! Combines: sums, greatest and least elements over a scope.
//!
//! A matrix goes block by block. A block is the elements in question, one after the other, and behind them, where
//! locations are asked for, how far behind the destination each was found (0 is the destination itself, or the first
//! process where all get the result). A block runs up the topology's tree; where all want the result it then runs
//! down.

use boundary::UserBuf;

use crate::context::Context;
use crate::element::{combine, combine_located};
use crate::flow::{FACE, Flow};
use crate::{Element, End, Error, Net, Operation, Scope, Shape, Topology, Tree};

/// Where the coordinates of the found elements go: arrays of C's `int`, as large as the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Locations {
    /// Rows of the grid.
    pub rows: UserBuf,
    /// Columns of the grid.
    pub columns: UserBuf,
    /// Leading dimension of both, at least the matrix's rows.
    pub leading: usize,
}

/// What to combine.
#[derive(Clone, Copy, Debug)]
pub struct Combine {
    /// Among whom.
    pub scope: Scope,
    /// The letter of the topology.
    pub topology: u8,
    /// What to compute.
    pub operation: Operation,
    /// Of what.
    pub element: Element,
    /// Rows of the matrix.
    pub m: i32,
    /// Columns of the matrix.
    pub n: i32,
    /// Leading dimension of the matrix.
    pub lda: i32,
    /// The matrix.
    pub a: UserBuf,
    /// Where coordinates go, if they are asked for.
    pub locations: Option<Locations>,
    /// Who gets the result: coordinates, or all where one of them is -1.
    pub destination: (i32, i32),
}

/// Most bytes of a block: less than a face, and small enough that several are under way between the leaves of a tree
/// and its root.
const BLOCK: usize = if FACE > 1 << 20 { 1 << 20 } else { FACE - 1 };

/// Bytes of a distance.
const PLACE: usize = 4;

/// Bytes that are combined at a time; they fit into the first-level cache twice.
const TILE: usize = 4 << 10;

/// A combine of one process under way.
pub(crate) struct Run<'a, 'b, N: Net> {
    pub(crate) flow: &'a mut Flow<'b, N>,
    pub(crate) what: &'a Combine,
    pub(crate) shape: Shape,
    /// The block.
    pub(crate) block: &'a mut Vec<u8>,
    /// Who gets the result, as index in the scope.
    pub(crate) destination: Option<u32>,
}

/// The processes of a scope, counted from the root on.
#[derive(Clone, Copy)]
struct Ring {
    size: u32,
    root: u32,
    /// This process.
    own: u32,
}

impl Ring {
    /// The index in the scope of the process `r` behind the root.
    fn index(self, r: u32) -> u32 {
        ((u64::from(r) + u64::from(self.root)) % u64::from(self.size)) as u32
    }
}

impl<N: Net> Run<'_, '_, N> {
    pub(crate) fn run(mut self, topology: Topology) -> Result<(), Error> {
        let scope = self.what.scope;
        let size = self.flow.context.grid.size(scope);
        let root = self.destination.unwrap_or(0);
        let own = (self.flow.context.grid.within(scope) + size - root) % size;
        let ring = Ring { size, root, own };
        let tree = topology.tree(size, own);
        let exchange = topology == Topology::Hypercube && self.destination.is_none();
        let (mut pack, mut unpack) = (self.shape.cursor(), self.shape.cursor());
        let most = BLOCK / (self.what.element.size() + PLACE);
        let mut done = 0;
        while done < self.shape.elements() {
            let elements = most.min(self.shape.elements() - done);
            let values = elements * self.what.element.size();
            self.fill(elements, ring.own);
            let buf = UserBuf::of_array(self.block);
            pack.pack(self.what.a, buf, values);
            match exchange {
                true => self.exchange(ring, values)?,
                false => {
                    self.up(ring, &tree, values)?;
                    if self.destination.is_none() {
                        self.down(ring, &tree)?;
                    }
                }
            }
            if self.destination.is_none() || own == 0 {
                let buf = UserBuf::of_array(self.block);
                unpack.unpack(self.what.a, buf, values);
                self.locate(ring, values, done);
            }
            done += elements;
        }
        Ok(())
    }

    /// Makes the block so large, and says that all in it was found here.
    fn fill(&mut self, elements: usize, own: u32) {
        let values = elements * self.what.element.size();
        self.block.resize(values, 0);
        if self.what.locations.is_some() {
            let places = std::iter::repeat_n(own.to_ne_bytes(), elements);
            self.block.extend(places.flatten());
        }
    }

    fn number(&self, ring: Ring, r: u32) -> u32 {
        let grid = &self.flow.context.grid;
        grid.number_in(self.what.scope, ring.index(r))
    }

    /// Combines what the children send, the nearest first, and sends it to the parent.
    fn up(&mut self, ring: Ring, tree: &Tree, values: usize) -> Result<(), Error> {
        let bytes = self.block.len();
        let faces = self.flow.faces;
        let mut expected = None;
        let children = tree.children.iter().rev();
        for (&child, face) in children.zip(faces.into_iter().cycle()) {
            let child = self.number(ring, child);
            let end = self.flow.expect(child, face, bytes)?;
            if let Some((end, face)) = expected.replace((end, face)) {
                self.take(end, face, values)?;
            }
        }
        if let Some((end, face)) = expected {
            self.take(end, face, values)?;
        }
        if let Some(parent) = tree.parent {
            self.send(ring, parent)?;
        }
        Ok(())
    }

    /// Hands the result down.
    fn down(&mut self, ring: Ring, tree: &Tree) -> Result<(), Error> {
        if let Some(parent) = tree.parent {
            self.fetch(ring, parent)?;
        }
        for &child in &tree.children {
            self.send(ring, child)?;
        }
        Ok(())
    }

    /// Everybody exchanges with everybody whose number differs in one bit. Those beyond the last power of two
    /// let somebody else do it for them.
    fn exchange(&mut self, ring: Ring, values: usize) -> Result<(), Error> {
        let power = 1 << ring.size.ilog2();
        if ring.own >= power {
            self.send(ring, ring.own - power)?;
            return self.fetch(ring, ring.own - power);
        }
        let guest = Some(ring.own + power).filter(|&guest| guest < ring.size);
        if let Some(guest) = guest {
            let end = self.meet(ring, guest)?;
            self.take(end, self.flow.faces[0], values)?;
        }
        let mut bit = 1;
        while bit < power {
            let end = self.meet(ring, ring.own ^ bit)?;
            self.send(ring, ring.own ^ bit)?;
            self.take(end, self.flow.faces[0], values)?;
            bit <<= 1;
        }
        match guest {
            Some(guest) => self.send(ring, guest),
            None => Ok(()),
        }
    }

    /// Begins to receive somebody's block in the first face.
    fn meet(&mut self, ring: Ring, r: u32) -> Result<End<N::Comm>, Error> {
        let peer = self.number(ring, r);
        let face = self.flow.faces[0];
        Ok(self.flow.expect(peer, face, self.block.len())?)
    }

    fn send(&mut self, ring: Ring, r: u32) -> Result<(), Error> {
        let peer = self.number(ring, r);
        let buf = UserBuf::of_array(self.block);
        Ok(self.flow.send(peer, buf, self.block.len())?)
    }

    /// Receives somebody's block in place of ours.
    fn fetch(&mut self, ring: Ring, r: u32) -> Result<(), Error> {
        let end = self.meet(ring, r)?;
        self.flow.await_one(end, self.block.len())?;
        self.flow.faces[0].read(self.block);
        Ok(())
    }

    /// Waits for a block in `face` and combines it into ours.
    fn take(&mut self, end: End<N::Comm>, face: UserBuf, values: usize) -> Result<(), Error> {
        self.flow.await_one(end, self.block.len())?;
        let (operation, element) = (self.what.operation, self.what.element);
        let mut other = [0; TILE];
        let mut places = [0; TILE];
        let (mine, my_places) = self.block.split_at_mut(values);
        let mut at = 0;
        for tile in mine.chunks_mut(TILE) {
            let other = &mut other[..tile.len()];
            face.offset(at as i64).read(other);
            if self.what.locations.is_some() {
                let range = at / element.size() * PLACE..(at + tile.len()) / element.size() * PLACE;
                let places = &mut places[..range.len()];
                face.offset((values + range.start) as i64).read(places);
                let acc = (&mut *tile, &mut my_places[range]);
                combine_located(operation, element, acc, (other, places));
            } else {
                combine(operation, element, tile, other);
            }
            at += tile.len();
        }
        Ok(())
    }

    /// Writes the coordinates at which the elements of the block were found; `done` elements came before.
    fn locate(&self, ring: Ring, values: usize, done: usize) {
        let Some(locations) = self.what.locations else {
            return;
        };
        let grid = &self.flow.context.grid;
        let rows = (self.what.m as usize).max(1);
        let (places, _) = self.block[values..].as_chunks::<PLACE>();
        for (place, number) in places.iter().zip(done..) {
            // Another process wrote it: any number names a process of the scope.
            let index = ring.index(u32::from_ne_bytes(*place));
            let (row, column) = grid
                .place_of(grid.number_in(self.what.scope, index) as i32)
                .unwrap_or((-1, -1));
            let at = (number / rows * locations.leading + number % rows) * size_of::<i32>();
            locations.rows.offset(at as i64).write(&row.to_ne_bytes());
            locations
                .columns
                .offset(at as i64)
                .write(&column.to_ne_bytes());
        }
    }
}

/// Who gets the result, as index in the scope; none where all do.
pub(crate) fn destination<C: Copy>(
    context: &Context<C>,
    what: &Combine,
) -> Result<Option<u32>, Error> {
    let (row, column) = what.destination;
    if row == -1 || column == -1 {
        return Ok(None);
    }
    match context.grid.index_at(what.scope, row, column) {
        Some(index) => Ok(Some(index)),
        None => Err(Error::Place(
            "RDEST, CDEST",
            what.destination,
            context.grid.sides(),
        )),
    }
}
