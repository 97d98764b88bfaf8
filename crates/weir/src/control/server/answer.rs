//! Reads requests, calls the gateway, and writes responses.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::{Response, StatusCode, header};
use serde::de::DeserializeOwned;

use super::super::Gateway;
use super::super::refusal::{Kind, Refusal};
use crate::encoding;
use crate::render::{self, Report};

/// Octets of a request's body, at most.
pub(super) const BODY_LIMIT: usize = 64 << 10;

/// A gateway, shared by the requests to it.
pub(super) type Shared = Arc<dyn Gateway>;

/// Every answer that is not empty is one line of JSON.
pub(super) type Answer = Result<Response<Body>, Refused>;

/// A refusal on its way out.
pub(super) struct Refused(pub(super) Box<Refusal>);

impl Refused {
    pub(super) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Refusal::new(kind, message).into()
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Refused(Box::new(refusal))
    }
}

impl From<Box<Refusal>> for Refused {
    fn from(refusal: Box<Refusal>) -> Self {
        Refused(refusal)
    }
}

impl axum::response::IntoResponse for Refused {
    fn into_response(self) -> Response<Body> {
        document(self.0.kind.status(), &*self.0)
    }
}

/// Takes a report and answers with it.
pub(super) async fn show<R: Report>(
    State(gateway): State<Shared>,
    report: impl FnOnce(&dyn Gateway) -> R + Send + 'static,
) -> Answer {
    apart(gateway, move |g| document(200, &report(g))).await
}

/// Calls the gateway on another thread, so that a long call delays neither signals nor other clients.
pub(super) async fn apart<T: Send + 'static>(
    gateway: Shared,
    call: impl FnOnce(&dyn Gateway) -> T + Send + 'static,
) -> Result<T, Refused> {
    tokio::task::spawn_blocking(move || call(&*gateway)).await.map_err(|error| {
        tracing::error!(%error, "a request to the gateway failed");
        Refused::new(Kind::Failed, "the gateway failed to answer; its log says more")
    })
}

pub(super) fn document<R: Report>(status: u16, report: &R) -> Response<Body> {
    let mut response = Response::new(Body::from(render::json(report) + "\n"));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

pub(super) fn empty() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(super) fn queried<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Refused> {
    let bad = |rejection: QueryRejection| Refused::new(Kind::BadRequest, rejection.body_text());
    query.map(|Query(query)| query).map_err(bad)
}

pub(super) fn received(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Refused> {
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Refused::new(Kind::TooLarge, format!("a request has at most {BODY_LIMIT} octets"))
        }
        _ => Refused::new(Kind::BadRequest, rejection.body_text()),
    })
}

/// The text of a body. A text that begins as one of another encoding is refused, too, though it may be UTF-8.
pub(super) fn text(body: &[u8]) -> Result<&str, Refused> {
    encoding::decode(body).map_err(|wrong| Refused::new(Kind::BadRequest, wrong.to_string()))
}

pub(super) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| Refused::new(Kind::BadRequest, error.to_string()))
}
