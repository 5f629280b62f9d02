//! A graph as a picture (SVG): START above, END below, each node in the layer after all those it
//! waits for, and in its layer near what it is connected with.
//!
//! An edge over several layers gets a place in each between, so that it runs past the nodes there
//! (Sugiyama's way); places are ordered by the mean of their neighbours', some times downwards and
//! upwards.

use crate::graph::{Graph, Kind, NodeId};
use std::fmt::Write;

/// Size of a node, and of the way of an edge past nodes, in pixels.
const NODE: (f64, f64) = (210.0, 40.0);
const WAY: f64 = 16.0;
/// Between neighbours in a layer, and from layer to layer.
const GAP: f64 = 14.0;
const LAYER: f64 = 84.0;
/// Passes that order the layers.
const PASSES: usize = 8;

/// A place in a layer.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Start,
    End,
    Node(NodeId),
    /// An edge passes here.
    Way,
}

#[derive(Default)]
struct Drawing {
    what: Vec<What>,
    layer: Vec<usize>,
    /// Edges from layer to next layer.
    edges: Vec<(usize, usize)>,
    /// Places of each layer from left to right.
    layers: Vec<Vec<usize>>,
    x: Vec<f64>,
}

impl Drawing {
    fn new(graph: &Graph) -> Drawing {
        let depth = depths(graph);
        let last = depth.iter().map(|d| d + 1).max().unwrap_or(1);
        let mut d = Drawing {
            layers: vec![Vec::new(); last + 1],
            ..Drawing::default()
        };
        let start = d.place(What::Start, 0);
        let nodes: Vec<usize> = depth
            .iter()
            .enumerate()
            .map(|(id, &layer)| d.place(What::Node(id as NodeId), layer))
            .collect();
        let end = d.place(What::End, last);
        for (id, &from) in nodes.iter().enumerate() {
            if graph.indegree()[id] == 0 {
                d.connect(start, from);
            }
            let next = graph.successors(id as NodeId);
            if next.is_empty() {
                d.connect(from, end);
            }
            for &s in next {
                d.connect(from, nodes[s as usize]);
            }
        }
        if nodes.is_empty() {
            d.connect(start, end);
        }
        d.arrange();
        d
    }

    fn place(&mut self, what: What, layer: usize) -> usize {
        let id = self.what.len();
        self.what.push(what);
        self.layer.push(layer);
        self.layers[layer].push(id);
        self.x.push(0.0);
        id
    }

    fn connect(&mut self, from: usize, to: usize) {
        let mut at = from;
        for layer in self.layer[from] + 1..self.layer[to] {
            let way = self.place(What::Way, layer);
            self.edges.push((at, way));
            at = way;
        }
        self.edges.push((at, to));
    }

    fn width(&self, place: usize) -> f64 {
        match self.what[place] {
            What::Way => WAY,
            _ => NODE.0,
        }
    }

    fn arrange(&mut self) {
        let n = self.what.len();
        let (mut above, mut below) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        for &(a, b) in &self.edges {
            above[b].push(a);
            below[a].push(b);
        }
        let count = self.layers.len();
        (0..count).for_each(|l| self.spread(l));
        for pass in 0..PASSES {
            for i in 0..count {
                let down = pass % 2 == 0;
                let layer = if down { i } else { count - 1 - i };
                let near = if down { &above } else { &below };
                let x = &self.x;
                let mean = |p: usize| match near[p].len() {
                    0 => x[p],
                    k => near[p].iter().map(|&q| x[q]).sum::<f64>() / k as f64,
                };
                let mut keyed: Vec<(f64, usize)> =
                    self.layers[layer].iter().map(|&p| (mean(p), p)).collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.layers[layer] = keyed.into_iter().map(|k| k.1).collect();
                self.spread(layer);
            }
        }
    }

    /// Puts the places of a layer side by side, its middle at zero.
    fn spread(&mut self, layer: usize) {
        let places = std::mem::take(&mut self.layers[layer]);
        let total: f64 = places.iter().map(|&p| self.width(p) + GAP).sum();
        let mut x = -total / 2.0;
        for &p in &places {
            let step = self.width(p) + GAP;
            self.x[p] = x + step / 2.0;
            x += step;
        }
        self.layers[layer] = places;
    }

