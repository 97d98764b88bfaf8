//! Access lists: shows, changes, replaces, creates and removes them, and sets the members of groups.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use serde::Deserialize;

use super::super::Gateway;
use super::super::acl::attached::AttachRequest;
use super::super::acl::live::{self, Put};
use super::super::acl::{Expect, GroupRequest};
use super::super::refusal::{Kind, Refusal};
use super::answer::{Answer, Refused, Shared, apart, document, empty, parsed, queried, received};
use super::body::Room;
use super::change::{self, of_source};
use crate::suggest::closest;

/// The query of a list's rules.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limit {
    limit: Option<usize>,
}

/// `GET`: the rules of a list.
pub(super) async fn show(
    State(gateway): State<Shared>,
    Path(list): Path<String>,
    query: Result<Query<Limit>, QueryRejection>,
) -> Answer {
    let most = queried(query)?.limit.unwrap_or(usize::MAX);
    apart(gateway, move |g| match g.acl_rules(&list, most) {
        Some(rules) => Ok(document(200, &rules)),
        None => Err(Refused::from(unknown(g, &list))),
    })
    .await?
}

fn unknown(gateway: &dyn Gateway, list: &str) -> Refusal {
    let lists: Vec<String> = gateway.acls().lists.into_iter().map(|list| list.name).collect();
    let help = match closest(list, &lists) {
        Some(name) => format!("did you mean `{name}`?"),
        None if lists.is_empty() => "there is none".to_owned(),
        None => format!("there are {}", lists.join(", ")),
    };
    let message = format!("there is no access list with the name `{list}`; {help}");
    Refusal { lists, ..Refusal::new(Kind::UnknownList, message) }
}

/// `POST`: a batch.
pub(super) async fn change(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    request: Request,
) -> Answer {
    change::by_batch(gateway, room, request, move |g, source, changes| g.change_acl(&list, source, changes)).await
}

/// The query of a list that is put.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whole {
    source: Option<String>,
    default: Option<String>,
    expect: Option<Expect>,
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
    let Whole { source, default, expect, allow_empty } = queried(query)?;
    let default = default.map(|word| live::default(&word)).transpose();
    let default = default.map_err(|wrong| Refused::new(Kind::BadRequest, wrong))?;
    let put = move |g: &dyn Gateway, source: &str, text: &str| {
        g.put_acl(&list, &Put { source, text, default, expect, allow_empty })
    };
    change::by_text(gateway, room, source, request, put).await
}

/// `POST`: attaches a list to an interface.
pub(super) async fn attach(gateway: State<Shared>, list: Path<String>, body: Result<Bytes, BytesRejection>) -> Answer {
    attached(gateway, list, body, true).await
}

/// `POST`: detaches a list from an interface.
pub(super) async fn detach(gateway: State<Shared>, list: Path<String>, body: Result<Bytes, BytesRejection>) -> Answer {
    attached(gateway, list, body, false).await
}

async fn attached(
    State(gateway): State<Shared>,
    Path(list): Path<String>,
    body: Result<Bytes, BytesRejection>,
    attach: bool,
) -> Answer {
    let request: AttachRequest = parsed(&received(body)?)?;
    of_source(&request.source)?;
    if !attach && request.before.is_some() {
        return Err(Refused::new(Kind::BadRequest, "`before` names the place of a list that is attached"));
    }
    change::change(gateway, move |g| g.attach_acl(&list, &request, attach)).await
}

/// `DELETE`: removes a list.
pub(super) async fn remove(State(gateway): State<Shared>, Path(list): Path<String>) -> Answer {
    apart(gateway, move |g| g.remove_acl(&list).map_err(Refused::from).map(|()| empty())).await?
}

/// `PUT`: all members of a group.
pub(super) async fn group(
    State(gateway): State<Shared>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let request: GroupRequest = parsed(&received(body)?)?;
    of_source(&request.source)?;
    change::change(gateway, move |g| g.set_acl_group(&name, &request)).await
}

/// `DELETE`: ends the live edits of a group.
pub(super) async fn restore_group(State(gateway): State<Shared>, Path(name): Path<String>) -> Answer {
    change::change(gateway, move |g| g.restore_acl_group(&name)).await
}
