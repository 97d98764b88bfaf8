//! The threads of the sources.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use weir_base::wake::{self, Waker};

use super::{fpm, kernel};
use crate::config::Routes;
use crate::control::running::Running;

/// The threads that follow sources.
pub(crate) struct Threads {
    stop: Arc<AtomicBool>,
    threads: Vec<(JoinHandle<()>, Waker)>,
}

impl Threads {
    /// Starts a thread for each source of the settings.
    ///
    /// # Errors
    /// If the system has no room for a thread.
    pub(crate) fn start(
        running: &Arc<Running>,
        settings: Option<&Routes>,
        listener: Option<TcpListener>,
    ) -> io::Result<Threads> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Threads { stop: Arc::clone(&stop), threads: Vec::new() };
        let Some(settings) = settings else { return Ok(all) };
        if settings.kernel {
            let (sleeper, waker) = wake::pair()?;
            let (running, settings, stop) = (Arc::clone(running), settings.clone(), Arc::clone(&stop));
            let follow = move || kernel::follow(running, &settings, sleeper, &stop);
            all.threads.push((thread::Builder::new().name("weir_routes".into()).spawn(follow)?, waker));
        }
        if let Some(listener) = listener {
            let (sleeper, waker) = wake::pair()?;
            let (running, settings, stop) = (Arc::clone(running), settings.clone(), Arc::clone(&stop));
            let serve = move || fpm::serve(running, &settings, &listener, sleeper, &stop);
            all.threads.push((thread::Builder::new().name("weir_fpm".into()).spawn(serve)?, waker));
        }
        Ok(all)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (thread, waker) in self.threads.drain(..) {
            waker.wake();
            // If it panicked it has said why on stderr.
            let _ = thread.join();
        }
    }
}
