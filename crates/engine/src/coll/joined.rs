//! A copy and the calculation behind it, done as one: of what is copied only the result is wanted, so writing it first would be a second pass over
//! the memory. (Of two ranks an `MPI_Iallreduce` of 256 KiB takes 12.0 us so, and 13.4 in two passes; two near cores of an EPYC of the fifth generation.)
//!
//! Graphs have both, since most executors combine two operands only, into one of them.
//!
//! Invariant: which nodes are joined follows from the graph and the call alone, so the copy and the calculation agree on it. Who calls it: `Running::step`.

use cad::{Kind, NodeId, TypeSlot};
use op::Kernel;

use super::{Running, Step};
use crate::ops::Op;

impl Running {
    /// What combines the elements, if this node is a copy that is joined with the node behind it: a calculation that waits for nothing else, writes where the
    /// copy does, and is all that waits for the copy; with one of the standard's operations, on elements that lie side by side.
    pub(super) fn joined(&self, copy: NodeId) -> Option<Kernel> {
        let (graph, next) = (&self.call.graph, copy + 1);
        let node = graph.node(copy);
        if node.kind != Kind::Copy || graph.successors(copy) != [next] {
            return None;
        }
        let calc = graph.node(next);
        let whole = calc.dst == node.dst && calc.src.count == node.src.count;
        let alone = graph.indegree()[next as usize] == 1;
        let alike = [node.src.ty, node.dst.ty, calc.src.ty] == [TypeSlot::Recv; 3];
        if calc.kind != Kind::Calc || !(whole && alone && alike) {
            return None;
        }
        let ty = self.call.recv_type.as_ref().filter(|ty| ty.is_dense())?;
        match self.call.op.as_deref()? {
            Op::Builtin(builtin) => op::kernel(*builtin, ty.basic()?.elem),
            Op::User { .. } | Op::Bytecode { .. } => None,
        }
    }

    /// What this calculation asks for, if it is joined with the copy before it.
    pub(super) fn joined_with_copy(&self, calc: NodeId) -> Option<Step> {
        let copy = calc.checked_sub(1)?;
        let kernel = self.joined(copy)?;
        let node = self.call.graph.node(calc);
        Some(Step::Combine {
            kernel,
            a: self.address(&node.src),
            b: self.address(&self.call.graph.node(copy).src),
            to: self.address(&node.dst),
            count: node.src.count,
        })
    }
}
