//! The forms of paths that are told apart, as a tree of bounded size.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::method::Method;
use super::segment::{self, ID, NAME, NOT_FOUND, REST};

/// Names that one place of a path may have, not counting folded ones. All others are one name.
pub(super) const MAX_NAMES: usize = 100;

/// Routes that are told apart.
pub(super) const MAX_ROUTES: usize = 10_000;

/// Places in the tree.
const MAX_NODES: usize = 2 * MAX_ROUTES;

/// The place of `/`.
pub(super) const ROOT: u32 = 0;

/// The place of paths that do not begin with `/`, such as `*`.
pub(super) const PATHLESS: u32 = 1;

/// The place of paths for which the tree has no room.
const OTHER: u32 = 2;

/// The forms of paths that are told apart.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The place of each route, with its method.
    routes: Vec<(u32, Method)>,
}

/// A segment at a place of a path.
#[derive(Debug, Default)]
struct Node {
    parent: u32,
    name: Box<[u8]>,
    children: HashMap<Box<[u8]>, u32>,
    /// Children with a name of their own.
    names: usize,
    /// What stands for new names, although there are few.
    new_name: Option<&'static [u8]>,
    routes: SmallVec<[(Method, u32); 2]>,
}

impl Tree {
    pub(super) fn new() -> Self {
        let special = |name: &[u8]| Node { name: name.into(), ..Node::default() };
        let nodes = vec![Node::default(), special(b"(no path)"), special(b"(other paths)")];
        Self { nodes, routes: Vec::new() }
    }

    /// The place of a path. A new name that the server did not find is none.
    pub(super) fn place(&mut self, path: Option<&[u8]>, is_found: bool) -> u32 {
        let Some(path) = path.filter(|path| path.starts_with(b"/")) else { return PATHLESS };
        let mut place = ROOT;
        for segment in segment::segments(path) {
            let known = self.nodes.get(place as usize).and_then(|node| node.children.get(segment));
            place = match known {
                Some(child) => *child,
                None => self.new_place(place, segment, is_found),
            };
            if self.is_end(place) {
                break;
            }
        }
        place
    }

    /// Whether all paths that begin like this are at this place.
    fn is_end(&self, place: u32) -> bool {
        let name = self.nodes.get(place as usize).map_or(&[][..], |node| &node.name);
        matches!(name, NOT_FOUND | REST) || place == OTHER
    }

    #[cold]
    fn new_place(&mut self, parent: u32, segment: &[u8], is_found: bool) -> u32 {
        let Some(node) = self.nodes.get(parent as usize) else { return OTHER };
        let name = match segment {
            _ if segment::is_folded(segment) => segment,
            _ if !is_found => NOT_FOUND,
            _ => match node.new_name {
                Some(ID) => segment::identifier(segment),
                Some(name) => name,
                None if node.names >= MAX_NAMES => NAME,
                None => segment,
            },
        };
        self.child(parent, name)
    }

    /// The child of this name, which is made if there is room.
    pub(super) fn child(&mut self, parent: u32, name: &[u8]) -> u32 {
        let (number, is_full) = (self.nodes.len() as u32, self.nodes.len() >= MAX_NODES);
        let Some(node) = self.nodes.get_mut(parent as usize) else { return OTHER };
        if let Some(child) = node.children.get(name) {
            return *child;
        }
        if is_full {
            return OTHER;
        }
        node.children.insert(name.into(), number);
        node.names += usize::from(!segment::is_folded(name));
        self.nodes.push(Node { parent, name: name.into(), ..Node::default() });
        number
    }

    /// Folds names that this place does not have yet.
    pub(super) fn fold(&mut self, place: u32, new_name: &'static [u8]) {
        if let Some(node) = self.nodes.get_mut(place as usize) {
            node.new_name = Some(new_name);
        }
    }

    /// The route of a method at a place; a new one has the next number. `None` if there is no room.
    pub(super) fn route(&mut self, place: u32, method: Method) -> Option<u32> {
        let node = self.nodes.get_mut(place as usize)?;
        if let Some((_, route)) = node.routes.iter().find(|(other, _)| *other == method) {
            return Some(*route);
        }
        let number = self.routes.len() as u32;
        if self.routes.len() >= MAX_ROUTES {
            return None;
        }
        node.routes.push((method, number));
        self.routes.push((place, method));
        Some(number)
    }

    /// The method and the form of the paths of a route.
    pub(super) fn name(&self, route: u32) -> (Option<&'static str>, String) {
        let Some((place, method)) = self.routes.get(route as usize) else { return (None, String::new()) };
        let (is_path, mut names) = (*place != PATHLESS && *place != OTHER, Vec::new());
        let mut place = *place;
        while let Some(node) = self.nodes.get(place as usize).filter(|_| place != ROOT) {
            names.push(String::from_utf8_lossy(&node.name));
            place = node.parent;
        }
        names.reverse();
        (method.name(), if is_path { format!("/{}", names.join("/")) } else { names.concat() })
    }
}
