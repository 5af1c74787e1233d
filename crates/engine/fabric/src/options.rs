//! What a program sets of a socket.

use std::net::IpAddr;

use crate::sockets::SocketId;
use crate::{Error, Fabric};

impl Fabric {
    /// TCP_NODELAY: what waits because it is small does not any more.
    pub fn set_no_delay(&mut self, id: SocketId, is_set: bool) {
        let now_ns = self.now_ns;
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.no_delay = is_set;
        }
        if is_set {
            self.with_stream(id, |end| end.sendable(now_ns));
        }
    }

    /// TCP_CORK: what was held for more goes when it is not set any more.
    pub fn set_cork(&mut self, id: SocketId, is_set: bool) {
        let now_ns = self.now_ns;
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.corked = is_set;
        }
        self.with_stream(id, |end| end.sendable(now_ns));
    }

    /// SO_BROADCAST.
    pub fn set_broadcasts(&mut self, id: SocketId, broadcasts: bool) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.broadcasts = broadcasts;
        }
    }

    /// IP_RECVERR.
    pub fn set_hears_errors(&mut self, id: SocketId, hears: bool) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.hears_errors = hears;
        }
    }

    /// IP_MULTICAST_LOOP.
    pub fn set_hears_itself(&mut self, id: SocketId, hears: bool) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.hears_itself = hears;
        }
    }

    /// The socket gets what is sent to a group.
    ///
    /// # Errors
    /// The address is no group's, or the socket is in it.
    pub fn join(&mut self, id: SocketId, group: IpAddr) -> Result<(), Error> {
        let socket = self.get(id)?;
        match (group.is_multicast(), socket.groups.insert(group)) {
            (false, _) => Err(Error::Invalid),
            (true, false) => Err(Error::InUse),
            (true, true) => Ok(()),
        }
    }

    /// It does not any more.
    ///
    /// # Errors
    /// It did not before.
    pub fn leave(&mut self, id: SocketId, group: IpAddr) -> Result<(), Error> {
        let was_in = self.get(id)?.groups.remove(&group);
        if was_in { Ok(()) } else { Err(Error::NotOurs) }
    }

    /// IPV6_V6ONLY.
    pub fn set_v6_only(&mut self, id: SocketId, only: bool) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.v6_only = only;
        }
    }
}
