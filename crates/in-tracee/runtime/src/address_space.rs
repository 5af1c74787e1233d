//! What is mapped where, which files stand behind it, and which pages were written.
//!
//! Deliberately absent: the calls by which a program changes its mappings (`syscalls`).

pub mod boarded_sharing;
pub mod checksum;
pub mod detect;
pub mod file_ends;
pub mod file_extents;
pub mod file_places;
pub mod foreign_writes;
pub mod kept_files;
pub mod mapped_files;
pub mod outsider_signs;
pub mod outsiders;
pub mod packet_rings;
pub mod page_tracker;
pub mod partial_effects;
pub mod protected_parts;
pub mod region;
pub mod shared_files;
pub mod written_pages;
