//! The other commands' side of the control socket.

use std::error::Error as _;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::capture::NUMBER;
use super::refusal::{Kind, Refusal};
use crate::render::number::plural;
use crate::render::{self, Report};

/// How long a running gateway may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// How long it may take to answer a request that changes nothing. A table of a million routes takes seconds to be listed.
const SHOW: Duration = Duration::from_secs(30);

/// How long it may take to answer a request that changes something. Large tables and lists take minutes to be compiled, and
/// operations wait for each other.
const CHANGE: Duration = Duration::from_secs(600);

/// After so long a line on standard error says what the command waits for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The type of what is sent, unless it is a text of entries.
const JSON: &str = "application/json";

/// Octets of an answer, at most.
const ANSWER_LIMIT: usize = 2 << 30;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no gateway to talk to on {}: {source}; {}", path.display(), absent(source, option))]
    NoGateway {
        /// The socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
        /// The option that names the socket.
        option: &'static str,
    },
    /// A process of another ordinary user listens.
    #[error("no gateway to talk to: a process of another user listens on {}", .0.display())]
    NotOurs(PathBuf),
    /// It said no.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// It did not answer in time.
    #[error(
        "the gateway on {} did not answer within {}{}: {}; `--timeout SECONDS` waits longer",
        path.display(), plural(after.as_secs(), "second"),
        if *changes { ", and may still carry out the request" } else { "" },
        running(*process)
    )]
    Late {
        /// The socket.
        path: PathBuf,
        /// The process that listens there, if the system names it.
        process: Option<u32>,
        /// How long the client waited.
        after: Duration,
        /// The request changes something.
        changes: bool,
    },
    /// It ended the connection before the answer was whole.
    #[error(
        "the gateway on {} ended its answer early{}; see whether it still runs (`weir show version`), and read its log",
        path.display(),
        if *changes { ", and may have carried out the request" } else { "" }
    )]
    Ended {
        /// The socket.
        path: PathBuf,
        /// The request changes something.
        changes: bool,
    },
    /// The answer makes no sense.
    #[error("the gateway on {} gave an answer that cannot be used: {reason}", path.display())]
    Answer {
        /// The socket.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Returns advice for a socket that nobody listens on.
fn absent(error: &io::Error, option: &str) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => "run the command as the gateway's user or as root".to_owned(),
        _ => format!("start a gateway with `weir run`, or name its socket with `{option}`"),
    }
}

/// Returns advice for a gateway that does not answer.
fn running(process: Option<u32>) -> String {
    match process {
        Some(process) => format!("see whether process {process} is stopped or busy (`ps -o stat,time {process}`)"),
        None => "see whether its process is stopped or busy".to_owned(),
    }
}

/// A client of the gateway on a control socket.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
    timeout: Option<Duration>,
    /// The option that names the socket.
    option: &'static str,
}

/// An answer that comes bit by bit.
struct Begun {
    answer: Response<Incoming>,
    /// The task of the connection.
    driver: JoinHandle<hyper::Result<()>>,
    /// The connection ends without it.
    _sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Creates a client of the gateway on this socket.
    pub fn new(path: &Path) -> Self {
        Client { path: path.to_owned(), timeout: None, option: "--socket" }
    }

    /// Sets how long the gateway may take to answer; `None`: 30 seconds for a request that changes nothing, else 600.
    #[must_use]
    pub fn with_timeout(self, timeout: Option<Duration>) -> Self {
        Client { timeout, ..self }
    }

    /// Sets the option that names the socket, for advice.
    #[must_use]
    pub fn named_by(self, option: &'static str) -> Self {
        Client { option, ..self }
    }

    /// Gets a report as it stands in JSON, its schema checked.
    ///
    /// # Errors
    /// When there is no gateway, no answer, or a refusal.
    pub fn show<R: Report>(&self, target: &str) -> Result<(R, String), ClientError> {
        let json = self.request(Method::GET, target, JSON, String::new())?;
        let report = self.read(&json)?;
        Ok((report, json))
    }

    /// Sends an order; returns what is answered, which may be nothing.
    ///
    /// # Errors
    /// When there is no gateway, no answer, or a refusal.
    pub fn post(&self, target: &str, order: &impl Serialize) -> Result<String, ClientError> {
        let body = serde_json::to_string(order).map_err(|error| self.useless(error))?;
        self.request(Method::POST, target, JSON, body)
    }

