//! The form in which a crate tells its tunables to `yamabiko info`.

/// A named constant that was chosen, not derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Where it acts and what it is, as `shm.eager`.
    pub name: &'static str,
    /// Its value, in `unit`.
    pub value: u64,
    /// What is counted.
    pub unit: &'static str,
    /// Where the value comes from: a measurement, a paper, another constant.
    pub source: &'static str,
}
