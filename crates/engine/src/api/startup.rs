//! Starting and ending MPI.

use types::{Handle, Result, consts, fault};

use crate::state::{Engine, Phase};

const LEVELS: [i32; 4] = [
    consts::THREAD_SINGLE,
    consts::THREAD_FUNNELED,
    consts::THREAD_SERIALIZED,
    consts::THREAD_MULTIPLE,
];

/// `MPI_Init`.
pub fn init(e: &Engine, argc: usize, argv: usize) -> Result<()> {
    let mut provided = 0;
    init_thread(e, argc, argv, consts::THREAD_SINGLE, &mut provided)
}

/// `MPI_Init_thread`. What is asked for is granted.
pub fn init_thread(
    e: &Engine,
    _argc: usize,
    _argv: usize,
    required: i32,
    provided: &mut i32,
) -> Result<()> {
    if e.fork_mark.forked() {
        return Err(fault(
            consts::ERR_OTHER,
            "this process was forked after its parent had used MPI; start it with exec instead",
        ));
    }
    match e.phase.get() {
        Phase::Before => {}
        // FMPL, or what is built on it, came first: from now on it is the program's.
        Phase::Running if e.lent.get() => {
            e.lent.set(false);
            *provided = level(required);
            e.set_thread_level(*provided);
            return Ok(());
        }
        Phase::Running => return Err(fault(consts::ERR_OTHER, "MPI is already initialised")),
        Phase::Finalized => {
            return Err(fault(
                consts::ERR_OTHER,
                "MPI was finalized and can't be initialised again",
            ));
        }
    }
    *provided = level(required);
    e.start_world(*provided, true)
}

/// The level that is granted: one between two counts as the higher.
fn level(required: i32) -> i32 {
    let fits = LEVELS.into_iter().find(|&l| l >= required);
    fits.unwrap_or(consts::THREAD_MULTIPLE)
}

/// `MPI_Finalize`.
pub fn finalize(e: &Engine) -> Result<()> {
    e.stop_world()
}

/// `MPI_Abort`. The whole job ends, whichever communicator is given, as the standard allows.
pub fn abort(e: &Engine, comm: Handle, errorcode: i32) -> Result<()> {
    let rank = e.comm_world.borrow().as_ref().map(|c| c.rank);
    let who = rank.map_or("a process outside MPI".to_string(), |r| format!("rank {r}"));
    let what = match comm {
        consts::COMM_WORLD | consts::COMM_SELF => "MPI_Abort".to_string(),
        _ => "MPI_Abort on a communicator (all ranks end)".to_string(),
    };
    e.abort_job(
        errorcode,
        &format!("{who} called {what} with error code {errorcode}"),
    )
}
