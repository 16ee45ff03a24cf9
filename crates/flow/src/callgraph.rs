//! Who calls whom directly, and what follows from it for placing checks (bursty tracing, Hirzel and
//! Chilimbi 2001, section 4.1).
//!
//! A call is a direct call or a direct tail call; both can recurse. Indirect calls have no edges:
//! they are known only as the caller's property of calling something unknown and the callee's
//! property of having its address taken.
//!
//! *Distance* is that from the outside world: 0 for functions that it can call (roots, and
//! functions whose address is taken), else one more than the closest caller's. What the outside
//! world cannot reach, as far as known, is measured afresh from the function of smallest number, so
//! that every function has a distance. Hence on every cycle of calls, the function at the smallest
//! distance is called by one of the same component that is at least as far away: that is *recursion
//! from below*.

use std::collections::VecDeque;

/// Direct calls between the functions of a module. Calls to oneself are included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallGraph {
    /// `callees[first_callee[f]..first_callee[f + 1]]` are the functions that `f` calls, ascending,
    /// each once.
    first_callee: Vec<u32>,
    callees: Vec<FunctionId>,
    facts: Vec<FunctionFacts>,
    is_root: Vec<bool>,
    component: Vec<ComponentId>,
    n_components: usize,
    distance: Vec<u32>,
    recursion_from_below: Vec<bool>,
}

/// Index of a function in its [`CallGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// Index of a strongly connected component of a [`CallGraph`]; callees have smaller ids than
/// callers of other components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(pub u32);

/// One function's calls to at least one place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The function that contains the call.
    pub caller: FunctionId,
    /// The function called.
    pub callee: FunctionId,
}

/// What the direct calls do not tell about a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionFacts {
    /// Its address is stored or computed somewhere, so that an indirect call may reach it.
    pub address_taken: bool,
    /// It is exported, or the program's entry, or run by the loader.
    pub called_from_outside: bool,
    /// It contains an indirect call, an indirect tail call or a jump that may be one.
    pub calls_unknown: bool,
}

const UNREACHED: u32 = u32::MAX;

impl CallGraph {
    /// Builds the graph from calls in any order, with or without repetitions; there is one function
    /// per element of `facts`.
    ///
    /// # Panics
    /// If a call names a function that has no facts.
    #[must_use]
    pub fn new(mut calls: Vec<Call>, facts: Vec<FunctionFacts>) -> CallGraph {
        calls.sort_unstable();
        calls.dedup();
        let n_functions = facts.len();
        let mut first_callee = vec![0u32; n_functions + 1];
        let mut is_root = vec![true; n_functions];
        for call in &calls {
            first_callee[call.caller.index() + 1] += 1;
            if call.caller != call.callee {
                is_root[call.callee.index()] = false;
            }
        }
        for function in 0..n_functions {
            first_callee[function + 1] += first_callee[function];
            is_root[function] |= facts[function].called_from_outside;
        }
        let callees: Vec<FunctionId> = calls.iter().map(|call| call.callee).collect();
        let (component, n_components) = components(&first_callee, &callees);
        let mut graph = CallGraph {
            first_callee,
            callees,
            facts,
            is_root,
            component,
            n_components,
            distance: vec![UNREACHED; n_functions],
            recursion_from_below: vec![false; n_functions],
        };
        graph.measure_distances();
        graph.find_recursion_from_below(&calls);
        graph
    }

    /// Number of functions.
    #[must_use]
    pub fn n_functions(&self) -> usize {
        self.facts.len()
    }

    /// All functions, ascending.
    pub fn functions(&self) -> impl DoubleEndedIterator<Item = FunctionId> + ExactSizeIterator + use<> {
        (0..self.n_functions() as u32).map(FunctionId)
    }

    /// Number of pairs of caller and callee.
    #[must_use]
    pub fn n_calls(&self) -> usize {
        self.callees.len()
    }

    /// Functions that `caller` calls directly, ascending.
    #[must_use]
    pub fn callees(&self, caller: FunctionId) -> &[FunctionId] {
        let range = self.first_callee[caller.index()]..self.first_callee[caller.index() + 1];
        &self.callees[range.start as usize..range.end as usize]
    }

    /// What was stated about the function.
    #[must_use]
    pub fn facts(&self, function: FunctionId) -> FunctionFacts {
        self.facts[function.index()]
    }

    /// Whether the function is called from outside, or by no other function as far as known.
    #[must_use]
    pub fn is_root(&self, function: FunctionId) -> bool {
        self.is_root[function.index()]
    }

    /// Whether the function calls nothing at all.
    #[must_use]
    pub fn is_leaf(&self, function: FunctionId) -> bool {
        self.callees(function).is_empty() && !self.facts(function).calls_unknown
    }

    /// Number of strongly connected components.
    #[must_use]
    pub fn n_components(&self) -> usize {
        self.n_components
    }

    /// The function's strongly connected component: functions that can call each other, directly or
    /// through others.
    #[must_use]
    pub fn component(&self, function: FunctionId) -> ComponentId {
        self.component[function.index()]
    }

