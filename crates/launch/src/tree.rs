//! The tree of daemons: who starts whom, and which way a frame goes. Pure arithmetic.
//!
//! Remote hosts are numbered 0, 1, 2, ... breadth first; mpiexec is the root (`None`) and has the
//! hosts below [`FAN_OUT`] as children. So everybody knows the whole tree by the number of hosts alone.

use std::ops::Range;

/// Children of each node. Small enough that no host starts many launcher commands at once, large
/// enough that 512 hosts are three deep.
pub const FAN_OUT: u32 = 8;

/// The parent of `host`; `None` is mpiexec.
pub fn parent(host: u32) -> Option<u32> {
    (host / FAN_OUT).checked_sub(1)
}

/// The children of `host` in a tree of `hosts`.
pub fn children(host: Option<u32>, hosts: u32) -> Range<u32> {
    let first = host.map_or(0, |h| h.saturating_add(1).saturating_mul(FAN_OUT));
    first.min(hosts)..first.saturating_add(FAN_OUT).min(hosts)
}

/// The child of `from` whose subtree has `target`; `None` if `target` is not below `from`.
pub fn toward(from: Option<u32>, target: u32) -> Option<u32> {
    let mut at = target;
    loop {
        let above = parent(at);
        if above == from {
            return Some(at);
        }
        at = above?;
    }
}

/// Whether `host` is `top` or below it.
pub fn is_within(top: u32, host: u32) -> bool {
    host == top || toward(Some(top), host).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_one_parent() {
        for hosts in [0, 1, 7, 8, 9, 20, 100, 1000] {
            let mut seen = vec![0; hosts as usize];
            for host in [None].into_iter().chain((0..hosts).map(Some)) {
                for child in children(host, hosts) {
                    assert_eq!(parent(child), host);
                    seen[child as usize] += 1;
                }
            }
            assert!(seen.iter().all(|n| *n == 1), "{hosts}");
        }
    }

    #[test]
    fn frames_find_their_way() {
        for target in 0..600 {
            let (mut at, mut hops) = (None, 0);
            while at != Some(target) {
                at = Some(toward(at, target).unwrap());
                assert!(is_within(at.unwrap(), target));
                hops += 1;
            }
            assert!(hops <= 4);
        }
        assert_eq!(toward(Some(3), 2), None);
        assert!(!is_within(1, 8) && is_within(0, 8) && is_within(0, 72));
        assert_eq!(children(Some(u32::MAX), 9), 9..9);
    }
}
