//! The threads of the sources.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use weir_base::wake::{self, Waker};
use weir_plane::rib::By;

use super::desk::Desk;
use super::orders::{Next, Orders};
use super::{fpm, kernel};
use crate::config::Routes;
use crate::control::running::Running;

/// The thread of a source.
struct Thread {
    handle: JoinHandle<()>,
    waker: Waker,
    orders: Arc<Orders>,
}

impl Thread {
    fn desk(&self) -> Desk {
        Desk { orders: Arc::clone(&self.orders), waker: self.waker.clone() }
    }

    fn end(self, withdraw: bool) {
        self.orders.end(withdraw);
        self.waker.wake();
        // If it panicked it has said why on stderr.
        let _ = self.handle.join();
    }
}

/// The threads that follow sources.
#[derive(Default)]
pub(crate) struct Threads {
    kernel: Option<Thread>,
    managers: Option<Thread>,
}

impl Threads {
    /// Follows other settings: starts a thread for each new source, and ends those of sources that go, with their routes.
    /// Threads that stay take the settings over. `listener` is the socket of a new address.
    ///
    /// # Errors
    /// If the system has no room for a thread.
    pub(crate) fn follow(
        &mut self,
        running: &Arc<Running>,
        settings: Option<&Routes>,
        listener: Option<TcpListener>,
    ) -> io::Result<()> {
        match settings.filter(|settings| settings.kernel) {
            None => end(running, By::Kernel, self.kernel.take()),
            Some(settings) => match &self.kernel {
                Some(thread) => tell(thread, settings, None),
                None => {
                    let (own, settings) = (Arc::clone(running), settings.clone());
                    let thread = start("weir_routes", move |sleeper, orders| {
                        kernel::follow(own, &settings, sleeper, orders);
                    })?;
                    running.sources().connect(By::Kernel, Some(thread.desk()));
                    self.kernel = Some(thread);
                }
            },
        }
        match settings.filter(|settings| settings.fpm.is_some()) {
            None => end(running, By::Fpm, self.managers.take()),
            Some(settings) => match (&self.managers, listener) {
                (Some(thread), listener) => tell(thread, settings, listener),
                (None, Some(listener)) => {
                    let (own, settings) = (Arc::clone(running), settings.clone());
                    let thread = start("weir_fpm", move |sleeper, orders| {
                        fpm::serve(own, settings, listener, sleeper, orders);
                    })?;
                    running.sources().connect(By::Fpm, Some(thread.desk()));
                    self.managers = Some(thread);
                }
                (None, None) => {}
            },
        }
        Ok(())
    }
}

fn start(name: &str, run: impl FnOnce(wake::Sleeper, &Orders) + Send + 'static) -> io::Result<Thread> {
    let (sleeper, waker) = wake::pair()?;
    let orders = Arc::new(Orders::default());
    let own = Arc::clone(&orders);
    let handle = thread::Builder::new().name(name.to_owned()).spawn(move || run(sleeper, &own))?;
    Ok(Thread { handle, waker, orders })
}

fn tell(thread: &Thread, settings: &Routes, listener: Option<TcpListener>) {
    thread.orders.give(Next { settings: settings.clone(), listener });
    thread.waker.wake();
}

fn end(running: &Running, by: By, thread: Option<Thread>) {
    if let Some(thread) = thread {
        running.sources().connect(by, None);
        thread.end(true);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // The process ends: routes stay in force as long as packets are forwarded.
        self.kernel.take().into_iter().chain(self.managers.take()).for_each(|thread| thread.end(false));
    }
}
