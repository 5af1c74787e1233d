//! What libstdc++ has of `std::map`, `std::set` and `std::list` in its library, with the barrier.
//!
//! Most of those containers is compiled into the program, by the pass. The relinking of their nodes is not: the
//! pass calls these functions in place of the library's, of which they have types, arguments and results. Addresses outside of
//! the region are stored to as they are.
//!
//! Invariant: each store is made by [`set`] or [`paint`]. Layouts are those of libstdc++'s binary interface
//! (`bits/stl_tree.h`, `bits/stl_list.h`), which do not change.

use crate::barrier::will_write;

/// A node's address, or 0.
type Node = usize;

/// Colours of a node of a tree: `_Rb_tree_color`, of 4 bytes.
const RED: u32 = 0;
const BLACK: u32 = 1;

/// Offsets of `_Rb_tree_node_base`; the colour is at 0. In a tree's header, parent is the root, left and right the first and
/// last node.
const PARENT: usize = 8;
const LEFT: usize = 16;
const RIGHT: usize = 24;

/// Offsets of `_List_node_base`.
const NEXT: usize = 0;
const PREVIOUS: usize = 8;

/// # Safety
/// The node has the field.
unsafe fn get(node: Node, field: usize) -> Node {
    // SAFETY: as the caller says.
    unsafe { *((node + field) as *const Node) }
}

/// # Safety
/// As for [`get`], and nobody else uses the container.
unsafe fn set(node: Node, field: usize, value: Node) {
    let address = node + field;
    // SAFETY: as the caller says; the words of nodes are aligned.
    unsafe {
        will_write(address, size_of::<Node>());
        *(address as *mut Node) = value;
    }
}

/// # Safety
/// A node of a tree.
unsafe fn colour(node: Node) -> u32 {
    // SAFETY: as the caller says.
    unsafe { *(node as *const u32) }
}

/// # Safety
/// A node of a tree that nobody else uses.
unsafe fn paint(node: Node, colour: u32) {
    // SAFETY: as the caller says.
    unsafe {
        will_write(node, size_of::<u32>());
        *(node as *mut u32) = colour;
    }
}

/// The other side.
fn across(side: usize) -> usize {
    LEFT + RIGHT - side
}

/// Puts a node, or nothing, where another one is: at its parent, or as the root.
///
/// # Safety
/// Nodes of a tree that nobody else uses, and its header.
unsafe fn replace(old: Node, new: Node, header: Node) {
    // SAFETY: as the caller says.
    unsafe {
        let parent = get(old, PARENT);
        if get(header, PARENT) == old {
            set(header, PARENT, new);
        } else if get(parent, LEFT) == old {
            set(parent, LEFT, new);
        } else {
            set(parent, RIGHT, new);
        }
    }
}

/// Moves a node down to a side; its child on the other one takes its place.
///
/// # Safety
/// As for [`replace`]; there is such a child.
unsafe fn rotate(node: Node, side: usize, header: Node) {
    // SAFETY: as the caller says.
    unsafe {
        let up = get(node, across(side));
        let between = get(up, side);
        set(node, across(side), between);
        if between != 0 {
            set(between, PARENT, node);
        }
        set(up, PARENT, get(node, PARENT));
        replace(node, up, header);
        set(up, side, node);
        set(node, PARENT, up);
    }
}

/// The last node of a subtree on a side.
///
/// # Safety
/// A node of a tree.
unsafe fn outermost(mut node: Node, side: usize) -> Node {
    // SAFETY: as the caller says.
    unsafe {
        while get(node, side) != 0 {
            node = get(node, side);
        }
    }
    node
}

/// `std::_Rb_tree_insert_and_rebalance`.
///
/// # Safety
/// A node that is in no tree, the node below which it belongs, and the header of that one's tree, which nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_tree_insert(is_left: bool, node: Node, parent: Node, header: Node) {
    // SAFETY: as the caller says.
    unsafe {
        set(node, PARENT, parent);
        set(node, LEFT, 0);
        set(node, RIGHT, 0);
        paint(node, RED);
        let side = if is_left { LEFT } else { RIGHT };
        if parent == header {
            [PARENT, LEFT, RIGHT].into_iter().for_each(|field| set(header, field, node));
        } else {
            set(parent, side, node);
            if parent == get(header, side) {
                set(header, side, node);
            }
        }
        let mut node = node;
        while node != get(header, PARENT) && colour(get(node, PARENT)) == RED {
            let parent = get(node, PARENT);
            let above = get(parent, PARENT);
            let side = if get(above, LEFT) == parent { LEFT } else { RIGHT };
            let uncle = get(above, across(side));
            if uncle != 0 && colour(uncle) == RED {
                paint(parent, BLACK);
                paint(uncle, BLACK);
                paint(above, RED);
                node = above;
                continue;
            }
            if get(parent, across(side)) == node {
                node = parent;
                rotate(node, side, header);
            }
            paint(get(node, PARENT), BLACK);
            paint(above, RED);
            rotate(above, across(side), header);
        }
        paint(get(header, PARENT), BLACK);
    }
}

