//! NAT rules: changed by batches, replaced as a whole.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use serde::Deserialize;

use super::super::acl::BatchRequest;
use super::super::nat::Put;
use super::super::refusal::Kind;
use super::super::source;
use super::body::Room;
use super::{Answer, Refused, Shared, apart, asked, document, parsed, text};

/// `POST`: a batch.
pub(super) async fn change(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    request: Request,
) -> Answer {
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let BatchRequest { source, changes } = parsed(&long.octets)?;
        of_source(&source)?;
        let changed = g.change_nat(&list, &source, &changes).map_err(Refused::from)?;
        Ok(document(200, &changed))
    })
    .await?
}

/// The query of a list that is put.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whole {
    source: Option<String>,
    #[serde(default, rename = "allow-empty")]
    allow_empty: bool,
}

/// `PUT`: all rules of a list.
pub(super) async fn put(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    query: Result<Query<Whole>, QueryRejection>,
    request: Request,
) -> Answer {
    let Whole { source, allow_empty } = asked(query)?;
    let source = source.unwrap_or_else(source::usual);
    of_source(&source)?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let text = text(&long.octets)?;
        let changed = g.put_nat(&list, &source, &Put { text, allow_empty }).map_err(Refused::from)?;
        Ok(document(200, &changed))
    })
    .await?
}

fn of_source(source: &str) -> Result<(), Refused> {
    source::check(source).map_err(|wrong| Refused::new(Kind::BadRequest, wrong))
}
