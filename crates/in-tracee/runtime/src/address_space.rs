//! What is mapped where, which files stand behind it, and which pages were written.
//!
//! Deliberately absent: the calls by which a program changes its mappings (`syscalls`).

pub mod checksum;
pub mod code_changes;
pub mod descriptor_classes;
pub mod file_ends;
pub mod file_places;
pub mod file_reads;
pub mod foreign_writes;
pub mod known_shared_files;
pub mod left_memory;
pub mod logged_calls;
pub mod mapped_files;
pub mod outsider_signs;
pub mod outsiders;
pub mod packet_rings;
pub mod page_tracker;
pub mod partial_effects;
pub mod private_views;
pub mod protected_parts;
pub mod recorded_places;
pub mod region;
pub mod segments;
pub mod shared_ranges;
pub mod shared_writes;
pub mod unforked;
pub mod writable_ranges;
pub mod written_pages;
