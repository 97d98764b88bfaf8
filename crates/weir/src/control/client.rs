//! The other commands' side of the control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::UnixStream;

use super::refusal::{Kind, Refusal};
use crate::render::{self, Report};

/// How long a living gateway may take to accept.
const CONNECT: Duration = Duration::from_secs(5);

/// How long it may take to answer. Tables of a million routes take seconds to be listed or reloaded.
const ANSWER: Duration = Duration::from_secs(120);

/// The type of what is sent, unless it is a text of entries.
const JSON: &str = "application/json";

/// Octets of an answer, at most.
const ANSWER_LIMIT: usize = 2 << 30;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no gateway to talk to on {}: {source}", path.display())]
    NoGateway {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A process of another ordinary user listens.
    #[error("no gateway to talk to: a process of another user listens on {}", .0.display())]
    NotOurs(PathBuf),
    /// It said no.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// It did not answer in time.
    #[error("the gateway on {} did not answer within {} seconds", path.display(), after.as_secs())]
    Late {
        /// The socket.
        path: PathBuf,
        /// How long it was waited for.
        after: Duration,
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

/// Someone who asks a gateway.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// Asks the gateway on this socket.
    pub fn new(path: &Path) -> Self {
        Client { path: path.to_owned() }
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

    fn request(
        &self,
        method: Method,
        target: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<String, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.useless(error))?;
        runtime.block_on(async {
            let stream = within(CONNECT, self.connect(), &self.path).await??;
            within(ANSWER, self.exchange(stream, method, target, content_type, body), &self.path).await?
        })
    }

    async fn connect(&self) -> Result<UnixStream, ClientError> {
        let path = self.path.clone();
        let absent = |source| ClientError::NoGateway { path: path.clone(), source };
        let stream = UnixStream::connect(&self.path).await.map_err(absent)?;
        // Of the process that listens, whatever has the path by now.
        let owner = stream.peer_cred().map_err(absent)?.uid();
        let we = rustix::process::geteuid().as_raw();
        if we != 0 && owner != 0 && owner != we {
            return Err(ClientError::NotOurs(self.path.clone()));
        }
        Ok(stream)
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
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, "weir")
            .header(header::CONTENT_TYPE, content_type)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| self.useless(error))?;
        let answer = sender.send_request(request).await.map_err(|error| self.useless(error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await;
        let body = body.map_err(|error| self.useless(error))?.to_bytes();
        driver.abort();
        let text = String::from_utf8(body.into()).map_err(|error| self.useless(error))?;
        if status.is_success() { Ok(text) } else { Err(self.refused(status, &text)) }
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
}

async fn within<T>(time: Duration, future: impl Future<Output = T>, path: &Path) -> Result<T, ClientError> {
    tokio::time::timeout(time, future).await.map_err(|_| ClientError::Late { path: path.to_owned(), after: time })
}