    fn svg(&self, graph: &Graph) -> String {
        let half = (0..self.what.len())
            .map(|p| self.x[p].abs() + self.width(p) / 2.0)
            .fold(0.0, f64::max)
            + GAP;
        let height = (self.layers.len() as f64 - 1.0) * LAYER + 2.0 * NODE.1;
        let at = |p: usize| (self.x[p] + half, self.layer[p] as f64 * LAYER + NODE.1);
        let team = graph.team();
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {w:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\" \
             text-anchor=\"middle\">\n<title>rank {} of {}</title>\n\
             <defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"8\" refY=\"4\" \
             orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            team.rank,
            team.size,
            w = 2.0 * half,
        );
        for &(a, b) in &self.edges {
            let ((x, y), (u, v)) = (at(a), at(b));
            let (y, v) = (y + NODE.1 / 2.0, v - NODE.1 / 2.0);
            let middle = f64::midpoint(y, v);
            let tip = if self.what[b] == What::Way {
                ""
            } else {
                " marker-end=\"url(#tip)\""
            };
            // Writing to a String can't fail, here and below.
            let _ = writeln!(
                out,
                "<path d=\"M{x:.1},{y:.1} C{x:.1},{middle:.1} {u:.1},{middle:.1} {u:.1},{v:.1}\" \
                 fill=\"none\" stroke=\"#555\"{tip}/>"
            );
        }
        for p in 0..self.what.len() {
            out.push_str(&self.shape(graph, p, at(p)));
        }
        out.push_str("</svg>\n");
        out
    }

    /// A node's outline and text: messages are boxes, work of the process itself is round.
    fn shape(&self, graph: &Graph, place: usize, (x, y): (f64, f64)) -> String {
        let (round, colour, lines) = match self.what[place] {
            What::Way => {
                let half = NODE.1 / 2.0;
                let (top, bottom) = (y - half, y + half);
                return format!("<path d=\"M{x:.1},{top:.1} V{bottom:.1}\" stroke=\"#555\"/>\n");
            }
            What::Start => (NODE.1 / 2.0, "#ddd", ["START".to_string(), String::new()]),
            What::End => (NODE.1 / 2.0, "#ddd", ["END".to_string(), String::new()]),
            What::Node(id) => {
                let (round, colour) = match graph.node(id).kind {
                    Kind::Send => (0.0, "#f6d9c6"),
                    Kind::Recv => (0.0, "#cfe3f3"),
                    Kind::Calc => (NODE.1 / 2.0, "#d3ecd9"),
                    Kind::Copy => (NODE.1 / 2.0, "#f3ecc4"),
                };
                (round, colour, crate::dot::lines(graph.node(id)))
            }
        };
        let (left, top) = (x - NODE.0 / 2.0, y - NODE.1 / 2.0);
        let mut out = format!(
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{}\" height=\"{}\" rx=\"{round}\" \
             fill=\"{colour}\" stroke=\"black\"/>\n",
            NODE.0, NODE.1
        );
        let single = lines[1].is_empty();
        for (i, line) in lines.iter().filter(|l| !l.is_empty()).enumerate() {
            let base = if single {
                y + 4.0
            } else {
                y - 4.0 + 15.0 * i as f64
            };
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{base:.1}\">{line}</text>");
        }
        out
    }
}

/// For each node its layer: one after the deepest it waits for. START has layer 0. Nodes of a cycle
/// have no place; they stay in the first layer.
fn depths(graph: &Graph) -> Vec<usize> {
    let mut left = graph.indegree().to_vec();
    let mut depth = vec![1; left.len()];
    let mut ready: Vec<NodeId> = (0..left.len() as NodeId)
        .filter(|&id| left[id as usize] == 0)
        .collect();
    while let Some(id) = ready.pop() {
        for &s in graph.successors(id) {
            let s = s as usize;
            depth[s] = depth[s].max(depth[id as usize] + 1);
            left[s] -= 1;
            if left[s] == 0 {
                ready.push(s as NodeId);
            }
        }
    }
    depth
}

impl Graph {
    /// The graph as a picture, for a graph that [`Graph::verify`] accepts.
    pub fn to_svg(&self) -> String {
        Drawing::new(self).svg(self)
    }
}
