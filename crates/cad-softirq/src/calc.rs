//! Calculations in the kernel, inside a chain of io_uring: `RECV` → calculation → `SEND` runs to its end without the rank's thread running anything of the
//! program's, and without a signal.
//!
//! A rank gets a socket from kaccd that serves nothing else. What io_uring does at sockets (`IORING_OP_URING_CMD`, since Linux 6.7) includes setting
//! and asking for options, and programs of kaccd's look at these (`program/calc.rs`). A calculation `inout = in op inout` takes three of such steps:
//!
//! 1. `SETSOCKOPT` [`LEVEL`], [`load`]: copies *inout* from the rank's memory to a *cell* of the socket's;
//! 2. `SETSOCKOPT` [`LEVEL`], [`combine`]: takes *in* from the rank's memory, and combines it with the cell;
//! 3. `GETSOCKOPT` `SOL_SOCKET`, [`give`]: copies the cell to the rank's memory.
//!
//! The kernel copies operands and result from and to the caller's memory, wherever that is, as it does with any option; so the cells are nobody's to map, and nothing that a
//! rank writes meanwhile changes what a program has checked. A socket has [`CELLS`] cells, of [`DATA_MAX`](crate::layout::DATA_MAX) bytes each, and [`SLOTS`](crate::layout::SLOTS)
//! operations in byte code. (Operands in a mapped map would save the first and the third step, 0.8 µs each, where a graph has them there; but what a program
//! sends from and receives into lies in its own memory, so copies between both, at two steps each, would take their place.)
//!
//! # Who is looked at
//!
//! A program at a control group sees the options of sockets that were *made* in the group, whoever has them later. So no process but kaccd has to be
//! moved, and kaccd only as long as it makes sockets: some milliseconds, in a group below its own (`group`), whose folder is gone afterwards. The kernel keeps the programs as long as
//! there are such sockets: they go with the last rank, and outlive kaccd. Cells belong to the socket, too, by the kernel's local storage, which
//! knows sockets themselves where a table would have their cookies. No other socket has any, and no other socket is in the group.
//!
//! The socket is one end of a pair of Unix sockets, connected for good: with it one reaches neither kaccd's network nor anything else. kaccd
//! keeps the other end to see when it is gone.
//!
//! Who calls it: `daemon` has the [`Calculator`]; crate `cad-ring` makes the steps, of what [`client`](crate::client) gives.

use crate::flat::Flat;
use crate::group::Group;
use crate::kernel::{Map, Prog, Refused, Shape, Sort};
use crate::layout::{BYTECODE, DATA_MAX, Op, SLOTS, Type, cells, code};
use crate::program::calc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use sys::unix::{Kind, pair};

/// Cells of a socket: with byte code they fit what the kernel gives in one piece of memory and lets a socket have (`net.core.optmem_max`).
pub const CELLS: u32 = 28;

/// The level of options that are calculations: "ymkc".
pub const LEVEL: u32 = 0x796d_6b63;

/// Begins the names of options that are cells.
pub(crate) const GIVE: u32 = 0x796d_6b00;

/// Bytes of the byte code that a socket may run.
const CODES: usize = SLOTS as usize * code::BYTES;

/// How many sockets are made ahead.
const AHEAD: usize = 32;

/// What is combined, as an option's name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Formula(u32);

impl Formula {
    /// One of the standard's operations on elements of a type, if it is here.
    pub fn of(op: Op, ty: Type) -> Option<Formula> {
        let there = !matches!(op, Op::Barrier | Op::Bcast) && op.supports(ty);
        there.then_some(Formula(u32::from(op as u8) | u32::from(ty as u8) << 8))
    }

    /// The byte code in this slot.
    pub fn coded(slot: u32) -> Option<Formula> {
        (slot < SLOTS).then_some(Formula(u32::from(BYTECODE) | slot << 8))
    }
}

/// How two operands are combined.
#[derive(Clone, Debug)]
pub enum How {
    /// By an operation of the standard's.
    Standard(Formula),
    /// By byte code.
    Coded(Arc<Flat>),
}

impl How {
    /// Whether a cell can have so many bytes of such operands.
    pub fn fits(&self, bytes: u64) -> bool {
        let Ok(bytes) = usize::try_from(bytes) else {
            return false;
        };
        match self {
            How::Standard(_) => (1..=DATA_MAX).contains(&bytes),
            How::Coded(flat) => flat.fits(bytes),
        }
    }
}

/// The name of the option that loads a cell.
pub fn load(cell: u32) -> u32 {
    cell | u32::from(Op::Bcast as u8) << 8
}

/// The name of the option that combines its value with a cell.
pub fn combine(cell: u32, formula: Formula) -> u32 {
    cell | formula.0 << 8
}

