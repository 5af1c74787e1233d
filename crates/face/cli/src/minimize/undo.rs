//! What a run wrote in the sandbox is undone before the next one.
//!
//! Invariant: each run begins with the files that the first one began with, but for the inputs that get
//! smaller: those are the search's own.

use std::cell::RefCell;
use std::path::PathBuf;

use injector::Written;

use super::tries::Ended;

/// The files of the beginning.
pub struct Undo {
    beginning: Written,
    inputs: RefCell<Vec<PathBuf>>,
}

impl Undo {
    /// From now on. The inputs are files of the search's own.
    pub fn begin(inputs: Vec<PathBuf>) -> Result<Undo, Ended> {
        let undo = Undo { beginning: Written::default(), inputs: RefCell::new(Vec::new()) };
        undo.leave_out(inputs);
        Ok(Undo { beginning: undo.now()?, ..undo })
    }

    /// Leaves these files alone from now on, too.
    pub fn leave_out(&self, inputs: impl IntoIterator<Item = PathBuf>) {
        let real = inputs.into_iter().map(|path| path.canonicalize().unwrap_or(path));
        self.inputs.borrow_mut().extend(real);
    }

    /// As it is now.
    pub fn now(&self) -> Result<Written, Ended> {
        Written::now(&self.inputs.borrow()).map_err(Ended::Undo)
    }

    /// Brings the beginning back.
    pub fn all(&self) -> Result<(), Ended> {
        self.to(&self.beginning).map(drop)
    }

    /// Brings what was back; true if something was not so any more.
    pub fn to(&self, then: &Written) -> Result<bool, Ended> {
        then.restore(&self.inputs.borrow()).map_err(Ended::Undo)
    }
}
