//! Each message to the fabric that reaches its peer.

use std::rc::Rc;
use std::time::Instant;

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::SlotTable;
use mtmi::{Context, Cookie, Endpoint, Fabric, Limits, Outgoing, Queues, Receive, Submit, TagSel};
use shm::{Foreign, Ports, Shm, SlotPorts, Stretch};
use tcp::Tcp;

use crate::map::JobMap;
use crate::neighbours::Neighbours;
use crate::sleep::Sleeper;

/// Which fabric reaches a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// Shared memory (and to oneself, what `mtmi` does above any fabric).
    Shm,
    /// The network.
    Tcp,
}

/// All fabrics of a process.
pub struct Fabrics {
    pub(crate) shm: Shm,
    pub(crate) tcp: Option<Tcp>,
    via: Vec<Via>,
    map: JobMap,
    pub(crate) sleeper: Sleeper,
    pub(crate) neighbours: Neighbours,
}

impl Fabrics {
    pub(crate) fn new(
        shm: Shm,
        tcp: Option<Tcp>,
        via: Vec<Via>,
        map: JobMap,
    ) -> std::io::Result<Fabrics> {
        let sleeper = Sleeper::new(&shm, tcp.as_ref())?;
        Ok(Fabrics {
            shm,
            tcp,
            via,
            map,
            sleeper,
            neighbours: Neighbours::default(),
        })
    }

    /// The shortest ways to and from all processes. To one that shared memory does not reach nothing goes there.
    pub fn ports(&self) -> &Rc<Ports> {
        self.shm.ports()
    }

    /// What short messages in the slots below `limit` of an open table touch, which are never prepared. There are none to processes that
    /// shared memory does not reach.
    pub fn slot_ports(&mut self, table: SlotTable, limit: u32) -> Option<Rc<SlotPorts>> {
        self.shm.slot_ports(table, limit)
    }

    /// Bytes of common memory of each process; see [`Stretch`].
    pub const COMMON: usize = Shm::COMMON;

    /// A stretch of the common memory of a process of this machine.
    pub fn common(&self, of: Endpoint, at: usize, bytes: usize) -> Option<Stretch> {
        self.shm.common(of, at, bytes)
    }

    /// Whether processes of this machine read long messages where they lie, as whoever made their segment believes: the same for all that share it. See [`Shm::lends`].
    pub fn lends(&self) -> bool {
        self.shm.lends()
    }

    /// Whether the kernel is to copy between processes of this machine where nobody measures whether that is faster.
    pub fn copies_between(&self) -> bool {
        self.shm.copies_between()
    }

    /// A process of this machine that says that it has this number, if that is so and its memory may be looked at.
    pub fn process(&mut self, of: Endpoint, pid: i32) -> Option<Foreign> {
        self.shm.process(of, pid)
    }

    /// Has every send go the ordinary way, before which the caller can look who is dead. To be called before anything is sent.
    pub fn expect_deaths(&mut self) {
        self.shm.expect_deaths();
    }

    /// Says whether one thread alone uses the fabrics, also to sleep.
    pub fn use_alone(&mut self, alone: bool) {
        if let Some(tcp) = &mut self.tcp {
            tcp.use_alone(alone);
        }
    }

    /// Whether there are processes that only the network reaches.
    pub fn has_network(&self) -> bool {
        self.tcp.is_some()
    }

    /// Whether all processes of the job run on one machine.
    pub fn on_one_machine(&self) -> bool {
        self.map.machines.len() <= 1
    }

    /// The number of this process's machine, counted in the order of their first processes.
    pub fn machine(&self) -> u32 {
        let me = self.endpoint().0;
        let place = self.map.machines.iter().position(|m| m.contains(&me));
        place.unwrap_or(0) as u32
    }

    /// Whether all these processes share memory.
    pub fn are_together(&self, processes: &[u32]) -> bool {
        self.map.are_together(processes)
    }

    /// Whether no two of these processes run on one machine.
    pub fn are_apart(&self, processes: &[u32]) -> bool {
        self.map.are_apart(processes)
    }

    /// Whether a ring of these processes, in this order, enters each of several machines once.
    pub fn follow_on(&self, processes: &[u32]) -> bool {
        self.map.follow_on(processes)
    }

    /// What is used between which ranks of the job, and why: a sentence a line, for people.
    pub fn describe(&self) -> Vec<String> {
        self.map.describe()
    }

    #[inline(always)]
    pub(crate) fn network(&mut self, peer: Endpoint) -> Option<&mut Tcp> {
        match self.via.get(peer.index()) {
            Some(Via::Tcp) => self.tcp.as_mut(),
            _ => None,
        }
    }
}

impl Fabric for Fabrics {
    type Sleeper = Sleeper;

    fn endpoint(&self) -> Endpoint {
        self.shm.endpoint()
    }

