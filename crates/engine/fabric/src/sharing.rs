//! Which sockets of a host may have the same address.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::Fabric;
use crate::sockets::{Kind, Socket, SocketId};

/// With whom a socket shares its address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// SO_REUSEADDR: with those that do so too, and of streams none listens.
    pub address: bool,
    /// SO_REUSEPORT: with those that do so too.
    pub port: bool,
    /// The lab's own: with whoever has any address.
    pub yields: bool,
}

impl Fabric {
    /// SO_REUSEADDR, SO_REUSEPORT: with whom the socket shares its address.
    pub fn share_address(&mut self, id: SocketId, change: impl FnOnce(&mut Sharing)) {
        if let Some(socket) = self.sockets.get_mut(&id) {
            change(&mut socket.sharing);
        }
    }

    /// Whether a socket cannot have an address beside those of others (bind(2), socket(7)).
    pub(crate) fn clashes(&self, id: SocketId, address: SocketAddr) -> bool {
        let Some(own) = self.sockets.get(&id) else { return false };
        let is_datagram = |socket: &Socket| matches!(socket.kind, Kind::Datagram { .. });
        let takes_v4 = |ip: IpAddr, v6_only: bool| ip.is_ipv4() || ip.is_unspecified() && !v6_only;
        let clashes = |other: &Socket| {
            let Some(local) = other.local else { return false };
            let same_port = other.host == own.host && local.port() == address.port();
            let is_any = local.ip().is_unspecified() || address.ip().is_unspecified();
            let both_take = local.ip().is_ipv4() == address.ip().is_ipv4()
                || takes_v4(local.ip(), other.v6_only) && takes_v4(address.ip(), own.v6_only);
            let same_ip = local.ip() == address.ip() || is_any && both_take && !other.sharing.yields;
            let listens = matches!(other.kind, Kind::Listener { .. });
            let shared =
                own.sharing.address && (other.sharing.address || other.stream().is_some()) && !listens
                    || own.sharing.port && (other.sharing.port || other.stream().is_some());
            same_port && is_datagram(other) == is_datagram(own) && same_ip && !shared
        };
        self.sockets.iter().any(|(&other, socket)| other != id && clashes(socket))
    }
}
