//! What Yamabiko needs from the machine and the operating system, and nothing of MPI.
//!
//! * [`span`] and [`slab`]: objects whose address is also a 32-bit name;
//! * [`lock`]: the one coarse lock, free of cost until threads are asked for, its bias towards the one that calls then, and [`door`], the
//!   shortest way in;
//! * [`doorbell`]: what a waiting process sleeps on, in memory shared with its peers; [`barrier`]: what it has others execute before;
//! * [`memfd`], [`sparse`] and [`unix`]: sealed shared memory, and the sockets that pass it on;
//! * [`foreign`]: the kernel copies between processes, and [`mark`]: how they know each other before that;
//! * [`copy`], [`across`], [`past`], [`clock`], [`cpus`], [`memory`], [`random`], [`process`], [`say`], [`thread`]: small necessities.
//!
//! Everything works as an ordinary user, without `/dev/shm` and on a read-only root. Nothing here
//! uses thread-local storage, since the libraries are also loaded with `dlopen`; but what [`thread`] starts does, as the standard
//! library's threads do.

pub mod across;
pub mod barrier;
mod bias;
pub mod blank;
pub mod clock;
pub mod copy;
pub mod cpus;
#[cfg(not(all(test, loom)))]
pub mod door;
pub mod doorbell;
pub mod foreign;
pub mod knock;
#[cfg(not(all(test, loom)))]
pub mod lock;
pub mod mark;
pub mod memfd;
pub mod memory;
pub mod past;
pub mod process;
pub mod random;
pub mod say;
pub mod slab;
pub mod span;
pub mod sparse;
pub mod thread;
pub mod unix;
