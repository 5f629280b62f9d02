//! Lower and upper bounds, with the standard's rule for explicit ones.

use types::{Result, consts, fault};

/// The bounds of a type map.
///
/// `MPI_Type_create_resized` (and the array constructors) set bounds explicitly. Where a type map
/// has explicit bounds in some entries, only those entries count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) lb: i64,
    pub(crate) ub: i64,
    pub(crate) lb_explicit: bool,
    pub(crate) ub_explicit: bool,
    /// The type map has entries; one without has no say in a type it is part of.
    pub(crate) present: bool,
}

fn too_large() -> Box<types::Fault> {
    fault(
        consts::ERR_VALUE_TOO_LARGE,
        "the datatype's bounds do not fit MPI_Count",
    )
}

/// `a + b`, or the fault that the bounds are too large.
pub(crate) fn plus(a: i64, b: i64) -> Result<i64> {
    a.checked_add(b).ok_or_else(too_large)
}

/// `a * b`, or the fault that the bounds are too large.
pub(crate) fn times(a: i64, b: i64) -> Result<i64> {
    a.checked_mul(b).ok_or_else(too_large)
}

impl Bounds {
    /// Of an empty type map.
    pub(crate) const EMPTY: Bounds = Bounds {
        lb: 0,
        ub: 0,
        lb_explicit: false,
        ub_explicit: false,
        present: false,
    };

    /// Of data from 0 to `extent`.
    pub(crate) const fn natural(extent: i64) -> Bounds {
        Bounds {
            lb: 0,
            ub: extent,
            lb_explicit: false,
            ub_explicit: false,
            present: true,
        }
    }

    /// Set explicitly.
    pub(crate) fn explicit(lb: i64, extent: i64) -> Result<Bounds> {
        let ub = plus(lb, extent)?;
        Ok(Bounds {
            lb,
            ub,
            lb_explicit: true,
            ub_explicit: true,
            present: true,
        })
    }

    /// Upper less lower bound.
    pub(crate) const fn extent(&self) -> i64 {
        self.ub.wrapping_sub(self.lb)
    }

    fn checked(self) -> Result<Bounds> {
        self.ub.checked_sub(self.lb).ok_or_else(too_large)?;
        Ok(self)
    }

    /// Of copies of these at displacements between `low` and `high`.
    pub(crate) fn spread(self, low: i64, high: i64) -> Result<Bounds> {
        if !self.present {
            return Ok(Bounds::EMPTY);
        }
        Bounds {
            lb: plus(self.lb, low)?,
            ub: plus(self.ub, high)?,
            ..self
        }
        .checked()
    }

    /// Of both type maps together.
    pub(crate) fn join(self, other: Bounds) -> Result<Bounds> {
        if !self.present || !other.present {
            return Ok(if self.present { self } else { other });
        }
        let lb = match (self.lb_explicit, other.lb_explicit) {
            (true, false) => self.lb,
            (false, true) => other.lb,
            _ => self.lb.min(other.lb),
        };
        let ub = match (self.ub_explicit, other.ub_explicit) {
            (true, false) => self.ub,
            (false, true) => other.ub,
            _ => self.ub.max(other.ub),
        };
        Bounds {
            lb,
            ub,
            lb_explicit: self.lb_explicit || other.lb_explicit,
            ub_explicit: self.ub_explicit || other.ub_explicit,
            present: true,
        }
        .checked()
    }

    /// A structure's: the extent rounded up to `align`, unless the upper bound is explicit.
    pub(crate) fn padded(self, align: i64) -> Result<Bounds> {
        if self.ub_explicit || align <= 1 {
            return Ok(self);
        }
        let pad = (align - self.extent().rem_euclid(align)) % align;
        Bounds {
            ub: plus(self.ub, pad)?,
            ..self
        }
        .checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_bounds_win() {
        let int = Bounds::natural(4);
        let resized = Bounds::explicit(-8, 32).unwrap();
        let both = int.spread(100, 100).unwrap().join(resized).unwrap();
        assert_eq!((both.lb, both.ub), (-8, 24));
        assert_eq!(Bounds::EMPTY.join(int).unwrap(), int);
        assert_eq!(
            int.join(Bounds::natural(9)).unwrap().padded(4).unwrap().ub,
            12
        );
        assert_eq!(both.padded(7).unwrap(), both);
        assert!(int.spread(0, i64::MAX).is_err());
    }
}
