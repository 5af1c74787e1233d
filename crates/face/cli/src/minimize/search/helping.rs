//! What a helper does: the same as the search, as far as it is told.
//!
//! Deliberately absent: any decision. Whose own run fails in another way than the search's is not asked.

use std::convert::Infallible;
use std::io;
use std::os::unix::net::UnixStream;

use injector::Readiness;

use super::{Search, Stream};
use crate::failure::CrashReader;
use crate::minimize::orders::{Answer, Order};
use crate::minimize::tries::{Ended, Tries, Wanted, observe_whole};

impl Search<'_> {
    /// Helps another search, until that is over.
    pub fn help(&mut self, socket: &mut UnixStream) -> io::Result<Infallible> {
        let mut order = Order::receive(socket)?;
        loop {
            order = match order {
                Order::Answers(number) => {
                    let all = self.recorded.answers();
                    self.recorded.program.answers =
                        all.into_iter().nth(number).ok_or(io::ErrorKind::InvalidData)?;
                    Order::receive(socket)?
                }
                Order::Keep { stream, content } => {
                    let stream = self.streams.get(stream).cloned().ok_or(io::ErrorKind::InvalidData)?;
                    self.keep(&stream, &content).map_err(io::Error::other)?;
                    Order::receive(socket)?
                }
                Order::Begin { stream, readiness, content } => {
                    let stream = self.streams.get(stream).cloned().ok_or(io::ErrorKind::InvalidData)?;
                    match self.tries_of(&stream, readiness, &content) {
                        Ok(Some(tries)) => help_with(tries, socket)?,
                        Ok(None) | Err(_) => {
                            Answer::NotReady.send(socket)?;
                            Order::receive(socket)?
                        }
                    }
                }
                Order::Try(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Tries of a helper: they begin with a content that fails.
    fn tries_of(
        &self,
        stream: &Stream,
        readiness: Option<Readiness>,
        content: &[u8],
    ) -> Result<Option<Tries<'_>>, Ended> {
        let wanted = match &self.arguments.until {
            Some(test) => Wanted::Test(test.clone()),
            None => {
                let program = Search::changed(&self.recorded.program, stream, content)?;
                let mut crashes = CrashReader::default();
                Wanted::Same(observe_whole(&program, &self.limits, &mut crashes, &self.undo)?.0)
            }
        };
        let Some(runner) = self.runner(stream, readiness, &wanted)? else { return Ok(None) };
        let mut tries = self.tries(runner, wanted);
        Ok(tries.begin_with(content)?.then_some(tries))
    }
}

/// Answers until there is something else to do, which it gives.
fn help_with(mut tries: Tries<'_>, socket: &mut UnixStream) -> io::Result<Order> {
    Answer::Ready(tries.wanted.text()).send(socket)?;
    loop {
        match Order::receive(socket)? {
            Order::Try(content) => match tries.verdict(&content) {
                Ok(verdict) => Answer::Tried(verdict).send(socket)?,
                Err(_) => Answer::NotReady.send(socket)?,
            },
            order @ (Order::Answers(_) | Order::Keep { .. } | Order::Begin { .. }) => return Ok(order),
        }
    }
}
