//! A graph as text for Graphviz.

use crate::graph::{BufId, Graph, Kind, Node, NodeId, Region, TypeSlot};
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

/// What a node does, in two lines.
pub(crate) fn lines(node: &Node) -> [String; 2] {
    let (src, dst) = (region(&node.src), region(&node.dst));
    match node.kind {
        Kind::Send => [format!("SEND to {} tag {}", node.peer, node.tag), src],
        Kind::Recv => [format!("RECV from {} tag {}", node.peer, node.tag), dst],
        Kind::Calc => ["CALC".to_string(), format!("{src} into {dst}")],
        Kind::Copy => ["COPY".to_string(), format!("{src} to {dst}")],
    }
}

impl Graph {
    /// The graph in the DOT language, START and END included.
    pub fn to_dot(&self) -> String {
        let mut out =
            String::from("digraph cad {\n  START [shape=circle];\n  END [shape=circle];\n");
        for (id, node) in self.nodes().iter().enumerate() {
            let shape = match node.kind {
                Kind::Send | Kind::Recv => "box",
                Kind::Calc | Kind::Copy => "ellipse",
            };
            let [first, second] = lines(node);
            // Writing to a String can't fail.
            let _ = writeln!(out, "  n{id} [shape={shape},label=\"{first}\\n{second}\"];");
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
