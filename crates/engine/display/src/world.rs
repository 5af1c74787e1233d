//! What all clients of one display share.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use x11rb_protocol::protocol::xproto::Setup;

use crate::error::Error;
use crate::ids::Ids;
use crate::picture::Picture;
use crate::server::Server;
use crate::stage::Stage;

/// A display on which recorded clients are shown.
pub struct World {
    display: Option<String>,
    title: String,
    state: Mutex<State>,
}

/// What the clients know of each other.
#[derive(Default)]
pub(crate) struct State {
    stage: Option<Stage>,
    pub ids: Ids,
    /// Names of the recorded server's atoms, as far as programs asked.
    pub atoms: HashMap<u32, Vec<u8>>,
    /// What could not be sent on, and how often.
    unsent: BTreeMap<String, u64>,
    /// Requests that the display refused, by the recorded resource base of their client and their numbers there. What
    /// the recorded server refused as well is taken out again.
    pub refused: HashMap<(u32, u16), String>,
}

impl State {
    /// See [`Stage::context`].
    pub fn context(&mut self, depth: u8) -> Result<Option<u32>, Error> {
        self.stage.as_mut().map(|stage| stage.context(depth)).transpose()
    }

    pub fn note_unsent(&mut self, what: String) {
        *self.unsent.entry(what).or_default() += 1;
    }
}

impl World {
    /// For a display of this name, or the environment's. Nothing is connected to before a client is there.
    pub fn new(display: Option<String>, title: String) -> Arc<World> {
        Arc::new(World { display, title, state: Mutex::default() })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client begins, whose server answered so.
    pub(crate) fn join(&self, recorded: &Setup) -> Result<Server, Error> {
        let mut state = self.state();
        if state.stage.is_none() {
            let mut ids = Ids::default();
            let stage = Stage::new(self.display.as_deref(), &self.title, recorded, &mut ids)?;
            state.ids = ids;
            state.stage = Some(stage);
        }
        let server = Server::connect(self.display.as_deref())?;
        state.ids.add_client(recorded, &server.setup);
        Ok(server)
    }

    /// A client is gone, whose resources have numbers from this one on. When this returns, so is what it made on the
    /// display.
    pub fn leave(&self, base: u32) {
        if let Some(stage) = &mut self.state().stage {
            // A display that is gone shows nothing of it.
            let _ = stage.end_client(base);
        }
    }

    /// What is on the screen now; `None`: no client has begun.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn picture(&self) -> Result<Option<Picture>, Error> {
        self.state().stage.as_mut().map(Stage::picture).transpose()
    }

    /// What could not be sent on, and how often.
    pub fn unsent(&self) -> Vec<(String, u64)> {
        let state = self.state();
        let mut all = state.unsent.clone();
        for what in state.refused.values() {
            *all.entry(what.clone()).or_default() += 1;
        }
        all.into_iter().collect()
    }
}