    /// Puts a value in the place of what was there; returns what is answered.
    ///
    /// # Errors
    /// When there is no gateway, no answer, or a refusal.
    pub fn put_json(&self, target: &str, order: &impl Serialize) -> Result<String, ClientError> {
        let body = serde_json::to_string(order).map_err(|error| self.useless(error))?;
        self.request(Method::PUT, target, JSON, body)
    }

    /// Puts a text of this type in the place of what was there; returns what is answered.
    ///
    /// # Errors
    /// When there is no gateway, no answer, or a refusal.
    pub fn put(&self, target: &str, content_type: &'static str, text: String) -> Result<String, ClientError> {
        self.request(Method::PUT, target, content_type, text)
    }

    /// Has something gone; returns what is answered, which may be nothing.
    ///
    /// # Errors
    /// When there is no gateway, no answer, or a refusal.
    pub fn delete(&self, target: &str) -> Result<String, ClientError> {
        self.request(Method::DELETE, target, JSON, String::new())
    }

    /// Reads a report that was answered.
    ///
    /// # Errors
    /// When it is another.
    pub fn read<R: Report>(&self, json: &str) -> Result<R, ClientError> {
        render::read(json).map_err(|error| self.useless(error))
    }

    fn useless(&self, reason: impl ToString) -> ClientError {
        ClientError::Answer { path: self.path.clone(), reason: reason.to_string() }
    }

    /// Why there is no whole answer to a request.
    fn broken(&self, error: hyper::Error, changes: bool) -> ClientError {
        let of_system = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
        let has_ended = matches!(
            of_system,
            Some(
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected
            )
        );
        if has_ended || error.is_canceled() || error.is_closed() || error.is_incomplete_message() {
            return ClientError::Ended { path: self.path.clone(), changes };
        }
        self.useless(error)
    }

