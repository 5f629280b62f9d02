//! Reduction operations, predefined and the program's own, and their application.

use std::rc::Rc;

use boundary::{UserBuf, UserFn};
use types::{Handle, Result, consts, fault};

use crate::state::Engine;
use crate::typeobj::TypeObj;

/// An operation.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// One of the standard's.
    Builtin(op::Builtin),
    /// The program's (`MPI_Op_create`).
    User {
        /// The function.
        function: UserFn,
        /// Whether the order of operands may be changed.
        commute: bool,
        /// Whether it was created by `MPI_Op_create_c`.
        large: bool,
    },
}

impl Op {
    /// The predefined operation of this handle.
    pub fn predefined(handle: Handle) -> Option<Op> {
        op::Builtin::from_handle(handle).map(Op::Builtin)
    }

    /// Whether they are the same: equal ones of the standard's, or one of the program's.
    pub(crate) fn is(self: &Rc<Op>, other: &Rc<Op>) -> bool {
        match (&**self, &**other) {
            (Op::Builtin(a), Op::Builtin(b)) => a == b,
            _ => Rc::ptr_eq(self, other),
        }
    }

    /// Whether operands may be reordered.
    pub fn is_commutative(&self) -> bool {
        match self {
            Op::Builtin(b) => b.commutes(),
            Op::User { commute, .. } => *commute,
        }
    }

    /// Checks that the operation is defined on `datatype`.
    pub fn check(&self, datatype: &TypeObj) -> Result<()> {
        let Op::Builtin(builtin) = self else {
            return Ok(());
        };
        if builtin.accumulate_only() {
            let text = format!(
                "the operation {} is for accumulate calls only",
                builtin.name()
            );
            return Err(fault(consts::ERR_OP, text));
        }
        let supported = datatype.basic().is_some_and(|b| op::supports(*builtin, b));
        if supported {
            return Ok(());
        }
        Err(fault(
            consts::ERR_OP,
            format!(
                "the operation {} is not defined on the datatype {}",
                builtin.name(),
                datatype.name.borrow()
            ),
        ))
    }
}

impl Engine {
    /// `inout = invec op inout`, element by element. The caller holds no borrow of the engine's
    /// state: the program's function may call MPI.
    pub fn reduce_local(
        &self,
        op: &Op,
        datatype: &Rc<TypeObj>,
        invec: UserBuf,
        inout: UserBuf,
        count: u64,
    ) {
        match op {
            Op::Builtin(builtin) => {
                let elem = datatype
                    .basic()
                    .expect("checked against the operation")
                    .elem;
                op::apply(*builtin, elem, invec, inout, count);
            }
            Op::User {
                function, large, ..
            } => {
                let (named, lent) = self.handle_for_callback(datatype);
                let handle = (self.hooks.callback.handle)(named);
                let extent = datatype.datatype.extent();
                let step = if *large { i64::MAX } else { i32::MAX as i64 };
                let (mut done, count) = (0i64, count as i64);
                while done < count {
                    let n = step.min(count - done);
                    let at = done * extent;
                    function.call_op(invec.offset(at), inout.offset(at), n, handle, *large);
                    done += n;
                }
                if lent {
                    self.types.remove(named.0);
                }
            }
        }
    }

    /// The handle by which a callback knows `datatype`, and whether it is lent: a collective that was started, or is
    /// persistent, still uses a type whose own handle the program has freed.
    fn handle_for_callback(&self, datatype: &Rc<TypeObj>) -> (Handle, bool) {
        let own = datatype.handle.get();
        if own != consts::DATATYPE_NULL {
            return (own, false);
        }
        match self.types.insert(datatype.clone()) {
            Some(lent) => (Handle(lent), true),
            None => (own, false),
        }
    }
}
