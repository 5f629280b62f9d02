//! Slots over real connections, both ends in one process.

use mtmi::{Endpoint, Matched};

use super::EARLY;
use crate::frame::{Frame, MOST_SLOTS, SlotRef};
use crate::protocol::Protocol;
use crate::{Config, ReactorKind, Tcp};

fn pair(reactor: ReactorKind) -> (Matched<Tcp>, Matched<Tcp>) {
    let config = Config {
        reactor: Some(reactor),
        ..Config::default()
    };
    let listening = [(); 2].map(|()| Tcp::listen(config.clone()).unwrap());
    let all = listening.each_ref().map(|l| Some(l.address()));
    let mut ranks = 0..;
    let ends = listening.map(|l| {
        let me = ranks.next().unwrap();
        Matched::new(l.join(Endpoint(me), 2, &all, [5; 32]))
    });
    ends.into()
}

#[test]
fn the_rules_are_kept() {
    for reactor in [ReactorKind::Epoll, ReactorKind::IoUring] {
        testkit::suite::all(|| pair(reactor));
    }
}

/// What a peer says about tables that are not open is kept within bounds.
#[test]
fn tables_to_come_are_bounded() {
    let mut protocol = Protocol::new(2);
    let post = |index| Frame::SlotPost {
        slot: SlotRef {
            name: 5,
            index,
            generation: 1,
        },
        count: MOST_SLOTS,
        length: 8,
    };
    for index in 0..EARLY {
        protocol.slot_frame(1, post(index)).unwrap();
    }
    assert!(protocol.slot_frame(1, post(EARLY)).is_err());
    // The same receive twice, with room left.
    let mut protocol = Protocol::new(2);
    protocol.slot_frame(1, post(0)).unwrap();
    assert!(protocol.slot_frame(1, post(0)).is_err());
}