/// `std::_Rb_tree_rebalance_for_erase`: takes a node out of its tree, and returns it.
///
/// # Safety
/// A node of the tree, which nobody else uses, and the tree's header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_tree_erase(node: Node, header: Node) -> Node {
    // SAFETY: as the caller says.
    unsafe {
        // What is below a gap, the node above the gap, and the colour that is missing there.
        let (below, above, missing);
        if get(node, LEFT) != 0 && get(node, RIGHT) != 0 {
            // The next node takes its place.
            let next = outermost(get(node, RIGHT), LEFT);
            below = get(next, RIGHT);
            missing = colour(next);
            set(get(node, LEFT), PARENT, next);
            set(next, LEFT, get(node, LEFT));
            if next == get(node, RIGHT) {
                above = next;
            } else {
                above = get(next, PARENT);
                if below != 0 {
                    set(below, PARENT, above);
                }
                set(above, LEFT, below);
                set(next, RIGHT, get(node, RIGHT));
                set(get(node, RIGHT), PARENT, next);
            }
            replace(node, next, header);
            set(next, PARENT, get(node, PARENT));
            paint(next, colour(node));
        } else {
            below = get(node, LEFT) | get(node, RIGHT);
            (above, missing) = (get(node, PARENT), colour(node));
            if below != 0 {
                set(below, PARENT, above);
            }
            replace(node, below, header);
            for side in [LEFT, RIGHT] {
                if get(header, side) == node {
                    let first = if below == 0 { above } else { outermost(below, side) };
                    set(header, side, first);
                }
            }
        }
        if missing == BLACK {
            fill_gap(below, above, header);
        }
    }
    node
}

/// Makes up for a black node that is missing on the way to a subtree, which may be empty.
///
/// # Safety
/// As for [`replace`].
unsafe fn fill_gap(mut node: Node, mut above: Node, header: Node) {
    // SAFETY: as the caller says. A subtree that has too few black nodes has a sibling.
    unsafe {
        let is_black = |node: Node| node == 0 || colour(node) == BLACK;
        while node != get(header, PARENT) && is_black(node) {
            let side = if get(above, LEFT) == node { LEFT } else { RIGHT };
            let mut sibling = get(above, across(side));
            if colour(sibling) == RED {
                paint(sibling, BLACK);
                paint(above, RED);
                rotate(above, side, header);
                sibling = get(above, across(side));
            }
            if is_black(get(sibling, LEFT)) && is_black(get(sibling, RIGHT)) {
                paint(sibling, RED);
                (node, above) = (above, get(above, PARENT));
                continue;
            }
            if is_black(get(sibling, across(side))) {
                paint(get(sibling, side), BLACK);
                paint(sibling, RED);
                rotate(sibling, across(side), header);
                sibling = get(above, across(side));
            }
            paint(sibling, colour(above));
            paint(above, BLACK);
            paint(get(sibling, across(side)), BLACK);
            rotate(above, side, header);
            break;
        }
        if node != 0 {
            paint(node, BLACK);
        }
    }
}

/// Makes two nodes of a list neighbours.
///
/// # Safety
/// Nodes of lists that nobody else uses.
unsafe fn link(first: Node, second: Node) {
    // SAFETY: as the caller says.
    unsafe {
        set(first, NEXT, second);
        set(second, PREVIOUS, first);
    }
}

/// `std::__detail::_List_node_base::_M_hook`: puts a node before another one.
///
/// # Safety
/// A node that is in no list, and one of a list that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_list_hook(node: Node, before: Node) {
    // SAFETY: as the caller says.
    unsafe {
        link(get(before, PREVIOUS), node);
        link(node, before);
    }
}

/// `std::__detail::_List_node_base::_M_unhook`.
///
/// # Safety
/// A node of a list that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_list_unhook(node: Node) {
    // SAFETY: as the caller says.
    unsafe { link(get(node, PREVIOUS), get(node, NEXT)) };
}

/// `std::__detail::_List_node_base::_M_transfer`: moves nodes, up to the one before `end`, before another one.
///
/// # Safety
/// Nodes of lists that nobody else uses; `before` is none of those that are moved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_list_transfer(before: Node, first: Node, end: Node) {
    if before == end || first == end {
        return;
    }
    // SAFETY: as the caller says.
    unsafe {
        let last = get(end, PREVIOUS);
        link(get(first, PREVIOUS), end);
        link(get(before, PREVIOUS), first);
        link(last, before);
    }
}

/// `std::__detail::_List_node_base::_M_reverse`.
///
/// # Safety
/// The head of a list that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_list_reverse(head: Node) {
    let mut node = head;
    loop {
        // SAFETY: as the caller says.
        unsafe {
            let (next, previous) = (get(node, NEXT), get(node, PREVIOUS));
            set(node, NEXT, previous);
            set(node, PREVIOUS, next);
            node = next;
        }
        if node == head {
            return;
        }
    }
}

