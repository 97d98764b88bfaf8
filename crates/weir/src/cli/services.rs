//! The services beside the graph: metrics, and sources of routes. A reload starts, stops and changes them.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::control::running::Running;
use crate::control::services::{self, Services as _, Settings};
use crate::metrics::{Endpoint, SharedDetail};
use crate::routes;

/// Sockets that are open and serve nothing yet.
#[derive(Default)]
pub(super) struct Opened {
    metrics: Option<Endpoint>,
    managers: Option<TcpListener>,
}

impl Opened {
    /// Opens the sockets of settings that differ from others.
    ///
    /// # Errors
    /// If an address cannot be used. The message names it.
    pub(super) fn of(settings: &Settings, before: &Settings) -> io::Result<Opened> {
        let listens = |settings: &Settings| settings.metrics.as_ref().map(|metrics| metrics.listen.clone());
        let fpm = |settings: &Settings| settings.routes.as_ref().and_then(|routes| routes.fpm);
        let metrics = settings.metrics.as_ref().filter(|_| listens(settings) != listens(before));
        let managers = fpm(settings).filter(|_| fpm(settings) != fpm(before));
        Ok(Opened {
            metrics: metrics.map(Endpoint::open).transpose()?,
            managers: managers.map(routes::listen).transpose()?,
        })
    }
}

/// A task that serves metrics.
struct Served {
    task: JoinHandle<()>,
    detail: SharedDetail,
}

/// The services that run.
pub(super) struct Services {
    running: Weak<Running>,
    runtime: Handle,
    settings: Settings,
    opened: Opened,
    metrics: Option<Served>,
    routes: routes::Threads,
}

impl Services {
    /// Starts what settings name. Its sockets are open.
    pub(super) fn start(running: &Arc<Running>, runtime: &Handle, settings: &Settings, opened: Opened) -> Services {
        let mut services = Services {
            running: Arc::downgrade(running),
            runtime: runtime.clone(),
            settings: Settings::default(),
            opened,
            metrics: None,
            routes: routes::Threads::default(),
        };
        services.follow(settings);
        services
    }

    fn serve(&self, gateway: Arc<Running>, endpoint: Endpoint) -> Served {
        let detail = endpoint.detail();
        let task = self.runtime.spawn(async move {
            let Err(error) = endpoint.serve(gateway).await;
            tracing::error!("metrics are not served any more: {error}");
        });
        Served { task, detail }
    }
}

impl services::Services for Services {
    fn open(&mut self, settings: &Settings) -> Result<(), String> {
        self.opened = Opened::of(settings, &self.settings).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn cancel(&mut self) {
        self.opened = Opened::default();
    }

    fn follow(&mut self, settings: &Settings) {
        let Opened { metrics, managers } = std::mem::take(&mut self.opened);
        let Some(running) = self.running.upgrade() else { return };
        match &settings.metrics {
            Some(own) if metrics.is_none() => {
                // The address is the same.
                if let Some(served) = &self.metrics {
                    served.detail.set(own.detail);
                }
            }
            _ => {
                if let Some(Served { task, .. }) = self.metrics.take() {
                    task.abort();
                    // Its socket is closed when the task has ended. A new one may have the same path next.
                    let _ = self.runtime.block_on(task);
                }
                self.metrics = metrics.map(|endpoint| self.serve(Arc::clone(&running), endpoint));
            }
        }
        if let Err(error) = self.routes.follow(&running, settings.routes.as_ref(), managers) {
            tracing::error!("cannot start a thread that follows routes: {error}");
        }
        self.settings = settings.clone();
    }
}
