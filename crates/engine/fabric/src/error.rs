//! Why something cannot be done.

use serde::{Deserialize, Serialize};

/// The names are those of errno(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Error {
    /// EADDRINUSE
    InUse,
    /// EADDRNOTAVAIL
    NotOurs,
    /// ECONNREFUSED
    Refused,
    /// ECONNRESET
    Reset,
    /// ETIMEDOUT
    TimedOut,
    /// ENETUNREACH
    Unreachable,
    /// ENOTCONN
    NotConnected,
    /// EISCONN
    IsConnected,
    /// EINPROGRESS
    InProgress,
    /// EALREADY
    Already,
    /// EPIPE
    Ended,
    /// EAGAIN
    Nothing,
    /// EINVAL
    Invalid,
    /// EDESTADDRREQ
    NoAddress,
    /// EMSGSIZE
    TooLong,
    /// EOPNOTSUPP
    NotForThis,
    /// EACCES: a datagram for all, of a socket without SO_BROADCAST.
    NoBroadcast,
}
