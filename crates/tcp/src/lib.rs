//! The TCP fabric.
#![allow(dead_code)]

mod endings;
mod frame;
mod handshake;
mod incoming;
mod outgoing;
mod protocol;
#[cfg(test)]
mod protocol_tests;
