//! Access lists: shown, changed by batches, replaced as a whole, made and removed; and the members of groups. NAT rules:
//! changed and replaced likewise. Pairs of SAs: added, updated, deleted, rekeyed. SPDs: shown as rules, changed, replaced, reset.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use serde::Deserialize;

use super::super::Gateway;
use super::super::acl::attached::AttachRequest;
use super::super::acl::live::{self, Put};
use super::super::acl::{BatchRequest, Expect, GroupRequest};
use super::super::ipsec::{SaAction, SaEdit, SpdEdit};
use super::super::nat;
use super::super::refusal::{Kind, Refusal};
use super::super::source;
use super::body::Room;
use super::{Answer, Refused, Shared, apart, asked, document, empty, parsed, received, text};
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
    let most = asked(query)?.limit.unwrap_or(usize::MAX);
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
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let BatchRequest { source, changes } = parsed(&long.octets)?;
        of_source(&source)?;
        let changed = g.change_acl(&list, &source, &changes).map_err(Refused::from)?;
        Ok(document(200, &changed))
    })
    .await?
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
    let Whole { source, default, expect, allow_empty } = asked(query)?;
    let source = source.unwrap_or_else(source::usual);
    of_source(&source)?;
    let default = default.map(|word| live::default(&word)).transpose();
    let default = default.map_err(|wrong| Refused::new(Kind::BadRequest, wrong))?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let text = text(&long.octets)?;
        let put = Put { source: &source, text, default, expect, allow_empty };
        let changed = g.put_acl(&list, &put).map_err(Refused::from)?;
        Ok(document(200, &changed))
    })
    .await?
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
    apart(gateway, move |g| {
        let attached = g.attach_acl(&list, &request, attach).map_err(Refused::from)?;
        Ok(document(200, &attached))
    })
    .await?
}

/// `DELETE`: a list goes.
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
    apart(gateway, move |g| {
        let regrouped = g.set_acl_group(&name, &request).map_err(Refused::from)?;
        Ok(document(200, &regrouped))
    })
    .await?
}

/// `DELETE`: what a group was given while the gateway ran is taken back.
pub(super) async fn restore_group(State(gateway): State<Shared>, Path(name): Path<String>) -> Answer {
    apart(gateway, move |g| {
        let regrouped = g.restore_acl_group(&name).map_err(Refused::from)?;
        Ok(document(200, &regrouped))
    })
    .await?
}

/// `POST`: a batch of changes of NAT rules.
pub(super) async fn change_nat(
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

/// The query of a list of NAT rules that is put.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WholeNat {
    source: Option<String>,
    #[serde(default, rename = "allow-empty")]
    allow_empty: bool,
}

/// `PUT`: all NAT rules of a list.
pub(super) async fn put_nat(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(list): Path<String>,
    query: Result<Query<WholeNat>, QueryRejection>,
    request: Request,
) -> Answer {
    let WholeNat { source, allow_empty } = asked(query)?;
    let source = source.unwrap_or_else(source::usual);
    of_source(&source)?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let text = text(&long.octets)?;
        let changed = g.put_nat(&list, &source, &nat::Put { text, allow_empty }).map_err(Refused::from)?;
        Ok(document(200, &changed))
    })
    .await?
}

/// The query of a change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Said {
    source: Option<String>,
}

/// The query of a pair that is put.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WholeSa {
    source: Option<String>,
    expect: Option<Expect>,
}

/// The query of an SPD that is put.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WholeSpd {
    source: Option<String>,
    #[serde(default, rename = "allow-empty")]
    allow_empty: bool,
}

/// `PUT`: a pair.
pub(super) async fn put_sa(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(name): Path<String>,
    query: Result<Query<WholeSa>, QueryRejection>,
    request: Request,
) -> Answer {
    let WholeSa { source, expect } = asked(query)?;
    let source = named(source)?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let keys = text(&long.octets)?;
        let is_there = g.sas().iter().any(|sa| sa.name == name);
        let edit = match expect.unwrap_or(if is_there { Expect::Existing } else { Expect::New }) {
            Expect::New => SaEdit::Add(keys),
            Expect::Existing => SaEdit::Update(keys),
        };
        Ok(document(200, &g.edit_sa(&name, &source, edit).map_err(Refused::from)?))
    })
    .await?
}

/// `DELETE`: a pair goes.
pub(super) async fn delete_sa(
    State(gateway): State<Shared>,
    Path(name): Path<String>,
    query: Result<Query<Said>, QueryRejection>,
) -> Answer {
    let source = named(asked(query)?.source)?;
    apart(gateway, move |g| Ok(document(200, &g.edit_sa(&name, &source, SaEdit::Delete).map_err(Refused::from)?)))
        .await?
}

/// `PUT`: a step of a rekey.
pub(super) async fn rekey_sa(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path((name, action)): Path<(String, SaAction)>,
    query: Result<Query<Said>, QueryRejection>,
    request: Request,
) -> Answer {
    let source = named(asked(query)?.source)?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let edit = match action {
            SaAction::Rekey => SaEdit::Rekey(text(&long.octets)?),
            SaAction::Switch => SaEdit::Switch,
            SaAction::Finish => SaEdit::Finish,
        };
        Ok(document(200, &g.edit_sa(&name, &source, edit).map_err(Refused::from)?))
    })
    .await?
}

/// `GET`: the rules of an SPD, as they can be read again.
pub(super) async fn rules_of_spd(State(gateway): State<Shared>, Path(spd): Path<String>) -> Answer {
    apart(gateway, move |g| Ok(document(200, &g.spd_rules(&spd).map_err(Refused::from)?))).await?
}

/// `POST`: a batch of changes of an SPD.
pub(super) async fn change_spd(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(spd): Path<String>,
    request: Request,
) -> Answer {
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let BatchRequest { source, changes } = parsed(&long.octets)?;
        of_source(&source)?;
        Ok(document(200, &g.edit_spd(&spd, &source, SpdEdit::Batch(&changes)).map_err(Refused::from)?))
    })
    .await?
}

/// `PUT`: all rules of an SPD.
pub(super) async fn put_spd(
    State(gateway): State<Shared>,
    Extension(room): Extension<Room>,
    Path(spd): Path<String>,
    query: Result<Query<WholeSpd>, QueryRejection>,
    request: Request,
) -> Answer {
    let WholeSpd { source, allow_empty } = asked(query)?;
    let source = named(source)?;
    let long = room.take(request.into_body()).await?;
    apart(gateway, move |g| {
        let edit = SpdEdit::Replace { text: text(&long.octets)?, allow_empty };
        Ok(document(200, &g.edit_spd(&spd, &source, edit).map_err(Refused::from)?))
    })
    .await?
}

/// `DELETE`: the rules of the files again.
pub(super) async fn reset_spd(
    State(gateway): State<Shared>,
    Path(spd): Path<String>,
    query: Result<Query<Said>, QueryRejection>,
) -> Answer {
    let source = named(asked(query)?.source)?;
    apart(gateway, move |g| Ok(document(200, &g.edit_spd(&spd, &source, SpdEdit::Reset).map_err(Refused::from)?)))
        .await?
}

fn named(source: Option<String>) -> Result<String, Refused> {
    let source = source.unwrap_or_else(source::usual);
    of_source(&source)?;
    Ok(source)
}

fn of_source(source: &str) -> Result<(), Refused> {
    source::check(source).map_err(|wrong| Refused::new(Kind::BadRequest, wrong))
}
