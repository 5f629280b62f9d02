//! What collectives are called, for the hang report.
//!
//! The one table of their names. A request does not say in which form its collective was called, but whether it is persistent; a blocking
//! one has no request that the program sees.

/// The names of one collective in its three forms.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub blocking: &'static str,
    pub nonblocking: &'static str,
    /// What makes the persistent request.
    pub persistent: &'static str,
}

impl Names {
    /// The name of what the engine does for itself, or for a call that is not a collective of these.
    pub const fn only(name: &'static str) -> Names {
        Names {
            blocking: name,
            nonblocking: name,
            persistent: name,
        }
    }
}

/// `NAME = blocking, nonblocking, persistent;`
macro_rules! table {
    ($($name:ident = $blocking:literal, $nonblocking:literal, $persistent:literal;)*) => {
        $(pub(crate) static $name: Names = Names {
            blocking: $blocking,
            nonblocking: $nonblocking,
            persistent: $persistent,
        };)*

        #[cfg(test)]
        const ALL: &[&Names] = &[$(&$name),*];
    };
}

table! {
    BARRIER = "MPI_Barrier", "MPI_Ibarrier", "MPI_Barrier_init";
    BCAST = "MPI_Bcast", "MPI_Ibcast", "MPI_Bcast_init";
    GATHER = "MPI_Gather", "MPI_Igather", "MPI_Gather_init";
    GATHERV = "MPI_Gatherv", "MPI_Igatherv", "MPI_Gatherv_init";
    SCATTER = "MPI_Scatter", "MPI_Iscatter", "MPI_Scatter_init";
    SCATTERV = "MPI_Scatterv", "MPI_Iscatterv", "MPI_Scatterv_init";
    ALLGATHER = "MPI_Allgather", "MPI_Iallgather", "MPI_Allgather_init";
    ALLGATHERV = "MPI_Allgatherv", "MPI_Iallgatherv", "MPI_Allgatherv_init";
    ALLTOALL = "MPI_Alltoall", "MPI_Ialltoall", "MPI_Alltoall_init";
    ALLTOALLV = "MPI_Alltoallv", "MPI_Ialltoallv", "MPI_Alltoallv_init";
    ALLTOALLW = "MPI_Alltoallw", "MPI_Ialltoallw", "MPI_Alltoallw_init";
    REDUCE = "MPI_Reduce", "MPI_Ireduce", "MPI_Reduce_init";
    ALLREDUCE = "MPI_Allreduce", "MPI_Iallreduce", "MPI_Allreduce_init";
    REDUCE_SCATTER_BLOCK = "MPI_Reduce_scatter_block", "MPI_Ireduce_scatter_block", "MPI_Reduce_scatter_block_init";
    REDUCE_SCATTER = "MPI_Reduce_scatter", "MPI_Ireduce_scatter", "MPI_Reduce_scatter_init";
    SCAN = "MPI_Scan", "MPI_Iscan", "MPI_Scan_init";
    EXSCAN = "MPI_Exscan", "MPI_Iexscan", "MPI_Exscan_init";
    NEIGHBOR_ALLGATHER = "MPI_Neighbor_allgather", "MPI_Ineighbor_allgather", "MPI_Neighbor_allgather_init";
    NEIGHBOR_ALLGATHERV = "MPI_Neighbor_allgatherv", "MPI_Ineighbor_allgatherv", "MPI_Neighbor_allgatherv_init";
    NEIGHBOR_ALLTOALL = "MPI_Neighbor_alltoall", "MPI_Ineighbor_alltoall", "MPI_Neighbor_alltoall_init";
    NEIGHBOR_ALLTOALLV = "MPI_Neighbor_alltoallv", "MPI_Ineighbor_alltoallv", "MPI_Neighbor_alltoallv_init";
    NEIGHBOR_ALLTOALLW = "MPI_Neighbor_alltoallw", "MPI_Ineighbor_alltoallw", "MPI_Neighbor_alltoallw_init";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_each_belong_together() {
        for names in ALL {
            let own = names.blocking.strip_prefix("MPI_").unwrap();
            let lower = own.to_ascii_lowercase();
            assert_eq!(names.nonblocking, format!("MPI_I{lower}"));
            assert_eq!(names.persistent, format!("MPI_{own}_init"));
        }
    }

    #[test]
    fn no_two_have_a_name_in_common() {
        let mut all: Vec<_> = ALL.iter().map(|names| names.blocking).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 22);
    }
}
