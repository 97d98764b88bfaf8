//! `GET /v1/capture`: packets as they come in and leave, as a pcapng file that is written while they do.

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderValue, Response, header};

use super::super::capture::{CaptureRequest, NUMBER, Registry, Stream};
use super::answer::{Answer, Shared, apart, document, queried};

pub(super) async fn capture(
    State(gateway): State<Shared>,
    Extension(registry): Extension<Registry>,
    query: Result<Query<CaptureRequest>, QueryRejection>,
) -> Answer {
    let request = queried(query)?;
    let order = request.clone();
    let reader = apart(gateway, move |g| g.capture(&order)).await??;
    let stream = Stream::new(reader, registry, &request);
    let number = stream.number();
    tracing::info!("capture {number} began: {}", request.filter.as_deref().unwrap_or("any packets"));
    let mut response = Response::new(Body::new(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-pcapng"));
    headers.insert(NUMBER, number.into());
    Ok(response)
}

pub(super) async fn show(Extension(registry): Extension<Registry>) -> Answer {
    Ok(document(200, &registry.captures()))
}
