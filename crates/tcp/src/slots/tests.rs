//! Slots over real connections, both ends in one process.

use mtmi::{Endpoint, Matched};

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
