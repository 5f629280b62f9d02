//! Which processors each rank may use (`-bind-to`).

use crate::options::Binding;
use std::collections::BTreeMap;

/// The processors of each of `ranks` ranks; `None` for a rank that may use all.
pub fn place(binding: &Binding, ranks: usize) -> Vec<Option<Vec<usize>>> {
    if *binding == Binding::None {
        return vec![None; ranks];
    }
    let units = match binding {
        Binding::Listed(sets) => sets.clone(),
        _ => units(binding, &allowed(), &|cpu, file| {
            std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}"))
                .ok()
        }),
    };
    if units.is_empty() {
        return vec![None; ranks];
    }
    (0..ranks)
        .map(|rank| Some(units[rank % units.len()].clone()))
        .collect()
}

/// The processors mpiexec itself may use.
fn allowed() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

/// Groups the allowed processors into threads, cores or packages. `topology` reads a file of the
/// kernel's description of a processor.
fn units(
    binding: &Binding,
    allowed: &[usize],
    topology: &dyn Fn(usize, &str) -> Option<String>,
) -> Vec<Vec<usize>> {
    let file = match binding {
        Binding::Core => "thread_siblings_list",
        Binding::Package => "physical_package_id",
        _ => return allowed.iter().map(|cpu| vec![*cpu]).collect(),
    };
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for cpu in allowed {
        // Where the kernel does not tell, every processor counts as a core of its own.
        let name = topology(*cpu, file).unwrap_or_else(|| format!("cpu {cpu}"));
        groups.entry(name).or_default().push(*cpu);
    }
    let mut units: Vec<_> = groups.into_values().collect();
    units.sort();
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_follow_the_topology() {
        let topology = |cpu: usize, file: &str| match file {
            "thread_siblings_list" => Some(format!("{},{}", cpu % 2, cpu % 2 + 2)),
            _ => Some("0".into()),
        };
        let of = |b| units(&b, &[0, 1, 2, 3], &topology);
        assert_eq!(of(Binding::Core), [[0, 2], [1, 3]]);
        assert_eq!(of(Binding::Package), [[0, 1, 2, 3]]);
        assert_eq!(of(Binding::Thread), [[0], [1], [2], [3]]);
        assert_eq!(units(&Binding::Core, &[5, 7], &|_, _| None), [[5], [7]]);
    }

    #[test]
    fn lists_are_dealt_round() {
        let binding = Binding::Listed(vec![vec![0], vec![1, 2]]);
        assert_eq!(
            place(&binding, 3),
            [Some(vec![0]), Some(vec![1, 2]), Some(vec![0])]
        );
        assert_eq!(place(&Binding::None, 2), [None, None]);
    }
}
