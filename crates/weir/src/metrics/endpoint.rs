//! The socket at which metrics are served.

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use super::scrape::scrape;
use crate::config::{Detail, Listen, Metrics};
use crate::control::Gateway;

/// The media type of OpenMetrics 1.0.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Connections at a time. Further clients wait in the socket's backlog.
pub(super) const CONNECTIONS: usize = 8;

/// The time for a connection, from its beginning to the last octet of the answer.
pub(super) const PATIENCE: Duration = if cfg!(test) { Duration::from_secs(2) } else { Duration::from_secs(10) };

/// The pause after the system refused a connection, for lack of descriptors for example.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Endpoint {
    socket: Socket,
    detail: SharedDetail,
}

/// The detail of metrics, which may change while the endpoint serves.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedDetail(Arc<Mutex<Detail>>);

impl SharedDetail {
    /// Changes it for all further scrapes.
    pub(crate) fn set(&self, detail: Detail) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = detail;
    }

    fn get(&self) -> Detail {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, Removed),
}

/// The path of a Unix socket, which is removed when the gateway ends.
#[derive(Debug)]
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // A user without write access to the folder leaves the socket there: the next start replaces it.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Endpoint {
    /// Listens at the address of the settings. A socket that nobody listens at any more is replaced.
    ///
    /// # Errors
    /// If the system refuses the address, or something else has it. The message names the address.
    pub(crate) fn open(settings: &Metrics) -> io::Result<Endpoint> {
        let place = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot serve metrics at {}: {error}", settings.listen))
        };
        let socket = match &settings.listen {
            Listen::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address).map_err(place)?;
                listener.set_nonblocking(true).map_err(place)?;
                Socket::Tcp(listener)
            }
            Listen::Unix(path) => {
                let listener = unix(path).map_err(place)?;
                listener.set_nonblocking(true).map_err(place)?;
                Socket::Unix(listener, Removed(path.clone()))
            }
        };
        let detail = SharedDetail::default();
        detail.set(settings.detail);
        Ok(Endpoint { socket, detail })
    }

    /// Returns the detail, to be changed while the endpoint serves.
    pub(crate) fn detail(&self) -> SharedDetail {
        self.detail.clone()
    }

    /// The address of TCP.
    ///
    /// # Errors
    /// If the system does not say.
    #[cfg(test)]
    pub(super) fn address(&self) -> io::Result<std::net::SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr(),
            Socket::Unix(..) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Answers scrapes until it is dropped.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub(crate) async fn serve(self, gateway: Arc<dyn Gateway>) -> io::Result<Infallible> {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let Endpoint { socket, detail } = self;
        let listener = socket.listener()?;
        loop {
            let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
            match listener.accept().await {
                Ok(stream) => {
                    let (gateway, detail) = (Arc::clone(&gateway), detail.get());
                    tokio::spawn(async move {
                        connection(stream, gateway, detail).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!("metrics: no connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Socket {
    /// The socket in tokio's hands.
    fn listener(self) -> io::Result<Listener> {
        Ok(match self {
            Socket::Tcp(listener) => Listener::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Socket::Unix(listener, removed) => Listener::Unix(tokio::net::UnixListener::from_std(listener)?, removed),
        })
    }
}

/// A socket in tokio's hands.
enum Listener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener, #[expect(dead_code, reason = "its drop removes the path")] Removed),
}

impl Listener {
    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Listener::Tcp(listener) => Box::new(listener.accept().await?.0),
            Listener::Unix(listener, _) => Box::new(listener.accept().await?.0),
        })
    }
}

/// A connection.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Listens at a path. Replaces a socket at which nothing listens.
fn unix(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket {
        match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens there")),
            Err(error) => return Err(error),
        }
    }
    std::os::unix::net::UnixListener::bind(path)
}

/// Answers one request. A slow client loses its connection.
async fn connection(stream: Box<dyn Stream>, gateway: Arc<dyn Gateway>, detail: Detail) {
    let service = service_fn(move |request: Request<Incoming>| {
        let gateway = Arc::clone(&gateway);
        async move { Ok::<_, Infallible>(answer(&request, gateway, detail).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).keep_alive(false);
    match tokio::time::timeout(PATIENCE, builder.serve_connection(TokioIo::new(stream), service)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("metrics: a connection failed: {error}"),
        Err(_) => tracing::warn!("metrics: a client took more than {} s", PATIENCE.as_secs()),
    }
}

async fn answer(request: &Request<Incoming>, gateway: Arc<dyn Gateway>, detail: Detail) -> Response<Full<Bytes>> {
    let text = |status, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return text(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "metrics are read by GET\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    // A thread of its own: a reading of many rules takes its time.
    match tokio::task::spawn_blocking(move || scrape(&*gateway, detail)).await {
        Ok(document) => {
            let mut response = Response::new(Full::new(Bytes::from(document)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS));
            response
        }
        Err(error) => {
            tracing::error!(%error, "a reading of metrics failed");
            text(StatusCode::INTERNAL_SERVER_ERROR, "the gateway failed to answer; its log says more\n")
        }
    }
}
