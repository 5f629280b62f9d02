//! The ring where executors are chosen ([`Choice::Auto`]): who has it, and when it begins. [`cad::chosen`] is the rule.
//!
//! A rank of a job on several machines that can have a ring says so at the start, with what the rule needs to know of it. Nothing else
//! happens then: the ring begins with the first collective that the rule gives to it, when the rank reads what all have said. All come
//! to the same answer whenever they do that, as nobody says anything later. The rank meets those of other machines as collectives need it
//! ([`Meet::WhenNeeded`]). So a job without such collectives pays for one key and a port, and a collective's call waits for nobody but, for its connections, the
//! two milliseconds that the ring gives those who may be about to come.
//!
//! The ring calculates nothing here but packing, in the rank's calls: no signal is raised. Whoever can't have it says nothing, and then
//! nobody has it.

use std::cell::{Cell, RefCell};
use std::os::fd::AsFd;

use cad::chosen::{self, Moves, Seat};
use cad_ring::{Meet, Opening};
use cad_run::{Callback, Choice};
use fabrics::Fabrics;
use types::{Result, consts, fault};
use wireup::Job;

use super::Kernel;
use crate::comm::{Comm, counter_of};
use crate::state::Engine;
use crate::world::startup_fault;

/// The key of what a rank has said.
fn key(rank: u32) -> String {
    format!("chosen.{rank}")
}

/// What a rank has said of itself.
pub(crate) fn seat() -> Option<Seat> {
    let files = sys::process::descriptors_max();
    Seat::new(&sys::cpus::affinity(), sys::cpus::allowed(), files)
}

/// What all ranks have said of themselves, in their order.
pub(crate) struct Said {
    pub seats: Vec<Seat>,
    /// How an executor reaches them.
    pub cards: Vec<String>,
}

impl Said {
    /// Between a rank's seat and its card.
    const MARK: char = ';';

    /// What a rank says.
    pub fn text(seat: &Seat, card: &str) -> String {
        format!("{}{}{card}", seat.text(), Said::MARK)
    }

    /// What ranks have said under their keys, or the first that has said nothing, or what this process does not understand.
    pub fn by_all(
        job: &mut Job,
        key: impl Fn(u32) -> String,
    ) -> std::result::Result<std::result::Result<Said, u32>, wireup::Error> {
        let (mut seats, mut cards) = (Vec::new(), Vec::new());
        for rank in 0..job.size() {
            let said = job.get(&key(rank))?;
            let parts = said.as_deref().and_then(|said| said.split_once(Said::MARK));
            let Some((Some(seat), card)) = parts.map(|(seat, card)| (Seat::read(seat), card))
            else {
                return Ok(Err(rank));
            };
            seats.push(seat);
            cards.push(card.to_owned());
        }
        Ok(Ok(Said { seats, cards }))
    }
}

/// A ring that has not begun.
pub(crate) struct Waiting {
    opening: Opening,
    /// What only the job's ranks know.
    secret: [u8; 32],
}

/// What the engine has of this.
#[derive(Default)]
pub(crate) struct Chosen {
    /// Whether the rule decides what goes to the ring.
    on: Cell<bool>,
    waiting: RefCell<Option<Waiting>>,
    /// Why there is no ring, where that is known.
    without: RefCell<Option<String>>,
    /// Where each process is: equal numbers are one machine.
    places: RefCell<Vec<u64>>,
}

/// Says that this rank can have a ring, if that is so; otherwise why not. As in [`super::open`].
pub(super) fn open(
    job: &mut Job,
    level: i32,
    settled: bool,
) -> Result<std::result::Result<Opening, String>> {
    let calls_alone = settled && level <= consts::THREAD_FUNNELED;
    let found = match calls_alone {
        true => opening(job),
        false => Err("more than its main thread may call MPI".to_owned()),
    };
    if let Ok((seat, opening)) = &found {
        let said = Said::text(seat, &opening.card());
        job.put(&key(job.rank()), &said).map_err(startup_fault)?;
    }
    Ok(found.map(|(_, opening)| opening))
}

/// A ring to be, if this rank can have one. Where ports are few the fabric needs them.
fn opening(job: &Job) -> std::result::Result<(Seat, Opening), String> {
    if job.local_ranks().len() as u32 == job.size() {
        return Err("all ranks are on one machine".to_owned());
    }
    if job.size() > chosen::RING_RANKS_MAX {
        let most = chosen::RING_RANKS_MAX;
        return Err(format!("the job has more than {most} ranks"));
    }
    if cad_ring::are_ports_limited() {
        return Err("YAMABIKO_PORT_RANGE keeps ports for messages".to_owned());
    }
    let seat = seat().ok_or("the numbers of its processors take too many words")?;
    let mut opening = Opening::new().map_err(|why| why.to_string())?;
    opening.reach(1).map_err(|why| why.to_string())?;
    Ok((seat, opening))
}

