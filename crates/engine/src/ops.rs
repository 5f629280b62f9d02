//! Reduction operations, predefined and the program's own, and their application.

use std::rc::Rc;
use std::sync::Arc;

use boundary::{UserBuf, UserFn};
use bytecode::Program;
use cad_softirq::flat::Flat;
use types::{Handle, Result, consts, fault};

use crate::state::{AbiHooks, Engine};
use crate::typeobj::TypeObj;

/// An operation.
#[derive(Clone, Debug)]
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
    /// The program's, as byte code (`yamabiko_op_create_bytecode`).
    Bytecode {
        /// The code, shared with reductions that a handler of a signal may do.
        program: Arc<Program>,
        /// The same for the kernel's receive path, if that can run it.
        flat: Option<Arc<Flat>>,
        /// Whether the order of operands may be changed.
        commute: bool,
    },
}

impl Op {
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
            Op::User { commute, .. } | Op::Bytecode { commute, .. } => *commute,
        }
    }

    /// What does it on elements of `datatype`, where that may run at any point of the program, in the handler of a signal too: so
    /// do the standard's operations, byte code, and those functions of the program that it vouches for.
    pub(crate) fn anywhere(
        &self,
        datatype: &TypeObj,
        hooks: &AbiHooks,
        vouched: bool,
    ) -> Option<Reduction> {
        match *self {
            Op::Builtin(builtin) => {
                let kernel = op::kernel(builtin, datatype.basic()?.elem);
                kernel.map(Reduction::Kernel)
            }
            Op::Bytecode { ref program, .. } => Some(Reduction::Program(program.clone())),
            Op::User {
                function, large, ..
            } => vouched.then(|| {
                let handle = (hooks.callback.handle)(datatype.handle.get());
                Reduction::Function(Function::new(function, large, handle, datatype))
            }),
        }
    }

    /// Checks that the operation is defined on `datatype`.
    pub fn check(&self, datatype: &TypeObj) -> Result<()> {
        let builtin = match self {
            Op::Builtin(builtin) => builtin,
            Op::User { .. } => return Ok(()),
            Op::Bytecode { program, .. } => return fits(program, datatype),
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
                datatype.name.borrow().display()
            ),
        ))
    }
}

/// Checks that byte code is for elements like those of `datatype`, and touches nothing outside them.
fn fits(program: &Program, datatype: &TypeObj) -> Result<()> {
    let (described, touched) = (&datatype.datatype, program.touches());
    let (element, extent) = (program.element(), described.extent());
    let (low, high) = (described.true_lb(), described.true_ub());
    let inside = low <= i64::from(touched.start) && i64::from(touched.end) <= high;
    let name = datatype.name.borrow();
    let name = name.display();
    let text = if i64::from(element) != extent {
        format!(
            "the operation's byte code is for elements of {element} bytes, and the extent of the datatype {name} is {extent}"
        )
    } else if !inside && !touched.is_empty() {
        format!(
            "the operation's byte code touches the bytes {} to {} of an element, and the datatype {name} has those from {low} to {}",
            touched.start,
            touched.end - 1,
            high - 1
        )
    } else {
        return Ok(());
    };
    Err(fault(consts::ERR_OP, text))
}

/// The predefined operations, by number.
pub(crate) struct PredefinedOps(Vec<Rc<Op>>);

impl PredefinedOps {
    pub fn new() -> PredefinedOps {
        let all = op::Builtin::all().map(|builtin| Rc::new(Op::Builtin(builtin)));
        PredefinedOps(all.collect())
    }

    /// The one with this handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<Rc<Op>> {
        let builtin = op::Builtin::from_handle(handle)?;
        self.0.get(builtin as usize).cloned()
    }
}

/// What reduces elements of a type.
pub(crate) enum Reduction {
    /// With an operation of the standard's.
    Kernel(op::Kernel),
    /// With one of the program's that is byte code.
    Program(Arc<Program>),
    /// With one of the program's that is a function.
    Function(Function),
}

impl Reduction {
    /// `inout = invec op inout`, element by element.
    pub(crate) fn apply(&self, invec: UserBuf, inout: UserBuf, count: u64) {
        match self {
            Reduction::Kernel(kernel) => kernel.apply(invec, inout, count),
            Reduction::Program(program) => op::apply_program(program, invec, inout, count),
            Reduction::Function(function) => function.apply(invec, inout, count),
        }
    }
}

/// A function of the program's with the type that it is told of: plain values, so that it can be called where nothing of the
/// engine may be touched.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    function: UserFn,
    large: bool,
    /// The type's handle, as the ABI has it, and its extent in bytes.
    handle: usize,
    extent: i64,
}

impl Function {
    fn new(function: UserFn, large: bool, handle: usize, datatype: &TypeObj) -> Function {
        Function {
            function,
            large,
            handle,
            extent: datatype.datatype.extent(),
        }
    }

    /// `inout = invec op inout`, element by element.
    pub(crate) fn apply(&self, invec: UserBuf, inout: UserBuf, count: u64) {
        let step = if self.large {
            i64::MAX
        } else {
            i32::MAX as i64
        };
        let (mut done, count) = (0i64, count as i64);
        while done < count {
            let n = step.min(count - done);
            let at = done * self.extent;
            let (from, to) = (invec.offset(at), inout.offset(at));
            self.function.call_op(from, to, n, self.handle, self.large);
            done += n;
        }
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
            Op::Bytecode { program, .. } => op::apply_program(program, invec, inout, count),
            Op::User {
                function, large, ..
            } => {
                let (named, lent) = self.handle_for_callback(datatype);
                let handle = (self.hooks.callback.handle)(named);
                Function::new(*function, *large, handle, datatype).apply(invec, inout, count);
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
