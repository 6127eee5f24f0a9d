//! HTTP/2, or HTTP/1.1, over TLS over TCP or the kernel's MPTCP: for servers or networks without QUIC, and to
//! compare with.

mod connect;
mod kernel;

pub use connect::ConnectError;
pub use connect::Connector;
pub use connect::Http2;
pub use connect::Sender;
pub use kernel::Kernel;
pub use kernel::Socket;
