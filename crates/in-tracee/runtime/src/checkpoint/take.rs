//! Taking a checkpoint: all threads are stopped, then a shadow is forked or what was written is saved.

pub mod behind;
pub mod checkpoint;
pub mod holding;
pub mod increments;
pub mod protection;
pub mod quiesce;
pub mod saved_pages;
pub mod slots;
pub mod store;
pub mod window;
