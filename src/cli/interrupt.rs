//! Ctrl-C and SIGTERM as a flag that loops look at.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: OnceLock<()> = OnceLock::new();

/// Exit status of a process ended by the second Ctrl-C: 128 + SIGINT, as shells report it.
const EXIT_INTERRUPTED: i32 = 130;

/// Whether the user asked to stop. The first call installs the handlers; a second Ctrl-C ends the process at once.
pub(crate) fn requested() -> bool {
    INSTALLED.get_or_init(|| {
        // Without the thread the signals keep their default action, which also ends the process: nothing to report.
        let _ = std::thread::Builder::new().name("signals".into()).spawn(watch);
    });
    REQUESTED.load(Ordering::Relaxed)
}

fn watch() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
        let Ok(mut interrupt) = signal(SignalKind::interrupt()) else { return };
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if REQUESTED.swap(true, Ordering::Relaxed) {
                std::process::exit(EXIT_INTERRUPTED);
            }
        }
    });
}
