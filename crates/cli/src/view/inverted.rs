//! The tree of contexts upside down: functions at the root, below each who called it, below those
//! their callers.
//!
//! Every context adds its time to one node per ancestor, so the tree is built as a trie of reversed
//! stacks. Time that is divided among many callers is below the smallest share soon; children of
//! nodes that are too small are never made into lines.

use profile::Estimate;
use profile::model::{ContextId, FunctionId, Profile};
use profile::query;
use rustc_hash::FxHashMap;

use crate::figures::Figure;
use crate::view::contexts::{ContextsView, NodeLine, Part};
use crate::view::subject::Subject;

pub fn view(subject: &mut Subject, part: Part) -> ContextsView {
    let tree = Tree::new(&subject.profile, part);
    let cpu_ns = query::totals(&subject.profile).cpu_ns;
    let mut lines = tree.preorder(part.min_share * cpu_ns.value);
    let n_nodes = lines.len();
    lines.truncate(part.n);
    subject.resolve(lines.iter().map(|line| tree.nodes[line.node].function), []);
    let word = |line: &Line| {
        let node = &tree.nodes[line.node];
        NodeLine {
            function: subject.label(node.function),
            depth: line.depth,
            call_site: None,
            entries: None,
            recursive_calls: None,
            self_ns: node.user_ns.into(),
            kernel_ns: node.kernel_ns.into(),
            total_calls: None,
            total_ns: node.total_ns().into(),
            share: query::share(node.total_ns(), cpu_ns).into(),
            n_pruned: line.n_pruned,
            pruned_ns: Figure::from(line.pruned_ns),
        }
    };
    ContextsView {
        inverted: true,
        is_timeless: false,
        min_share: part.min_share,
        n_nodes,
        nodes: lines.iter().map(word).collect(),
    }
}

#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    by_key: FxHashMap<(Option<usize>, FunctionId), usize>,
}

struct Node {
    function: FunctionId,
    user_ns: Estimate,
    kernel_ns: Estimate,
    callers: Vec<usize>,
}

struct Line {
    node: usize,
    depth: u32,
    n_pruned: u32,
    pruned_ns: Estimate,
}

impl Node {
    fn total_ns(&self) -> Estimate {
        self.user_ns + self.kernel_ns
    }
}

impl Tree {
    /// Of each function's own time; with a callee, of the time in and below that function. With a
    /// caller, only of what runs below it.
    fn new(profile: &Profile, part: Part) -> Tree {
        let mut tree = Tree::default();
        for (index, context) in profile.contexts.iter().enumerate() {
            if context.self_ns.value + context.kernel_ns.value <= 0.0 {
                continue;
            }
            let stack = ancestors(profile, ContextId(index as u32));
            let is_wanted = part.caller.is_none_or(|caller| stack.contains(&caller));
            let start = part.callee.map_or(Some(0), |callee| stack.iter().position(|&function| function == callee));
            if let Some(stack) = start.filter(|_| is_wanted).and_then(|start| stack.get(start..)) {
                tree.add(stack, context.self_ns, context.kernel_ns);
            }
        }
        tree
    }

    fn add(&mut self, stack: &[FunctionId], user_ns: Estimate, kernel_ns: Estimate) {
        let mut parent = None;
        for &function in stack {
            let index = self.child(parent, function);
            self.nodes[index].user_ns += user_ns;
            self.nodes[index].kernel_ns += kernel_ns;
            parent = Some(index);
        }
    }

    fn child(&mut self, parent: Option<usize>, function: FunctionId) -> usize {
        if let Some(&index) = self.by_key.get(&(parent, function)) {
            return index;
        }
        let index = self.nodes.len();
        let (user_ns, kernel_ns) = (Estimate::default(), Estimate::default());
        self.nodes.push(Node { function, user_ns, kernel_ns, callers: Vec::new() });
        self.by_key.insert((parent, function), index);
        match parent {
            Some(parent) => self.nodes[parent].callers.push(index),
            None => self.roots.push(index),
        }
        index
    }

    /// Nodes of at least this much time, the hottest first.
    fn preorder(&self, least_ns: f64) -> Vec<Line> {
        let mut lines = Vec::new();
        let (roots, _) = self.split(&self.roots, least_ns);
        let mut pending: Vec<(usize, u32)> = roots.into_iter().map(|root| (root, 0)).collect();
        while let Some((node, depth)) = pending.pop() {
            let (shown, pruned) = self.split(&self.nodes[node].callers, least_ns);
            pending.extend(shown.into_iter().map(|caller| (caller, depth + 1)));
            let pruned_ns = pruned.iter().map(|&caller| self.nodes[caller].total_ns()).sum();
            lines.push(Line { node, depth, n_pruned: pruned.len() as u32, pruned_ns });
        }
        lines
    }

    /// Those to show, the coldest first, since they come off a stack; and the others.
    fn split(&self, nodes: &[usize], least_ns: f64) -> (Vec<usize>, Vec<usize>) {
        let total = |&node: &usize| self.nodes[node].total_ns().value;
        let (mut shown, pruned): (Vec<usize>, Vec<usize>) = nodes.iter().partition(|&node| least_ns <= total(node));
        shown.sort_by(|a, b| total(a).total_cmp(&total(b)).then(b.cmp(a)));
        (shown, pruned)
    }
}

/// Functions from a context to the root.
fn ancestors(profile: &Profile, context: ContextId) -> Vec<FunctionId> {
    let mut stack = super::contexts::stack(profile, context);
    stack.reverse();
    stack
}