    /// Least number of calls from the outside world to the function; see the module header.
    #[must_use]
    pub fn distance(&self, function: FunctionId) -> u32 {
        self.distance[function.index()]
    }

    /// Whether a function of the same component, at least as far from the outside world, calls this
    /// one.
    #[must_use]
    pub fn recursion_from_below(&self, function: FunctionId) -> bool {
        self.recursion_from_below[function.index()]
    }

    /// Breadth-first search, started afresh from any function left over.
    fn measure_distances(&mut self) {
        let mut queue: VecDeque<FunctionId> =
            self.functions().filter(|&id| self.is_root(id) || self.facts(id).address_taken).collect();
        for &source in &queue {
            self.distance[source.index()] = 0;
        }
        for left_over in self.functions() {
            while let Some(caller) = queue.pop_front() {
                let callees = self.first_callee[caller.index()]..self.first_callee[caller.index() + 1];
                for callee in &self.callees[callees.start as usize..callees.end as usize] {
                    if self.distance[callee.index()] == UNREACHED {
                        self.distance[callee.index()] = self.distance[caller.index()] + 1;
                        queue.push_back(*callee);
                    }
                }
            }
            if self.distance[left_over.index()] == UNREACHED {
                self.distance[left_over.index()] = 0;
                queue.push_back(left_over);
            }
        }
    }

    fn find_recursion_from_below(&mut self, calls: &[Call]) {
        for &Call { caller, callee } in calls {
            let same_component = self.component(caller) == self.component(callee);
            if same_component && self.distance(caller) >= self.distance(callee) {
                self.recursion_from_below[callee.index()] = true;
            }
        }
    }
}

impl FunctionId {
    /// The id as an array index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Strongly connected components, numbered as they are completed: callees before callers.
///
/// Tarjan's algorithm with a stack of its own, because chains of calls are long. A function keeps
/// the smallest number of discovery that it or what it leads to can get back to; if that is its
/// own, it is the first of its component to be found, and the others are behind it on the stack of
/// those without a component.
struct Components<'a> {
    /// As in [`CallGraph`].
    first_callee: &'a [u32],
    callees: &'a [FunctionId],
    /// Number of discovery, and then the smallest that the function gets back to.
    lowest: Vec<u32>,
    component: Vec<ComponentId>,
    n_components: usize,
    /// Functions that have been found and have no component yet.
    open: Vec<FunctionId>,
}

const UNSEEN: u32 = u32::MAX;
const NO_COMPONENT: ComponentId = ComponentId(u32::MAX);

/// Returns the component of every function, and how many there are.
fn components(first_callee: &[u32], callees: &[FunctionId]) -> (Vec<ComponentId>, usize) {
    let n_functions = first_callee.len() - 1;
    let mut search = Components {
        first_callee,
        callees,
        lowest: vec![UNSEEN; n_functions],
        component: vec![NO_COMPONENT; n_functions],
        n_components: 0,
        open: Vec::new(),
    };
    let mut n_found = 0;
    for root in (0..n_functions as u32).map(FunctionId) {
        if search.lowest[root.index()] == UNSEEN {
            search.from(root, &mut n_found);
        }
    }
    (search.component, search.n_components)
}

impl Components<'_> {
    fn from(&mut self, root: FunctionId, n_found: &mut u32) {
        // Functions on the way from the root, with their numbers of discovery and where in
        // `callees` they are.
        let mut way = vec![self.find(root, n_found)];
        while let Some((function, number, next)) = way.last_mut() {
            let (function, number) = (*function, *number);
            if *next < self.first_callee[function.index() + 1] {
                let callee = self.callees[*next as usize];
                *next += 1;
                if self.lowest[callee.index()] == UNSEEN {
                    way.push(self.find(callee, n_found));
                } else if self.component[callee.index()] == NO_COMPONENT {
                    self.lower(function, callee);
                }
                continue;
            }
            way.pop();
            if self.lowest[function.index()] == number {
                self.close(function);
            } else if let Some(&(caller, ..)) = way.last() {
                self.lower(caller, function);
            }
        }
    }

    fn find(&mut self, function: FunctionId, n_found: &mut u32) -> (FunctionId, u32, u32) {
        let number = *n_found;
        *n_found += 1;
        self.lowest[function.index()] = number;
        self.open.push(function);
        (function, number, self.first_callee[function.index()])
    }

    /// The caller gets back to wherever the callee does.
    fn lower(&mut self, caller: FunctionId, callee: FunctionId) {
        self.lowest[caller.index()] = self.lowest[caller.index()].min(self.lowest[callee.index()]);
    }

    /// Makes a component of what has been found since `first`.
    fn close(&mut self, first: FunctionId) {
        let id = ComponentId(self.n_components as u32);
        self.n_components += 1;
        while let Some(function) = self.open.pop() {
            self.component[function.index()] = id;
            if function == first {
                break;
            }
        }
    }
}
