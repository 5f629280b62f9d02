//! The end of a matching area.

use fmpl_table::code;

use crate::barrier;
use crate::comm::Comm;
use crate::core::Core;
use crate::host::{Host, Waiting};

/// Waits until what is spooled in an area, and what is on its way, has been received. An `isend` that never found its
/// receive, and that nobody waits for, is no longer looked after.
pub fn drain<H: Host>(h: &H, call: &'static str, which: usize) {
    let what = Waiting {
        call,
        peer: -1,
        index: -1,
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
pub fn close<H: Host>(h: &H, call: &'static str, which: usize) -> i32 {
    drain(h, call, which);
    let world = h.with(|core, _| core.comm(which as i32).cloned());
    let world = match world {
        Ok(world) => world,
        Err(code) => return code,
    };
    // All have sent what they had.
    let met = barrier::run(h, &world);
    let posted = h.with(|core, below| {
        let Ok(area) = core.area(which) else {
            return Vec::new();
        };
        let posted = area.receives();
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
    let end = met.and_then(|()| again(h, &world));
    h.with(|core: &mut Core, below| core.close(below, which));
    end.map_or_else(|code| code, |()| code::SUCCESS)
}

/// Nobody leaves while somebody's receives are still to be agreed on.
fn again<H: Host>(h: &H, world: &Comm) -> Result<(), i32> {
    barrier::run(h, world)
}
