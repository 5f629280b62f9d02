//! Some ranks in one process, for tests: threads that exchange messages through one locked table.
//!
//! It keeps the rules of [`Net`] strictly: an index used twice while in flight, a wait for nothing or a process that
//! waits for ever ends the test. What it decides freely (whether a send finds its receive) is decided by chance.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use boundary::{AlignedBuf, UserBuf};

use crate::{End, Net, Trouble};

/// How long a process may wait.
const LIMIT: Duration = Duration::from_secs(60);

/// One index from one process to another.
#[derive(Default)]
struct Slot {
    receive: Option<(UserBuf, usize)>,
    landed: Option<Result<usize, Trouble>>,
    send: Option<(UserBuf, usize)>,
    /// The send was taken, and waits to be asked for.
    gone: bool,
    spool: VecDeque<Vec<u8>>,
}

impl Slot {
    /// Brings a receive and the oldest send together.
    fn meet(&mut self) {
        let Some((buf, room)) = self.receive else {
            return;
        };
        if self.landed.is_some() {
            return;
        }
        let bytes = if let Some(mut data) = self.spool.pop_front() {
            buf.copy_from(UserBuf::of_array(&mut data), room.min(data.len()));
            data.len()
        } else if let Some((data, bytes)) = self.send.take() {
            self.gone = true;
            buf.copy_from(data, room.min(bytes));
            bytes
        } else {
            return;
        };
        self.landed = Some(match bytes > room {
            true => Err(Trouble::Truncated),
            false => Ok(bytes),
        });
    }
}

/// A collective call under way: what each member brought.
#[derive(Default)]
struct Meeting {
    brought: HashMap<u32, Vec<u8>>,
    left: usize,
}

type Members = (Vec<u32>, i32, u32);

#[derive(Default)]
struct World {
    /// By sender, receiver and index.
    slots: HashMap<(u32, u32, u32), Slot>,
    /// Members, tag and how many such there were before; the position is the communicator.
    comms: Vec<Members>,
    meetings: HashMap<(usize, u32), Meeting>,
    spooled: usize,
}

/// The table, and where those wait who find nothing in it.
#[derive(Default)]
pub(crate) struct Shared {
    world: Mutex<World>,
    changed: Condvar,
}

/// One process.
pub(crate) struct Process {
    rank: u32,
    shared: Arc<Shared>,
    made: HashMap<(Vec<u32>, i32), u32>,
    /// Collective calls on each communicator so far.
    calls: HashMap<usize, u32>,
    faces: Vec<AlignedBuf>,
    chance: u64,
}

impl Process {
    pub(crate) fn new(rank: u32, shared: &Arc<Shared>) -> Process {
        Process {
            rank,
            shared: shared.clone(),
            made: HashMap::new(),
            calls: HashMap::new(),
            faces: Vec::new(),
            chance: u64::from(rank) + 1,
        }
    }

    /// How many messages all processes have spooled so far.
    pub(crate) fn spooled(&self) -> usize {
        self.shared.world.lock().unwrap().spooled
    }

    /// Gives others a turn now and then.
    fn shake(&mut self) {
        self.chance = self
            .chance
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        match self.chance >> 60 {
            0 => std::thread::sleep(Duration::from_micros(20)),
            1..4 => std::thread::yield_now(),
            _ => {}
        }
    }

    fn other(world: &World, end: End<usize>) -> u32 {
        world.comms[end.comm].0[end.peer as usize]
    }

    /// Looks at a slot until `look` finds something.
    fn until<T>(
        &self,
        key: impl Fn(&World) -> (u32, u32, u32),
        mut look: impl FnMut(&mut Slot) -> Option<T>,
    ) -> T {
        let mut world = self.shared.world.lock().unwrap();
        loop {
            let key = key(&world);
            if let Some(found) = look(world.slots.entry(key).or_default()) {
                return found;
            }
            world = self.wait(world);
        }
    }

    fn wait<'a>(&'a self, world: MutexGuard<'a, World>) -> MutexGuard<'a, World> {
        let (world, late) = self.shared.changed.wait_timeout(world, LIMIT).unwrap();
        assert!(!late.timed_out(), "process {} waits for ever", self.rank);
        world
    }

    /// Brings `mine`, and gets what all brought, in the order of the members.
    fn gather(&mut self, comm: usize, mine: Vec<u8>) -> Vec<Vec<u8>> {
        self.shake();
        let call = self.calls.entry(comm).or_default();
        let key = (comm, *call);
        *call += 1;
        let mut world = self.shared.world.lock().unwrap();
        let members = world.comms[comm].0.clone();
        let meeting = world.meetings.entry(key).or_default();
        meeting.brought.insert(self.rank, mine);
        self.shared.changed.notify_all();
        while world.meetings[&key].brought.len() < members.len() {
            world = self.wait(world);
        }
        let meeting = world.meetings.entry(key).or_default();
        let all = members.iter().map(|rank| meeting.brought[rank].clone());
        let all = all.collect();
        meeting.left += 1;
        if meeting.left == members.len() {
            world.meetings.remove(&key);
        }
        all
    }
}

impl Net for Process {
    type Comm = usize;

