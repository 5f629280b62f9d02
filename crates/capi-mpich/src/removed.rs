//! The one removed procedure whose successor answers in other terms.

use crate::abi::prelude::*;

entry! { PMPI_Type_ub "MPI_Type_ub" Running []
    (datatype: Datatype, displacement: *mut i64)
    |e| {
        let upper_bound = long_out(displacement, "displacement")?;
        let mut extent = 0;
        api::datatype::type_get_extent(e, datatype.neutral(), upper_bound, &mut extent)?;
        *upper_bound += extent;
        Ok(())
    }
}