/// `std::__detail::_List_node_base::swap`: exchanges what two heads have.
///
/// # Safety
/// Heads of lists that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rv_mirror_list_swap(one: Node, other: Node) {
    // SAFETY: as the caller says.
    unsafe {
        let ends = |head: Node| (get(head, NEXT), get(head, PREVIOUS));
        let (of_one, of_other) = (ends(one), ends(other));
        for (head, (first, last), before) in [(one, of_other, other), (other, of_one, one)] {
            if first == before {
                link(head, head);
            } else {
                link(head, first);
                link(last, head);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node and its key, behind it.
    type Slot = [usize; 5];
    const KEY: usize = 32;
    const KEYS: usize = 200;

    /// A tree of nodes outside of any region. The first slot is the header.
    struct Tree(Vec<Slot>);

    impl Tree {
        fn node(&self, index: usize) -> Node {
            &raw const self.0[index] as Node
        }

        fn key(&self, node: Node) -> usize {
            // SAFETY: a slot of this tree.
            unsafe { get(node, KEY) }
        }

        fn insert(&mut self, key: usize) {
            let (header, node) = (self.node(0), self.node(key));
            let (mut parent, mut is_left) = (header, true);
            // SAFETY: slots of this tree.
            unsafe {
                let mut at = get(header, PARENT);
                while at != 0 {
                    (parent, is_left) = (at, key < self.key(at));
                    at = get(at, if is_left { LEFT } else { RIGHT });
                }
                rv_mirror_tree_insert(is_left, node, parent, header);
            }
        }

        /// Looks at a subtree: adds its keys in order; returns how many black nodes each way down has.
        fn check(&self, node: Node, parent: Node, keys: &mut Vec<usize>) -> usize {
            if node == 0 {
                return 1;
            }
            // SAFETY: slots of this tree.
            unsafe {
                assert_eq!(get(node, PARENT), parent);
                let is_red = colour(node) == RED;
                for side in [LEFT, RIGHT] {
                    let child = get(node, side);
                    assert!(!is_red || child == 0 || colour(child) == BLACK, "two red ones below each other");
                }
                let left = self.check(get(node, LEFT), node, keys);
                keys.push(self.key(node));
                let right = self.check(get(node, RIGHT), node, keys);
                assert_eq!(left, right, "black nodes");
                left + usize::from(!is_red)
            }
        }
    }

    #[test]
    fn trees_stay_ordered_and_balanced() {
        let slots = (0..=KEYS).map(|index| [0, 0, 0, 0, index]).collect();
        let tree = &mut Tree(slots);
        let header = tree.node(0);
        // SAFETY: the header.
        unsafe {
            set(header, LEFT, header);
            set(header, RIGHT, header);
        }
        let mut known = std::collections::BTreeSet::new();
        let mut seed = 1u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = (seed >> 33) as usize % KEYS + 1;
            if known.remove(&key) {
                // SAFETY: the node of a key that is in the tree.
                assert_eq!(unsafe { rv_mirror_tree_erase(tree.node(key), header) }, tree.node(key));
            } else {
                known.insert(key);
                tree.insert(key);
            }
            // SAFETY: the header.
            let [root, first, last] = unsafe { [PARENT, LEFT, RIGHT].map(|field| get(header, field)) };
            let mut keys = Vec::new();
            tree.check(root, header, &mut keys);
            assert!(keys.iter().eq(&known));
            let ends = [first, last].map(|node| if node == header { None } else { Some(tree.key(node)) });
            assert_eq!(ends, [known.first().copied(), known.last().copied()]);
        }
    }

    #[test]
    fn lists_are_moved_reversed_and_exchanged() {
        let slots: Vec<[usize; 2]> = vec![[0; 2]; 8];
        let at = |index: usize| &raw const slots[index] as Node;
        let (one, other) = (at(6), at(7));
        let all = |head: Node| {
            let (mut found, mut node) = (Vec::new(), head);
            loop {
                // SAFETY: nodes of these lists.
                unsafe {
                    assert_eq!(get(get(node, NEXT), PREVIOUS), node);
                    node = get(node, NEXT);
                }
                if node == head {
                    return found;
                }
                found.push((0..6).find(|index| at(*index) == node).expect("one of ours"));
            }
        };
        // SAFETY: nodes and heads of lists that are ours.
        unsafe {
            link(one, one);
            link(other, other);
            (0..6).for_each(|index| rv_mirror_list_hook(at(index), one));
            rv_mirror_list_transfer(other, at(1), at(3));
            assert_eq!((all(one), all(other)), (vec![0, 3, 4, 5], vec![1, 2]));
            rv_mirror_list_transfer(at(0), at(4), one);
            rv_mirror_list_unhook(at(3));
            rv_mirror_list_reverse(one);
            assert_eq!((all(one), all(other)), (vec![0, 5, 4], vec![1, 2]));
            rv_mirror_list_swap(one, other);
            assert_eq!((all(one), all(other)), (vec![1, 2], vec![0, 5, 4]));
            rv_mirror_list_unhook(at(1));
            rv_mirror_list_unhook(at(2));
            rv_mirror_list_swap(one, other);
            assert_eq!((all(one), all(other)), (vec![0, 5, 4], vec![]));
            rv_mirror_list_swap(one, other);
            assert_eq!((all(one), all(other)), (vec![], vec![0, 5, 4]));
        }
    }
}
