//! The cost model that decides the cut, from measurements of io_uring chains (Linux 6.18, TCP on one
//! machine with two virtual processors; what relates to what carries over, the figures don't).

use types::Tunable;

/// What things cost, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A further entry in a chain.
    pub link: u64,
    /// A token's POST and WAIT together.
    pub token: u64,
    /// Handling of a piece of a message by a relay, beside moving its bytes.
    pub piece: u64,
    /// Moving 64 KiB through a relay.
    pub move_64k: u64,
    /// Asking the rank for a calculation, and its answer.
    pub ask: u64,
}

impl Costs {
    /// As measured. `piece` and `move_64k` solve 16 p + 17 m = 312 µs and 64 p + 65/4 m = 434 µs: a
    /// relay of 1 MiB in pieces of 64 and of 16 KiB, which a pipeline of pieces explains.
    pub const MEASURED: Costs = Costs {
        link: 240,
        token: 900,
        piece: 2_800,
        move_64k: 15_700,
        ask: 3_000,
    };

    /// Bytes of a piece for a message of `bytes`: least time for a pipeline of `n` pieces of `c`
    /// bytes, `n piece + (n + 1) move(c)`, is at `c = sqrt(bytes piece / move(1))`; of the powers of
    /// two the one below, between [`PIECE_MIN`] and [`PIECE_MAX`]. `bytes` itself if no cut pays.
    pub fn piece_bytes(&self, bytes: u64) -> u64 {
        let square = u128::from(bytes) * u128::from(self.piece) * (64 << 10);
        let best = (square / u128::from(self.move_64k.max(1))).isqrt();
        let below = 1u64 << u64::try_from(best).unwrap_or(u64::MAX).max(1).ilog2();
        let cut = below.clamp(PIECE_MIN, PIECE_MAX);
        let time = |c: u64| {
            let pieces = u128::from(bytes.div_ceil(c));
            let moved = u128::from(bytes) + u128::from(c);
            let tokens = if pieces > 1 {
                u128::from(self.token)
            } else {
                0
            };
            pieces * (u128::from(self.piece) + tokens)
                + moved * u128::from(self.move_64k) / (64 << 10)
        };
        if cut < bytes && time(cut) < time(bytes) {
            cut
        } else {
            bytes.max(1)
        }
    }
}

/// Shortest piece: below, handling a piece costs more than moving it.
pub const PIECE_MIN: u64 = 16 << 10;

/// Longest piece: 1 MiB through a relay took 312 µs in pieces of 64 KiB and 1,138 in one.
pub const PIECE_MAX: u64 = 64 << 10;

/// Longest calculation that the kernel does: beyond, its byte code is so slow (16 µs for 4 KiB of
/// doubles against 3 to ask the rank) that asking the rank is quicker.
pub const KERNEL_CALC_MAX: u64 = 1 << 10;

/// The tunables of this crate, for `yamabiko info`.
pub const TUNABLES: [Tunable; 3] = [
    Tunable {
        name: "chains.piece_min",
        value: PIECE_MIN,
        unit: "bytes",
        source: "handling a piece costs as much as moving it",
    },
    Tunable {
        name: "chains.piece_max",
        value: PIECE_MAX,
        unit: "bytes",
        source: "1 MiB through a relay: 312 us in pieces of this, 1138 in one",
    },
    Tunable {
        name: "chains.kernel_calc_max",
        value: KERNEL_CALC_MAX,
        unit: "bytes",
        source: "asking the rank costs 3 us",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_that_were_measured_best() {
        let c = Costs::MEASURED;
        assert_eq!(c.piece_bytes(0), 1);
        assert_eq!(c.piece_bytes(4096), 4096);
        assert_eq!(c.piece_bytes(1 << 20), 64 << 10);
        assert_eq!(c.piece_bytes(u64::MAX), 64 << 10);
    }
}
