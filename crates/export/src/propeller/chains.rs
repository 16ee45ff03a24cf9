//! Order of blocks by chains.
//!
//! Every block begins as a chain of its own. Edges are taken from hot to cold; an edge from the
//! last block of a chain to the first of another joins the two, unless that other begins with the
//! entry. The result runs along the hottest ways without jumps.

use std::collections::BTreeMap;
use std::fmt;

/// A machine basic block or a clone of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    id: u32,
    /// 0 for the original.
    clone: u32,
}

impl Node {
    pub fn original(id: u32) -> Node {
        Node { id, clone: 0 }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.clone {
            0 => write!(f, "{}", self.id),
            clone => write!(f, "{}.{clone}", self.id),
        }
    }
}

/// Counts of blocks, and of edges between different ones.
#[derive(Debug, Default)]
pub(super) struct Flow {
    nodes: BTreeMap<Node, f64>,
    edges: BTreeMap<(Node, Node), f64>,
}

impl Flow {
    /// A block runs as often as the most frequent of its parts.
    pub fn add_node(&mut self, node: Node, count: f64) {
        let known = self.nodes.entry(node).or_default();
        *known = known.max(count);
    }

    pub fn add_edge(&mut self, from: Node, to: Node, count: f64) {
        if from != to && 0.0 < count {
            *self.edges.entry((from, to)).or_default() += count;
        }
    }

    /// How often blocks ran, all together.
    pub fn heat(&self) -> f64 {
        self.nodes.values().sum()
    }

    /// Where most of the flow into a block comes from.
    pub fn hottest_into(&self, node: Node) -> Option<Node> {
        let into = self.edges.iter().filter(|((_, to), _)| *to == node);
        into.max_by(|a, b| a.1.total_cmp(b.1)).map(|((from, _), _)| *from)
    }

    /// Sends `count` of the flow along a path to fresh clones of all its blocks but the first.
    pub fn divert(&mut self, path: &[u32], count: f64, n_clones: &mut BTreeMap<u32, u32>) {
        let mut clone = path.first().copied().map(Node::original).unwrap_or_default();
        for pair in path.windows(2) {
            let (from, to) = (Node::original(pair[0]), Node::original(pair[1]));
            let n = n_clones.entry(pair[1]).or_default();
            *n += 1;
            let next = Node { id: pair[1], clone: *n };
            for known in self.edges.get_mut(&(from, to)).into_iter().chain(self.nodes.get_mut(&to)) {
                *known = (*known - count).max(0.0);
            }
            self.add_node(next, count);
            self.add_edge(clone, next, count);
            clone = next;
        }
    }

    /// The blocks that ran, and the entry before all.
    pub fn order(&self, entry: Node) -> Vec<Node> {
        let mut chains = self.chains(entry);
        let heat = |chain: &[Node]| chain.iter().filter_map(|node| self.nodes.get(node)).copied().fold(0.0, f64::max);
        chains.retain(|chain| chain.contains(&entry) || 0.0 < heat(chain));
        chains.sort_by(|a, b| {
            let entry_first = b.contains(&entry).cmp(&a.contains(&entry));
            entry_first.then(heat(b).total_cmp(&heat(a))).then(a.cmp(b))
        });
        chains.concat()
    }

    fn chains(&self, entry: Node) -> Vec<Vec<Node>> {
        let hot = self.nodes.iter().filter(|(node, count)| 0.0 < **count || **node == entry).map(|(node, _)| *node);
        let mut chains: BTreeMap<Node, Vec<Node>> = hot.map(|node| (node, vec![node])).collect();
        chains.entry(entry).or_insert_with(|| vec![entry]);
        let mut edges: Vec<_> = self.edges.iter().filter(|((_, to), count)| *to != entry && 0.0 < **count).collect();
        edges.sort_by(|a, b| b.1.total_cmp(a.1).then(a.0.cmp(b.0)));
        let mut first_of: BTreeMap<Node, Node> = chains.keys().map(|node| (*node, *node)).collect();
        for (&(from, to), _) in edges {
            let (Some(&head), true) = (first_of.get(&from), chains.contains_key(&to)) else { continue };
            let ends_with_from = chains.get(&head).is_some_and(|chain| chain.last() == Some(&from));
            if head == to || !ends_with_from {
                continue;
            }
            let tail = chains.remove(&to).unwrap_or_default();
            tail.iter().for_each(|node| {
                first_of.insert(*node, head);
            });
            chains.entry(head).or_default().extend(tail);
        }
        chains.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(edges: &[(u32, u32, f64)]) -> Flow {
        let mut flow = Flow::default();
        for &(from, to, count) in edges {
            flow.add_node(Node::original(from), count);
            flow.add_node(Node::original(to), count);
            flow.add_edge(Node::original(from), Node::original(to), count);
        }
        flow
    }

    fn shown(nodes: &[Node]) -> String {
        nodes.iter().map(|node| node.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn hot_ways_are_straight_and_the_entry_is_first() {
        let flow =
            flow(&[(0, 1, 10.0), (0, 2, 90.0), (1, 3, 10.0), (2, 3, 90.0), (3, 0, 50.0), (3, 4, 50.0), (5, 6, 0.0)]);
        assert_eq!(shown(&flow.order(Node::original(0))), "0 2 3 4 1");
    }

    #[test]
    fn an_entry_that_did_not_run_is_there_nevertheless() {
        assert_eq!(shown(&flow(&[(4, 5, 1.0)]).order(Node::original(0))), "0 4 5");
    }

    #[test]
    fn clones_take_the_flow_along() {
        let mut flow = flow(&[(0, 1, 40.0), (0, 2, 60.0), (1, 3, 40.0), (2, 3, 60.0), (3, 4, 40.0), (3, 5, 60.0)]);
        flow.divert(&[1, 3, 4], 40.0, &mut BTreeMap::new());
        assert_eq!(shown(&flow.order(Node::original(0))), "0 2 3 5 1 3.1 4.1");
    }
}