    fn request(
        &self,
        method: Method,
        target: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<String, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.useless(error))?;
        let changes = method != Method::GET;
        let after = self.timeout.unwrap_or(if changes { CHANGE } else { SHOW });
        let late = |process, after| ClientError::Late { path: self.path.clone(), process, after, changes };
        runtime.block_on(async {
            let connecting = CONNECT.min(after);
            let connected = timeout(connecting, self.connect()).await;
            let (stream, process) = connected.map_err(|_| late(None, connecting))??;
            let exchange = pin!(self.exchange(stream, method, target, content_type, body));
            let exchange = self.noted(exchange, after);
            timeout(after, exchange).await.map_err(|_| late(process, after))?
        })
    }

    /// Waits for an answer, and says so on standard error when that takes long.
    async fn noted<T>(&self, mut answer: Pin<&mut impl Future<Output = T>>, limit: Duration) -> T {
        if let Ok(answer) = timeout(PATIENCE, answer.as_mut()).await {
            return answer;
        }
        // The answer counts, even if nobody reads this.
        let _ = writeln!(
            io::stderr(),
            "waiting for the gateway on {}, at most {} (`--timeout`)",
            self.path.display(),
            plural(limit.as_secs(), "second")
        );
        answer.await
    }

    /// Connects; returns the connection and the process that listens.
    async fn connect(&self) -> Result<(UnixStream, Option<u32>), ClientError> {
        let path = self.path.clone();
        let absent = |source| ClientError::NoGateway { path: path.clone(), source, option: self.option };
        let stream = UnixStream::connect(&self.path).await.map_err(absent)?;
        // Of the process that listens, whatever has the path by now.
        let peer = stream.peer_cred().map_err(absent)?;
        let owner = peer.uid();
        let we = rustix::process::geteuid().as_raw();
        if we != 0 && owner != 0 && owner != we {
            return Err(ClientError::NotOurs(self.path.clone()));
        }
        Ok((stream, peer.pid().and_then(|process| u32::try_from(process).ok())))
    }

    async fn exchange(
        &self,
        stream: UnixStream,
        method: Method,
        target: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<String, ClientError> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.useless(error))?;
        // Its failure is seen by the request, too.
        let driver = tokio::spawn(connection);
        let changes = method != Method::GET;
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, "weir")
            .header(header::CONTENT_TYPE, content_type)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| self.useless(error))?;
        let answer = sender.send_request(request).await.map_err(|error| self.broken(error, changes))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await;
        let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => self.broken(*error, changes),
            Err(error) => self.useless(error),
        })?;
        let body = body.to_bytes();
        driver.abort();
        let text = String::from_utf8(body.into()).map_err(|error| self.useless(error))?;
        if status.is_success() { Ok(text) } else { Err(self.refused(status, &text)) }
    }

    /// Gets lines as they come, until the gateway ends them or `each` fails.
    ///
    /// # Errors
    /// When there is no gateway, or it refuses; and those of `each`.
    pub fn follow<E: From<ClientError>>(
        &self,
        target: &str,
        mut each: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.useless(error))?;
        runtime.block_on(async {
            let Begun { answer, driver, _sender } = self.begin(target).await?;
            let status = answer.status();
            let mut body = answer.into_body();
            let mut text = Vec::new();
            while let Some(frame) = body.frame().await {
                // A gateway that ends in the middle of a line has ended.
                let Ok(frame) = frame else { break };
                text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                while let Some(end) = text.iter().position(|&octet| octet == b'\n').filter(|_| status.is_success()) {
                    let line: Vec<u8> = text.drain(..=end).collect();
                    each(String::from_utf8_lossy(&line).trim_end())?;
                }
            }
            driver.abort();
            if status.is_success() {
                return Ok(());
            }
            Err(self.refused(status, &String::from_utf8_lossy(&text)).into())
        })
    }

    /// Gets a capture as it comes, until the gateway ends it, Ctrl-C is pressed, or `each` fails; returns its number.
    ///
    /// # Errors
    /// When there is no gateway, or it refuses; and those of `each`.
    pub fn stream<E: From<ClientError>>(
        &self,
        target: &str,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.useless(error))?;
        runtime.block_on(async {
            let Begun { answer, driver, _sender } = self.begin(target).await?;
            let status = answer.status();
            if !status.is_success() {
                let body = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await;
                let body = body.map_err(|error| self.useless(error))?.to_bytes();
                return Err(self.refused(status, &String::from_utf8_lossy(&body)).into());
            }
            let number = answer.headers().get(NUMBER).and_then(|own| own.to_str().ok()?.parse().ok());
            let number = number.ok_or_else(|| self.useless("a capture without a number"))?;
            let mut body = answer.into_body();
            let mut interrupted = pin!(tokio::signal::ctrl_c());
            loop {
                let frame = tokio::select! {
                    frame = body.frame() => frame,
                    _ = &mut interrupted => None,
                };
                // A gateway that ends has ended the capture, too.
                let Some(Ok(frame)) = frame else { break };
                if let Some(data) = frame.data_ref() {
                    each(data)?;
                }
            }
            driver.abort();
            Ok(number)
        })
    }

    /// Sends a request whose answer comes bit by bit.
    async fn begin(&self, target: &str) -> Result<Begun, ClientError> {
        let late = |_| ClientError::Late { path: self.path.clone(), process: None, after: CONNECT, changes: false };
        let (stream, _) = timeout(CONNECT, self.connect()).await.map_err(late)??;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.useless(error))?;
        let driver = tokio::spawn(connection);
        let request = Request::builder().uri(target).header(header::HOST, "weir").body(Full::new(Bytes::new()));
        let request = request.map_err(|error| self.useless(error))?;
        let answer = sender.send_request(request).await.map_err(|error| self.broken(error, false))?;
        Ok(Begun { answer, driver, _sender: sender })
    }

    fn refused(&self, status: StatusCode, text: &str) -> ClientError {
        match render::read::<Refusal>(text) {
            Ok(refusal) => ClientError::Refused(Box::new(refusal)),
            Err(_) => self.useless(format!("status {status} without an explanation")),
        }
    }
}

impl ClientError {
    /// The refusal of an invalid configuration, if that is what it is.
    pub fn invalid_configuration(&self) -> Option<&Refusal> {
        match self {
            ClientError::Refused(refusal) if refusal.kind == Kind::InvalidConfiguration => Some(refusal),
            _ => None,
        }
    }

    /// The refusal of a configuration to which live edits do not apply, if that is what it is.
    pub fn edits_lost(&self) -> Option<&Refusal> {
        match self {
            ClientError::Refused(refusal) if refusal.kind == Kind::EditsLost => Some(refusal),
            _ => None,
        }
    }
}
