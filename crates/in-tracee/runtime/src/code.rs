//! The program's code as it was rewritten: patch sites, their trampolines, and instructions that trap.
//!
//! Invariant: a byte of the program's code that differs from its file is known here, and can be put back.

pub mod branches;
pub mod clocks;
pub mod filter_tree;
pub mod gaps;
pub mod gs;
pub mod interception;
pub mod non_executable;
pub mod one_processor;
pub mod own_vdso;
pub mod patching;
pub mod processor_words;
pub mod seccomp;
pub mod sites;
pub mod spin_sites;
pub mod trampolines;
pub mod vector_saves;
