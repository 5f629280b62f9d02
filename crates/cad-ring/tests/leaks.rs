//! Nothing stays behind: the only test of its process, as it counts what the process has open.

mod world;

use cad_run::{Descriptor, Executor, State, UserBuf};
use std::rc::Rc;
use world::{Meeting, pipeline, run, soon};

fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn descriptors_are_closed() {
    let before = open();
    let meeting = Meeting::default();
    run(3, |mut r| {
        let (mut memory, mut never) = (vec![r.rank as u8; 200_000], [0u8; 8]);
        let plan = pipeline(&mut memory, r.rank, 3, 50_000);
        let mut cad = Descriptor::new(r.rank, 3, None);
        let buf = UserBuf::of_array(&mut never);
        cad.make_recv_node(buf, 8, (r.rank + 1) % 3).unwrap();
        let nobody = Rc::new(cad.plan().unwrap());
        let mut counted = 0;
        for round in 0..40 {
            let stuck = r.ring.issue(&nobody, 0).unwrap();
            assert_eq!(r.finish(&plan, 1), State::Done);
            r.meet();
            r.ring.cancel(&stuck);
            assert_eq!(r.ring.wait(&stuck, soon()), State::Cancelled);
            assert_eq!(r.finish(&plan, 0), State::Done);
            r.meet();
            if round == 9 {
                counted = open();
            }
            r.meet();
        }
        // The others' last connections may be on the way to being closed or made.
        let after = open();
        assert!(after <= counted + 8, "{counted}, then {after}");
        meeting.meet(3);
    });
    assert_eq!(open(), before);
}