/// Has the fabrics' sleeps end with what the ring will have to tell. They have started between [`open`] and this.
pub(super) fn wait(
    opening: Opening,
    fabrics: &mut Fabrics,
    secret: Option<[u8; 32]>,
) -> Result<std::result::Result<Waiting, String>> {
    let Some(secret) = secret else {
        return Ok(Err("messages use no network".to_owned()));
    };
    let woken = fabrics.sleep_on_too(opening.as_fd());
    woken.map_err(startup_fault)?;
    Ok(Ok(Waiting { opening, secret }))
}

impl Chosen {
    /// Whether the rule decides what goes to the ring.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// From now on the rule decides.
    pub(super) fn begin(&self, waiting: Waiting) {
        self.waiting.replace(Some(waiting));
        self.on.set(true);
    }

    /// There is no ring, for this reason.
    pub(super) fn is_without(&self, why: String) {
        self.without.replace(Some(why));
    }

    /// Why there is none, where executors are chosen.
    pub(super) fn why_without(&self) -> Option<String> {
        self.without.borrow().clone()
    }

    /// Nothing goes to the ring any more.
    pub(super) fn end(&self) {
        self.waiting.take();
        self.on.set(false);
    }

    /// Whether a communicator's processes are on several machines.
    fn are_apart(&self, comm: &Comm) -> bool {
        let places = self.places.borrow();
        let mut members = comm.group.members().iter();
        let first = members.next().map(|&m| places[m as usize]);
        members.any(|&m| Some(places[m as usize]) != first)
    }
}

/// Whether a communicator is one of the first that its rank 0 made.
pub(crate) fn is_among_first(comm: &Comm) -> bool {
    counter_of(comm.context()) < chosen::COMMS_MAX
}

impl Kernel {
    /// Whether the rule keeps a communicator's next persistent collective from the ring, of which it has had so many.
    pub(super) fn has_kept_enough(&self, kept: u32) -> bool {
        self.chosen.is_on() && kept >= chosen::KEPT_MAX
    }
}

impl Engine {
    /// Whether a collective of `comm` that moves this goes to the ring, which begins with the first that does. The same at all its ranks.
    #[inline]
    pub(crate) fn is_for_ring(&self, moves: Option<Moves>, comm: &Comm) -> Result<bool> {
        if !self.kernel.chosen.is_on() {
            return Ok(self.kernel.is_on());
        }
        match chosen::is_for_ring(moves) && is_among_first(comm) {
            true => self.is_apart_for_ring(comm),
            false => Ok(false),
        }
    }

    /// The same, of one that is long enough.
    fn is_apart_for_ring(&self, comm: &Comm) -> Result<bool> {
        let waiting = self.kernel.chosen.waiting.take();
        if let Some(waiting) = waiting {
            self.begin_chosen(waiting)?;
        }
        Ok(self.kernel.is_on() && self.kernel.chosen.are_apart(comm))
    }

    /// Reads what all have said, and begins the ring if all can have it.
    fn begin_chosen(&self, waiting: Waiting) -> Result<()> {
        let Waiting { opening, secret } = waiting;
        let (rank, said) = self.all_said()?;
        let found = said.and_then(|Said { seats, cards }| {
            let places = opening.places(&cards)?;
            let seats: Vec<_> = places.iter().copied().zip(seats).collect();
            chosen::ring_serves(&seats).map(|()| (cards, places))
        });
        let (cards, places) = match found {
            Ok(found) => found,
            Err(why) => {
                self.kernel.chosen.is_without(why);
                return Ok(());
            }
        };
        let size = cards.len() as u32;
        let ring = opening.join(rank, &cards, Some(secret), Callback::None, Meet::WhenNeeded);
        // The others have it.
        let lost = |why| fault(consts::ERR_OTHER, format!("the ring does not begin: {why}"));
        self.kernel.chosen.places.replace(places);
        self.start_kernel(ring.map_err(lost)?, rank, size);
        Ok(())
    }

    /// This process, and what all have said of themselves, or why that is not known.
    fn all_said(&self) -> Result<(u32, std::result::Result<Said, String>)> {
        let mut world = self.world.borrow_mut();
        let Some(job) = world.as_mut().map(|world| &mut world.job) else {
            return Ok((0, Err("MPI is not initialised".to_owned())));
        };
        let said = Said::by_all(job, key).map_err(|why| {
            let variable = Choice::VARIABLE;
            let text = format!(
                "the launcher does not tell what ranks have said ({variable}=inline needs none of it): {why}"
            );
            fault(consts::ERR_OTHER, text)
        })?;
        let cant = |rank| format!("rank {rank} can't have one");
        Ok((job.rank(), said.map_err(cant)))
    }
}
