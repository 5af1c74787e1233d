//! Kernel objects of a checkpoint: descriptors, files, locks, timers, input that is given back.

pub mod connections;
pub mod files;
pub mod first_use;
pub mod interests;
pub mod isolated;
pub mod keeper;
pub mod lists;
pub mod locks;
pub mod mappings;
pub mod objects;
pub mod postponed;
pub mod pushback;
pub mod tables;
pub mod terminals;
pub mod timers;
pub mod user;