    fn limits(&self) -> Limits {
        let shm = self.shm.limits();
        match self.tcp.as_ref().map(Fabric::limits) {
            None => shm,
            Some(tcp) => Limits {
                tag_bits: shm.tag_bits.min(tcp.tag_bits),
                context_bits: shm.context_bits.min(tcp.context_bits),
                inline_bytes: shm.inline_bytes.min(tcp.inline_bytes),
                eager_bytes: shm.eager_bytes.min(tcp.eager_bytes),
                unmatched_bytes: shm.unmatched_bytes.max(tcp.unmatched_bytes),
                endpoints: shm.endpoints,
            },
        }
    }

    fn connect(&mut self, to: Endpoint) {
        match self.network(to) {
            Some(tcp) => tcp.connect(to),
            None => self.shm.connect(to),
        }
    }

    fn failed(&self, peer: Endpoint) -> bool {
        match (self.via.get(peer.index()), &self.tcp) {
            (Some(Via::Tcp), Some(tcp)) => tcp.failed(peer),
            _ => self.shm.failed(peer),
        }
    }

    #[inline]
    fn send(&mut self, queues: &mut Queues, message: Outgoing) -> Submit {
        match self.network(message.to) {
            None => self.shm.send(queues, message),
            Some(tcp) => tcp.send(queues, message),
        }
    }

    #[inline]
    fn send_at_once(&mut self, queues: &mut Queues, message: &Outgoing) -> bool {
        match self.network(message.to) {
            None => self.shm.send_at_once(queues, message),
            Some(tcp) => tcp.send_at_once(queues, message),
        }
    }

    #[inline]
    fn send_to_all(
        &mut self,
        queues: &mut Queues,
        to: impl Iterator<Item = Endpoint> + Clone,
        address: (Context, i32),
        data: &Data,
    ) -> bool {
        let alone = self.tcp.is_none();
        let here = |peer| self.network(peer).is_none();
        (alone || to.clone().all(here)) && self.shm.send_to_all(queues, to, address, data)
    }

    #[inline]
    fn receive_coming(
        &mut self,
        from: Endpoint,
        wanted: (Context, TagSel),
        to: (UserBuf, u64),
    ) -> Option<(i32, u64)> {
        match self.network(from) {
            None => self.shm.receive_coming(from, wanted, to),
            Some(tcp) => tcp.receive_coming(from, wanted, to),
        }
    }

    fn cancel_send(&mut self, queues: &mut Queues, cookie: Cookie) -> bool {
        self.shm.cancel_send(queues, cookie)
            || self
                .tcp
                .as_mut()
                .is_some_and(|tcp| tcp.cancel_send(queues, cookie))
    }

    fn partial_bytes(&mut self, source: Endpoint, name: u64) -> Option<u64> {
        match self.network(source) {
            Some(tcp) => tcp.partial_bytes(source, name),
            None => self.shm.partial_bytes(source, name),
        }
    }

    fn claim(
        &mut self,
        queues: &mut Queues,
        source: Endpoint,
        tag: i32,
        name: u64,
        receive: Receive,
    ) -> Submit {
        match self.network(source) {
            Some(tcp) => tcp.claim(queues, source, tag, name, receive),
            None => self.shm.claim(queues, source, tag, name, receive),
        }
    }

    fn matched(
        &mut self,
        queues: &mut Queues,
        source: Endpoint,
        bytes: u64,
        synchronous: Option<u64>,
    ) {
        match self.network(source) {
            Some(tcp) => tcp.matched(queues, source, bytes, synchronous),
            None => self.shm.matched(queues, source, bytes, synchronous),
        }
    }

    #[inline]
    fn progress(&mut self, queues: &mut Queues) -> bool {
        let moved = self.shm.progress(queues);
        match &mut self.tcp {
            None => moved,
            Some(tcp) => tcp.progress(queues) | moved,
        }
    }

    fn ready(&self) -> bool {
        self.shm.ready() || self.tcp.as_ref().is_some_and(Fabric::ready)
    }

    fn wait(&mut self, deadline: Option<Instant>) {
        self.wait_for_any(deadline);
    }

    fn sleeper(&self) -> Sleeper {
        self.sleeper.clone()
    }

    fn peer_failed(&mut self, queues: &mut Queues, peer: Endpoint) {
        match self.network(peer) {
            Some(tcp) => tcp.peer_failed(queues, peer),
            None => self.shm.peer_failed(queues, peer),
        }
    }

    fn next_failure(&mut self) -> Option<Endpoint> {
        let own = self.shm.next_failure();
        own.or_else(|| self.tcp.as_mut().and_then(Fabric::next_failure))
    }

    fn why_failed(&self, peer: Endpoint) -> Option<&str> {
        self.tcp.as_ref()?.why_failed(peer)
    }

    fn flushed(&self) -> bool {
        self.shm.flushed() && self.tcp.as_ref().is_none_or(Fabric::flushed)
    }

    fn close(&mut self) {
        self.shm.close();
        if let Some(tcp) = &mut self.tcp {
            tcp.close();
        }
    }
}
