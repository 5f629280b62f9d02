//! A graph as text for Graphviz.

use crate::graph::{BufId, Graph, Kind, NodeId, Region, TypeSlot};
use std::fmt::Write;

fn region(r: &Region) -> String {
    let buf = match r.buf {
        BufId::Send => "send".to_string(),
        BufId::Recv => "recv".to_string(),
        BufId::Temp(k) => format!("temp{k}"),
    };
    let unit = match r.ty {
        TypeSlot::Bytes => "B",
        _ => "el",
    };
    format!("{buf}+{} {}{unit}", r.offset, r.count)
}

impl Graph {
    /// The graph in the DOT language, START and END included.
    pub fn to_dot(&self) -> String {
        let mut out =
            String::from("digraph cad {\n  START [shape=circle];\n  END [shape=circle];\n");
        for (id, node) in self.nodes().iter().enumerate() {
            let (shape, text) = match node.kind {
                Kind::Send => (
                    "box",
                    format!(
                        "SEND to {} tag {}\\n{}",
                        node.peer,
                        node.tag,
                        region(&node.src)
                    ),
                ),
                Kind::Recv => (
                    "box",
                    format!(
                        "RECV from {} tag {}\\n{}",
                        node.peer,
                        node.tag,
                        region(&node.dst)
                    ),
                ),
                Kind::Calc => (
                    "ellipse",
                    format!("CALC\\n{} into {}", region(&node.src), region(&node.dst)),
                ),
                Kind::Copy => (
                    "ellipse",
                    format!("COPY\\n{} to {}", region(&node.src), region(&node.dst)),
                ),
            };
            // Writing to a String can't fail.
            let _ = writeln!(out, "  n{id} [shape={shape},label=\"{text}\"];");
            if self.indegree()[id] == 0 {
                let _ = writeln!(out, "  START -> n{id};");
            }
            let next = self.successors(id as NodeId);
            if next.is_empty() {
                let _ = writeln!(out, "  n{id} -> END;");
            }
            for s in next {
                let _ = writeln!(out, "  n{id} -> n{s};");
            }
        }
        out.push_str("}\n");
        out
    }
}