/// The name of the option that a cell is.
pub fn give(cell: u32) -> u32 {
    GIVE | cell
}

/// Why there are no such sockets.
#[derive(Debug)]
pub enum NotMade {
    /// The kernel refuses a program, or its maps.
    Refused(Refused),
    /// There is no control group to make sockets in: a sentence.
    Group(String),
}

impl fmt::Display for NotMade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotMade::Refused(why) => write!(f, "{why}"),
            NotMade::Group(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NotMade {}

/// What makes sockets that calculate: the programs, and what their sockets have.
pub struct Calculator {
    programs: [(Prog, Sort); 2],
    cells: Map,
    codes: Map,
    /// Pairs that nobody has.
    ahead: Vec<[OwnedFd; 2]>,
}

impl Calculator {
    /// Loads the programs, and makes some sockets.
    ///
    /// # Errors
    /// [`NotMade`].
    pub fn new() -> Result<Calculator, NotMade> {
        let refused = NotMade::Refused;
        let map = |bytes| Map::new(Shape::OfSockets, bytes, 0, None).map_err(refused);
        let (cells, codes) = (map(cells::BYTES)?, map(CODES)?);
        let load = |sort, code| Ok((Prog::load(sort, code, &[&cells, &codes])?, sort));
        let programs = [
            load(Sort::OptionsSet, &calc::set()).map_err(refused)?,
            load(Sort::OptionsGot, &calc::get()).map_err(refused)?,
        ];
        let mut calculator = Calculator {
            programs,
            cells,
            codes,
            ahead: Vec::new(),
        };
        calculator.make()?;
        Ok(calculator)
    }

    /// How many instructions of the programs the kernel's verifier went through, on all ways, of a million each that it would.
    ///
    /// # Errors
    /// The kernel's.
    pub fn verified(&self) -> io::Result<[u32; 2]> {
        let [set, get] = &self.programs;
        Ok([set.0.verified()?, get.0.verified()?])
    }

    /// Makes sockets in a group that the programs look at.
    fn make(&mut self) -> Result<(), NotMade> {
        let group = Group::new().map_err(NotMade::Group)?;
        for (prog, sort) in &self.programs {
            let attached = prog.attach_to_group(group.fd(), *sort);
            attached.map_err(NotMade::Refused)?;
        }
        let made = group.within(|| {
            let pairs = (0..AHEAD).map(|_| pair(Kind::Stream));
            pairs.collect::<io::Result<Vec<_>>>()
        });
        let refused = |e| NotMade::Group(format!("the system refuses sockets: {e}"));
        let made = made.map_err(NotMade::Group)?.map_err(refused)?;
        let ends = made.into_iter().map(|(a, b)| [a.into(), b.into()]);
        self.ahead.extend(ends);
        Ok(())
    }

    /// A socket that calculates, and its other end, by which one sees [whether it is there](is_there).
    ///
    /// # Errors
    /// [`NotMade`].
    pub fn socket(&mut self) -> Result<[OwnedFd; 2], NotMade> {
        if self.ahead.is_empty() {
            self.make()?;
        }
        let none = || NotMade::Group("no socket was made".to_owned());
        let pair = self.ahead.pop().ok_or_else(none)?;
        let own = |map: &Map, bytes| map.set_of(pair[0].as_fd(), &vec![0; bytes], false);
        let given = own(&self.cells, cells::BYTES).and_then(|()| own(&self.codes, CODES));
        given.map_err(|e| NotMade::Refused(Refused::new("a socket's storage", e)))?;
        Ok(pair)
    }

    /// Has a socket of ours run byte code in a slot, beside what it runs in the others.
    ///
    /// # Errors
    /// It is none of ours, there is no such slot, or the kernel's.
    pub fn put(&self, socket: BorrowedFd<'_>, slot: u32, flat: &Flat) -> io::Result<()> {
        let mut bytes = vec![0; CODES];
        self.codes.get_of(socket, &mut bytes)?;
        let at = slot as usize * code::BYTES;
        let room = bytes.get_mut(at..at.saturating_add(code::BYTES));
        room.ok_or(io::ErrorKind::InvalidInput)?
            .copy_from_slice(&flat.entry());
        self.codes.set_of(socket, &bytes, true)
    }
}

/// Whether the other end of a pair is open.
pub fn is_there(end: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::IN)];
    let told = poll(&mut fds, Some(&Timespec::default()));
    told.is_err() || !fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Whether this process may hold such programs, on this machine.
///
/// # Errors
/// Why not, in words for a person.
pub fn usable() -> Result<(), String> {
    Calculator::new().map(drop).map_err(|why| why.to_string())
}
