//! `sd_notify`: tells a service manager when the broker is ready and when it stops (systemd's datagram protocol).

use std::os::unix::net::UnixDatagram;

/// Sends a state such as `READY=1`; does nothing when no manager asked for it.
pub(super) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = || -> std::io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        match path.to_str().and_then(|path| path.strip_prefix('@')) {
            Some(name) => {
                use std::os::linux::net::SocketAddrExt as _;
                let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
                socket.send_to_addr(state.as_bytes(), &address)?;
            }
            None => {
                socket.send_to(state.as_bytes(), &path)?;
            }
        }
        Ok(())
    };
    if let Err(error) = sent() {
        tracing::warn!(%error, "the service manager cannot be told {state:?}");
    }
}
