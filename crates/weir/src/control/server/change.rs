//! The parts that changes by the control socket share: the source of a change, its body, and the report of it.

use axum::extract::Request;
use serde::Deserialize;

use super::super::acl::{BatchRequest, Change};
use super::super::refusal::{Kind, Refusal};
use super::super::{Gateway, source};
use super::answer::{Answer, Refused, Shared, apart, document, parsed, text};
use super::body::Room;
use crate::render::Report;

/// The query of rules that are put.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whole {
    pub(super) source: Option<String>,
    #[serde(default, rename = "allow-empty")]
    pub(super) allow_empty: bool,
}

/// The result of a change.
pub(super) type Changed<R> = Result<R, Box<Refusal>>;

/// Changes the gateway; reports the change.
pub(super) async fn change<R: Report>(
    gateway: Shared,
    change: impl FnOnce(&dyn Gateway) -> Changed<R> + Send + 'static,
) -> Answer {
    apart(gateway, move |g| Ok(document(200, &change(g)?))).await?
}

/// Changes the gateway by a text, which is the body of the request. `change` gets the source and the text.
pub(super) async fn by_text<R: Report>(
    gateway: Shared,
    room: Room,
    source: Option<String>,
    request: Request,
    change: impl FnOnce(&dyn Gateway, &str, &str) -> Changed<R> + Send + 'static,
) -> Answer {
    let source = named(source)?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| Ok(document(200, &change(g, &source, text(&long.octets)?)?))).await?
}

/// Changes the gateway by a batch, which is the body of the request. `change` gets the source and the changes.
pub(super) async fn by_batch<R: Report>(
    gateway: Shared,
    room: Room,
    request: Request,
    change: impl FnOnce(&dyn Gateway, &str, &[Change]) -> Changed<R> + Send + 'static,
) -> Answer {
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let BatchRequest { source, changes } = parsed(&long.octets)?;
        of_source(&source)?;
        Ok(document(200, &change(g, &source, &changes)?))
    })
    .await?
}

/// Returns the source of a change; without one, the usual source.
pub(super) fn named(source: Option<String>) -> Result<String, Refused> {
    let source = source.unwrap_or_else(source::usual);
    of_source(&source)?;
    Ok(source)
}

/// Checks the source of a change.
pub(super) fn of_source(source: &str) -> Result<(), Refused> {
    source::check(source).map_err(|wrong| Refused::new(Kind::BadRequest, wrong))
}
