//! The end of a matching area.

use std::rc::Rc;

use fmpl_table::code;

use crate::barrier;
use crate::comm::Comm;
use crate::core::Core;
use crate::host::{Host, Waiting};
use crate::steps::Entered;

/// Waits until what is spooled in an area, and what is on its way, has been received. An `isend` that never found its
/// receive, and that nobody waits for, is no longer looked after.
pub fn drain<H: Host>(h: &H, call: &'static str, which: usize) {
    let first = h.with(|core, _| core.area(which).ok().and_then(|area| area.first_waiting()));
    let what = Waiting {
        call,
        peer: first.map_or(-1, |at| at.peer as i32),
        index: first.map_or(-1, |at| at.index as i32),
        bytes: 0,
    };
    h.wait_for(what, |core, below| {
        core.progress(below);
        match core.area(which) {
            Ok(area) if area.is_spooled() || area.is_moving() => None,
            _ => Some(()),
        }
    });
}

/// Ends an area; all processes call it. What is spooled is received first; receives that are still posted are taken
/// back, which their senders have to agree to, so that nothing writes into the program's memory afterwards.
///
/// Where a process has died nobody waits for all any more. Then a receive may be taken back of which a sender would yet have made
/// use; that sender's message goes when the receiver has left.
pub fn close<H: Host>(h: &H, call: &'static str, which: usize) -> i32 {
    drain(h, call, which);
    let world = h.with(|core, _| core.comm(which as i32).cloned());
    let world = match world {
        Ok(world) => world,
        Err(code) => return code,
    };
    // All have sent what they had.
    let met = meet(h, call, &world);
    let posted = h.with(|core, below| {
        let Ok(area) = core.area(which) else {
            return Vec::new();
        };
        let posted = area.receives(below);
        for &receive in &posted {
            area.withdraw(below, receive);
        }
        posted
    });
    for receive in posted {
        let what = crate::steps::waiting(call, world.rank, 0);
        h.wait_for(what, |core, below| match core.area(which) {
            Ok(area) => area.poll_receive(below, receive).map(|_| ()),
            Err(_) => Some(()),
        });
    }
    // Nobody leaves while somebody's receives are still to be agreed on.
    let end = met.and_then(|()| meet(h, call, &world));
    h.with(|core: &mut Core, below| core.close(below, which));
    match end {
        // What was to be done here is done.
        Ok(()) | Err(code::ERR_PEER) => code::SUCCESS,
        Err(code) => code,
    }
}

/// Waits for all.
fn meet<H: Host>(h: &H, call: &'static str, world: &Rc<Comm>) -> Result<(), i32> {
    Entered::of(world.clone())?.run(|world| barrier::run(h, call, world))
}