    fn indices(&self) -> u32 {
        1024
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn comm(&mut self, members: &[u32], tag: i32) -> Result<usize, Trouble> {
        assert!(members.contains(&self.rank), "only members call");
        let before = self.made.entry((members.to_vec(), tag)).or_default();
        let key = (members.to_vec(), tag, *before);
        *before += 1;
        let comm = {
            let mut world = self.shared.world.lock().unwrap();
            let known = world.comms.iter().position(|known| *known == key);
            known.unwrap_or_else(|| {
                world.comms.push(key);
                world.comms.len() - 1
            })
        };
        self.gather(comm, Vec::new());
        Ok(comm)
    }

    fn comm_free(&mut self, comm: usize) -> Result<(), Trouble> {
        self.gather(comm, Vec::new());
        Ok(())
    }

    fn unite(&mut self, comm: usize, bits: &mut [u64]) -> Result<(), Trouble> {
        let mine = bits.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for theirs in self.gather(comm, mine) {
            let (words, _) = theirs.as_chunks::<8>();
            for (bit, word) in bits.iter_mut().zip(words) {
                *bit |= u64::from_ne_bytes(*word);
            }
        }
        Ok(())
    }

    fn send(&mut self, to: End<usize>, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        self.isend(to, buf, bytes)?;
        self.isend_wait(to)
    }

    fn isend(&mut self, to: End<usize>, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        self.shake();
        assert!(to.index < self.indices());
        let mut world = self.shared.world.lock().unwrap();
        let key = (self.rank, Process::other(&world, to), to.index);
        let slot = world.slots.entry(key).or_default();
        assert!(slot.send.is_none() && !slot.gone, "the index is in flight");
        slot.send = Some((buf, bytes));
        slot.meet();
        self.shared.changed.notify_all();
        Ok(())
    }

    fn isend_wait(&mut self, to: End<usize>) -> Result<(), Trouble> {
        self.shake();
        let mut world = self.shared.world.lock().unwrap();
        let key = (self.rank, Process::other(&world, to), to.index);
        let slot = world.slots.get_mut(&key).expect("a send");
        if !std::mem::take(&mut slot.gone) {
            let (buf, bytes) = slot.send.take().expect("a send is in flight");
            let mut copy = vec![0; bytes];
            buf.read(&mut copy);
            slot.spool.push_back(copy);
            world.spooled += 1;
        }
        Ok(())
    }

    /// Waits or not by chance.
    fn room(&mut self, to: End<usize>, patience: Duration) -> Result<Option<usize>, Trouble> {
        self.shake();
        if !patience.is_zero() && self.chance >> 62 != 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        let mut world = self.shared.world.lock().unwrap();
        let key = (self.rank, Process::other(&world, to), to.index);
        let slot = world.slots.entry(key).or_default();
        assert!(slot.send.is_none() && !slot.gone, "the index is in flight");
        let free = slot.landed.is_none() && slot.spool.is_empty();
        Ok(slot.receive.filter(|_| free).map(|(_, room)| room))
    }

    fn recv(&mut self, from: End<usize>, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        self.irecv(from, buf, bytes)?;
        self.irecv_wait(from).map(|_| ())
    }

    fn irecv(&mut self, from: End<usize>, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        self.shake();
        assert!(from.index < self.indices());
        let mut world = self.shared.world.lock().unwrap();
        let key = (Process::other(&world, from), self.rank, from.index);
        let slot = world.slots.entry(key).or_default();
        assert!(slot.receive.is_none(), "the index is in flight");
        slot.receive = Some((buf, bytes));
        slot.meet();
        self.shared.changed.notify_all();
        Ok(())
    }

    fn irecv_wait(&mut self, from: End<usize>) -> Result<usize, Trouble> {
        self.shake();
        let key = |world: &World| (Process::other(world, from), self.rank, from.index);
        self.until(key, |slot| {
            assert!(slot.receive.is_some(), "no receive is in flight");
            slot.landed.take().inspect(|_| slot.receive = None)
        })
    }

    fn bcast(&mut self, comm: usize, root: u32, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        let own = self.shared.world.lock().unwrap().comms[comm].0[root as usize] == self.rank;
        let mut data = vec![0; if own { bytes } else { 0 }];
        buf.read(&mut data);
        let all = self.gather(comm, data);
        assert_eq!(all[root as usize].len(), bytes, "all name one size");
        if !own {
            buf.write(&all[root as usize]);
        }
        Ok(())
    }

    fn barrier(&mut self, comm: usize) -> Result<(), Trouble> {
        self.gather(comm, Vec::new());
        Ok(())
    }

    fn face(&mut self, bytes: usize) -> Result<UserBuf, Trouble> {
        let mut face = AlignedBuf::new(bytes).ok_or(Trouble::Memory)?;
        let buf = face.buf();
        self.faces.push(face);
        Ok(buf)
    }
}

/// Runs `body` on `n` processes at once; a panic in one is a panic here.
pub(crate) fn run(n: u32, body: impl Fn(Process) + Sync) {
    let shared = Arc::new(Shared::default());
    std::thread::scope(|scope| {
        for rank in 0..n {
            let process = Process::new(rank, &shared);
            let body = &body;
            scope.spawn(move || body(process));
        }
    });
}
