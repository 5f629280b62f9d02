//! Reduction operations (sections 6.9.5 to 6.9.7).

use std::rc::Rc;
use std::sync::Arc;

use boundary::{UserBuf, UserFn};
use bytecode::{CODE_MAX, Program};
use cad_softirq::flat::Flat;
use types::{Handle, Result, consts, fault};

use crate::ops::Op;
use crate::state::{Engine, out_of_objects};

/// `MPI_Op_create`; `large` for the function of `MPI_Op_create_c`.
pub fn op_create(
    e: &Engine,
    function: UserFn,
    commute: bool,
    op: &mut Handle,
    large: bool,
) -> Result<()> {
    let made = Op::User {
        function,
        commute,
        large,
    };
    let handle = e.ops.insert(Rc::new(made)).map(Handle);
    *op = handle.ok_or_else(out_of_objects)?;
    Ok(())
}

/// `yamabiko_op_create_bytecode`: `bytes` bytes of `code`, which are copied.
pub fn op_create_bytecode(
    e: &Engine,
    code: UserBuf,
    bytes: usize,
    commute: bool,
    op: &mut Handle,
) -> Result<()> {
    let refused = |why: String| Err(fault(consts::ERR_ARG, why));
    if code.is_null() {
        return refused("the byte code is NULL".to_owned());
    }
    if bytes > CODE_MAX {
        let text = format!("the byte code has {bytes} bytes; it may have {CODE_MAX}");
        return refused(text);
    }
    let mut copy = vec![0; bytes];
    code.read(&mut copy);
    let program = match Program::verify(&copy) {
        Ok(program) => Arc::new(program),
        Err(why) => return refused(format!("the byte code is wrong: {why}")),
    };
    let made = Op::Bytecode {
        flat: Flat::of(&program).map(Arc::new),
        program,
        commute,
    };
    let handle = e.ops.insert(Rc::new(made)).map(Handle);
    *op = handle.ok_or_else(out_of_objects)?;
    Ok(())
}

/// `MPI_Op_free`. Reductions under way keep the operation.
pub fn op_free(e: &Engine, op: &mut Handle) -> Result<()> {
    if let Op::Builtin(..) = *e.op(*op)? {
        return Err(fault(
            consts::ERR_OP,
            "a predefined operation can't be freed",
        ));
    }
    e.ops.remove(op.0);
    *op = consts::OP_NULL;
    Ok(())
}

/// `MPI_Op_commutative`.
pub fn op_commutative(e: &Engine, op: Handle, commute: &mut bool) -> Result<()> {
    *commute = e.op(op)?.is_commutative();
    Ok(())
}

/// `MPI_Reduce_local`.
pub fn reduce_local(
    e: &Engine,
    inbuf: UserBuf,
    inoutbuf: UserBuf,
    count: i64,
    datatype: Handle,
    op: Handle,
) -> Result<()> {
    let operation = e.op(op)?;
    let object = e.committed_type(datatype)?;
    operation.check(&object)?;
    let count = u64::try_from(count).map_err(|_| {
        fault(
            consts::ERR_COUNT,
            format!("the count is {count}; it must be 0 or more"),
        )
    })?;
    if inbuf.is_in_place() || inoutbuf.is_in_place() {
        return Err(fault(
            consts::ERR_BUFFER,
            "MPI_IN_PLACE has no meaning for a local reduction",
        ));
    }
    if count == 0 {
        return Ok(());
    }
    if datatype.is_predefined() && (inbuf.is_null() || inoutbuf.is_null()) {
        return Err(fault(
            consts::ERR_BUFFER,
            format!("a buffer is NULL and the count is {count}"),
        ));
    }
    if inbuf == inoutbuf {
        return Err(fault(
            consts::ERR_BUFFER,
            "the two buffers are the same; they must not overlap",
        ));
    }
    e.reduce_local(&operation, &object, inbuf, inoutbuf, count);
    Ok(())
}
