//! Classifier tables: shows one, and adds and deletes sessions.

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use serde::Deserialize;

use super::super::refusal::Kind;
use super::answer::{Answer, Refused, Shared, apart, document, queried};
use super::body::Room;
use super::change::by_text;

/// Sessions that are shown, unless the query says otherwise.
const SESSIONS: usize = 1000;

/// The query of a table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Most {
    limit: Option<usize>,
}

/// The query of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct By {
    source: Option<String>,
}

/// `GET`: a table with its sessions.
pub(super) async fn show(
    State(gateway): State<Shared>,
    Path(name): Path<String>,
    query: Result<Query<Most>, QueryRejection>,
) -> Answer {
    let most = queried(query)?.limit.unwrap_or(SESSIONS);
    apart(gateway, move |g| {
        let named = g.classify(Some(&name), most);
        if named.tables.is_empty() {
            let all = g.classify(None, 0).tables;
            let names = all.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ");
            let others =
                if names.is_empty() { "there are none".to_owned() } else { format!("the tables are: {names}") };
            return Err(Refused::new(Kind::NotFound, format!("there is no classifier table `{name}`; {others}")));
        }
        Ok(document(200, &named))
    })
    .await?
}

/// `PUT`: adds sessions, one a line.
pub(super) async fn add(
    gateway: State<Shared>,
    room: Extension<Room>,
    table: Path<String>,
    query: Result<Query<By>, QueryRejection>,
    request: Request,
) -> Answer {
    change(gateway, room, (table, query), request, true).await
}

/// `PUT`: deletes sessions by their values, one a line.
pub(super) async fn delete(
    gateway: State<Shared>,
    room: Extension<Room>,
    table: Path<String>,
    query: Result<Query<By>, QueryRejection>,
    request: Request,
) -> Answer {
    change(gateway, room, (table, query), request, false).await
}

async fn change(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    (Path(table), query): (Path<String>, Result<Query<By>, QueryRejection>),
    request: Request,
    add: bool,
) -> Answer {
    let source = queried(query)?.source;
    by_text(gateway, room, source, request, move |g, source, text| g.change_classify(&table, source, text, add)).await
}
