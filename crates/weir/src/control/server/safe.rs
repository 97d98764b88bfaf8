//! Changes that can be compared, saved, taken back and confirmed.

use std::path::PathBuf;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use serde::Deserialize;

use super::super::UndoRequest;
use super::super::refusal::Kind;
use super::answer::{Answer, Refused, Shared, apart, document, parsed, queried, received};

/// The query of differences.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Against {
    #[serde(default)]
    loaded: bool,
}

/// `GET`: the differences between the running configuration and its file.
pub(super) async fn diff(State(gateway): State<Shared>, query: Result<Query<Against>, QueryRejection>) -> Answer {
    let Against { loaded } = queried(query)?;
    apart(gateway, move |g| Ok(document(200, &g.safe()?.diff(loaded)?))).await?
}

/// The query of saved files.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whole {
    folder: Option<PathBuf>,
}

/// `GET`: the files of the running configuration.
pub(super) async fn saved(State(gateway): State<Shared>, query: Result<Query<Whole>, QueryRejection>) -> Answer {
    let Whole { folder } = queried(query)?;
    apart(gateway, move |g| Ok(document(200, &g.safe()?.saved(folder.as_deref())?))).await?
}

/// The query of a preview.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    file: Option<PathBuf>,
}

/// `GET`: what a reload would do.
pub(super) async fn preview(State(gateway): State<Shared>, query: Result<Query<Of>, QueryRejection>) -> Answer {
    let Of { file } = queried(query)?;
    apart(gateway, move |g| Ok(document(200, &g.safe()?.preview(file.as_deref())?))).await?
}

/// `GET`: the changes that can be taken back.
pub(super) async fn history(State(gateway): State<Shared>) -> Answer {
    apart(gateway, move |g| Ok(document(200, &g.safe()?.history()))).await?
}

/// `POST`: takes the last changes back.
pub(super) async fn undo(State(gateway): State<Shared>, body: Result<Bytes, BytesRejection>) -> Answer {
    let body = received(body)?;
    let UndoRequest { count } = if body.is_empty() { UndoRequest { count: 1 } } else { parsed(&body)? };
    if count == 0 {
        return Err(Refused::new(Kind::BadRequest, "`count` is at least 1"));
    }
    apart(gateway, move |g| Ok(document(200, &g.safe()?.undo(count)?))).await?
}

/// `POST`: confirms a reload.
pub(super) async fn confirm(State(gateway): State<Shared>) -> Answer {
    apart(gateway, move |g| Ok(document(200, &g.safe()?.confirm()?))).await?
}
