//! The gateway's side of the control socket.

mod acl;
mod answer;
mod body;
mod capture;
mod change;
mod classify;
mod ipsec;
mod lists;
mod safe;
mod sav;
mod stage;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::routing::{get, post, put};
use axum::{Extension, Router};
use serde::Deserialize;
use weir_plane::engine::LostEdit;

use answer::{Answer, BODY_LIMIT, Refused, Shared, apart, document, empty, parsed, queried, received, show};

use super::capture::Registry;
use super::refusal::{Kind, Refusal};
use super::{Clear, ClearRequest, Gateway, ReloadRequest, TraceRequest};
use crate::render::alarms::Alarms;
use crate::render::allowlists::Allowlists;
use crate::render::bindings::Bindings;
use crate::render::bridges::{Bridges, Forgotten, Macs};
use crate::render::ethertypes::Ethertypes;
use crate::render::flows::{Cleared, Flows};
use crate::render::nat::{NatRules, Pools};
use crate::render::nat_users::Users;
use crate::render::nat_vrfs::NatVrfs;
use crate::render::routes::Filter;
use crate::render::samplers::Samplers;
use crate::render::sas::Sas;
use crate::render::sav::Sav;
use crate::render::spd::Spds;
use crate::render::steer::Steers;
use crate::render::translations::Translations;
use crate::render::tunnels::Tunnels;
use crate::render::{buffers, errors, interfaces, neighbors, route_to, runtime, tables};

/// How long clients may take to end what they began when the gateway stops.
const GRACE: Duration = Duration::from_secs(1);

/// Serves the gateway until `stop` comes, then lets the requests end that were begun.
///
/// # Errors
/// When the socket cannot be used.
pub async fn serve(
    listener: tokio::net::UnixListener,
    gateway: Arc<dyn Gateway>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let graceful = axum::serve(listener, router(gateway)).with_graceful_shutdown(async move {
        stop.await;
        // Nobody listens any more when the server has ended by itself.
        let _ = stopping.send(());
    });
    let out_of_patience = async move {
        let _ = stopped.await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = graceful => ended,
        () = out_of_patience => Ok(()),
    }
}

/// Seconds that a reload may wait for its confirmation, at most: a week.
pub(crate) const LONGEST_CONFIRM: u64 = 604_800;

/// Routes requests to their handlers.
pub fn router(gateway: Arc<dyn Gateway>) -> Router {
    Router::new()
        .route("/v1/show/version", get(|g| show(g, |g| g.version())))
        .route("/v1/show/runtime", get(show_runtime))
        .route("/v1/show/errors", get(show_errors))
        .route("/v1/show/interfaces", get(|g| show(g, interfaces_with_lists)))
        .route("/v1/show/routes", get(show_routes))
        .route("/v1/show/routes/{address}", get(show_routes_to))
        .route(
            "/v1/show/neighbors",
            get(|g| show(g, |g| neighbors::Neighbors::new(g.neighbors(), &g.snapshot().neighbors))),
        )
        .route("/v1/show/trace", get(|g| show(g, |g| g.traces())))
        .route("/v1/show/buffers", get(|g| show(g, |g| buffers::Buffers::new(&g.snapshot()))))
        .route("/v1/show/tables", get(|g| show(g, |g| tables::Tables::new(&g.snapshot(), &g.route_sources()))))
        .route("/v1/show/sav", get(|g| show(g, |g| Sav::new(g.sav_policies(), &g.snapshot()))))
        .route("/v1/show/samplers", get(|g| show(g, samplers)))
        .route("/v1/show/allowlists", get(|g| show(g, |g| Allowlists::new(g.allowlists()))))
        .route("/v1/show/bindings", get(|g| show(g, |g| Bindings::new(g.bindings()))))
        .route("/v1/show/classify", get(|g| show(g, |g| g.classify(None, 0))))
        .route("/v1/show/classify/{table}", get(classify::show))
        .route("/v1/classify/{table}/sessions", put(classify::add))
        .route("/v1/classify/{table}/delete", put(classify::delete))
        .route("/v1/show/ethertypes", get(|g| show(g, |g| Ethertypes::new(g.ethertypes()))))
        .route("/v1/show/flows", get(show_flows))
        .route("/v1/show/sa", get(show_sas))
        .route("/v1/show/tunnels", get(|g| show(g, |g| Tunnels::new(g.tunnels()))))
        .route("/v1/show/tunnels/{name}", get(show_tunnel))
        .route("/v1/show/bridge", get(|g| show(g, |g| Bridges::new(g.bridges()))))
        .route("/v1/show/bridge/{name}", get(show_bridge))
        .route("/v1/show/bridge/{name}/macs", get(show_macs))
        .route("/v1/show/crypto", get(|g| show(g, |g| g.crypto())))
        .route("/v1/show/nat/rules", get(|g| show(g, |g| NatRules::new(g.nat_lists()))))
        .route("/v1/show/nat/pools", get(|g| show(g, |g| Pools::new(g.nat_pools()))))
        .route("/v1/show/nat/translations", get(show_translations))
        .route("/v1/show/nat/vrfs", get(|g| show(g, |g| NatVrfs::new(g.nat_vrfs()))))
        .route("/v1/show/nat/users", get(show_nat_users))
        .route("/v1/show/spd", get(|g| show(g, |g| Spds::new(g.spds()))))
        .route("/v1/show/spd/{name}", get(show_spd))
        .route("/v1/show/steer", get(|g| show(g, |g| Steers::new(g.steer()))))
        .route("/v1/show/steer/{name}", get(show_steer))
        .route("/v1/show/changes", get(show_changes))
        .route("/v1/show/alarms", get(|g| show(g, |g| Alarms::new(&g.alarms()))))
        .route("/v1/show/sav/{policy}", get(sav::show_entries))
        .route("/v1/sav/dry-run", get(sav::dry_run))
        .route("/v1/sav/learn", get(sav::learn))
        .route("/v1/sav/{policy}/entries", post(sav::change).put(sav::import))
        .route("/v1/sav/{policy}/stage", post(stage::set))
        .route("/v1/acl", get(|g| show(g, |g| g.acls())))
        .route("/v1/acl/{list}", get(acl::show).put(acl::put).delete(acl::remove))
        .route("/v1/acl/{list}/changes", post(acl::change))
        .route("/v1/acl/{list}/attach", post(acl::attach))
        .route("/v1/acl/{list}/detach", post(acl::detach))
        .route("/v1/nat/{list}", lists::whole(|g, list, source, put| g.put_nat(list, source, put)))
        .route("/v1/nat/{list}/changes", lists::batch(|g, list, source, changes| g.change_nat(list, source, changes)))
        .route("/v1/binding/{list}", lists::whole(|g, list, source, put| g.put_bindings(list, source, put)))
        .route(
            "/v1/binding/{list}/changes",
            lists::batch(|g, list, source, changes| g.change_bindings(list, source, changes)),
        )
        .route("/v1/steer/{list}", lists::whole(|g, list, source, put| g.put_steer(list, source, put)))
        .route(
            "/v1/steer/{list}/changes",
            lists::batch(|g, list, source, changes| g.change_steer(list, source, changes)),
        )
        .route(
            "/v1/allow/{list}",
            lists::whole(|g, list, source, put| g.put_allowlist(list, source, put)).get(lists::allowed),
        )
        .route("/v1/allow/{list}/changes", post(lists::change_allowlist))
        .route("/v1/sa/{name}", put(ipsec::put_sa).delete(ipsec::delete_sa))
        .route("/v1/sa/{name}/{action}", put(ipsec::rekey_sa))
        .route("/v1/spd/{name}", get(ipsec::rules).put(ipsec::put_spd).delete(ipsec::reset_spd))
        .route("/v1/spd/{name}/changes", post(ipsec::change_spd))
        .route("/v1/group/{name}", put(acl::group).delete(acl::restore_group))
        .route("/v1/trace", post(add_trace))
        .route("/v1/capture", get(capture::capture))
        .route("/v1/show/captures", get(capture::show))
        .route("/v1/clear", post(clear))
        .route("/v1/watch", get(watch::events))
        .route("/v1/preview", get(safe::preview))
        .route("/v1/diff", get(safe::diff))
        .route("/v1/saved", get(safe::saved))
        .route("/v1/undo", get(safe::history).post(safe::undo))
        .route("/v1/confirm", post(safe::confirm))
        .route("/v1/reload", post(reload))
        .fallback(async || Refused::new(Kind::NotFound, "there is nothing of this name"))
        .method_not_allowed_fallback(async || Refused::new(Kind::MethodNotAllowed, "not by this method"))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(Extension(body::Room::default()))
        .layer(Extension(Registry::default()))
        .with_state(gateway)
}

fn interfaces_with_lists(gateway: &dyn Gateway) -> interfaces::Interfaces {
    interfaces::Interfaces::new(&gateway.snapshot(), gateway.failures())
        .with_lists(&gateway.acl_chains())
        .with_host(gateway.given_by_host())
}

fn samplers(gateway: &dyn Gateway) -> Samplers {
    let (taken, status) = gateway.samplers();
    Samplers::new(taken, &status)
}

/// The query of shows that leave out what did not occur.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct All {
    #[serde(default)]
    all: bool,
}

async fn show_runtime(gateway: State<Shared>, query: Result<Query<All>, QueryRejection>) -> Answer {
    let All { all } = queried(query)?;
    show(gateway, move |g| runtime::Runtime::new(&g.snapshot(), all)).await
}

async fn show_errors(gateway: State<Shared>, query: Result<Query<All>, QueryRejection>) -> Answer {
    let All { all } = queried(query)?;
    show(gateway, move |g| errors::Errors::new(&g.snapshot(), all)).await
}

async fn show_routes(gateway: State<Shared>, query: Result<Query<Filter>, QueryRejection>) -> Answer {
    let filter = queried(query)?;
    let State(gateway) = gateway;
    apart(gateway, move |g| {
        has_vrf(g, filter.vrf.as_deref())?;
        Ok(document(200, &g.routes(&filter)))
    })
    .await?
}

async fn show_routes_to(
    State(gateway): State<Shared>,
    Path(address): Path<String>,
    query: Result<Query<route_to::Filter>, QueryRejection>,
) -> Answer {
    let route_to::Filter { vrf } = queried(query)?;
    let Ok(address) = address.parse() else {
        return Err(Refused::new(Kind::BadRequest, format!("`{address}` is no address")));
    };
    apart(gateway, move |g| {
        has_vrf(g, vrf.as_deref())?;
        Ok(document(200, &g.routes_to(address, vrf.as_deref())))
    })
    .await?
}

/// Refuses the name of a VRF that there is not.
fn has_vrf(gateway: &dyn Gateway, vrf: Option<&str>) -> Result<(), Refused> {
    let Some(vrf) = vrf else { return Ok(()) };
    let vrfs = gateway.vrfs();
    if vrfs.iter().any(|own| own == vrf) { Ok(()) } else { Err(Refused::from(Refusal::of_vrf(vrf, &vrfs))) }
}

/// The query of pairs of SAs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfSa {
    name: Option<String>,
}

async fn show_sas(State(gateway): State<Shared>, query: Result<Query<OfSa>, QueryRejection>) -> Answer {
    let OfSa { name } = queried(query)?;
    apart(gateway, move |g| {
        let sas = Sas::new(g.sas(), &g.rekeys(), name.as_deref());
        match name {
            Some(name) if sas.sas.is_empty() => Err(Refused::from(super::no_sa(&name, &g.sas()))),
            _ => Ok(document(200, &sas)),
        }
    })
    .await?
}

/// The query of sessions.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    filter: Option<String>,
    sort: Option<String>,
    limit: Option<usize>,
}

/// Inside addresses that are shown without a limit in the query.
const NAT_USERS: usize = 20;

/// Sessions that are shown without a limit in the query: a million of them is a long answer.
const FLOWS: usize = 1000;

async fn show_flows(State(gateway): State<Shared>, query: Result<Query<Wanted>, QueryRejection>) -> Answer {
    let Wanted { filter, sort, limit } = queried(query)?;
    let most = limit.unwrap_or(FLOWS);
    let flows = apart(gateway, move |g| g.flows(filter.as_deref(), sort.as_deref(), most)).await??;
    Ok(document(200, &Flows::new(flows)))
}

async fn show_translations(State(gateway): State<Shared>, query: Result<Query<Wanted>, QueryRejection>) -> Answer {
    let Wanted { filter, limit, sort } = queried(query)?;
    if sort.is_some() {
        return Err(Refused::new(Kind::BadRequest, "translations are sorted by their age"));
    }
    let most = limit.unwrap_or(FLOWS);
    let translations = apart(gateway, move |g| g.translations(filter.as_deref(), most)).await??;
    Ok(document(200, &Translations::new(translations)))
}

async fn show_nat_users(State(gateway): State<Shared>, query: Result<Query<Wanted>, QueryRejection>) -> Answer {
    let Wanted { filter, limit, sort } = queried(query)?;
    if filter.is_some() || sort.is_some() {
        return Err(Refused::new(Kind::BadRequest, "inside addresses have no filter and no other order"));
    }
    let users = apart(gateway, move |g| g.nat_users(limit.unwrap_or(NAT_USERS))).await?;
    Ok(document(200, &Users::new(users)))
}

/// Live edits that are shown without a limit in the query.
const EDITS: usize = 1000;

/// The query of what may be many.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Most {
    limit: Option<usize>,
}

async fn show_changes(gateway: State<Shared>, query: Result<Query<Most>, QueryRejection>) -> Answer {
    let most = queried(query)?.limit.unwrap_or(EDITS);
    show(gateway, move |g| g.changes(most)).await
}

async fn add_trace(State(gateway): State<Shared>, body: Result<Bytes, BytesRejection>) -> Answer {
    let TraceRequest { node, count, filter } = parsed(&received(body)?)?;
    if count == 0 {
        return Err(Refused::new(Kind::BadRequest, "`count` is at least 1"));
    }
    apart(gateway, move |g| match filter {
        Some(filter) => g.trace_matching(&node, count, &filter),
        None => g.trace_add(&node, count).map_err(|unknown| Box::new(Refusal::from(unknown))),
    })
    .await??;
    Ok(empty())
}

async fn clear(State(gateway): State<Shared>, body: Result<Bytes, BytesRejection>) -> Answer {
    let ClearRequest { what, filter } = parsed(&received(body)?)?;
    if what == Clear::Flows {
        let sessions = apart(gateway, move |g| g.clear_flows(filter.as_deref())).await??;
        return Ok(document(200, &Cleared { sessions: sessions as u64 }));
    }
    if what == Clear::Nat {
        let ended = apart(gateway, move |g| g.clear_translations(filter.as_deref())).await??;
        return Ok(document(200, &Cleared { sessions: ended as u64 }));
    }
    if what == Clear::Bridge {
        let ended = apart(gateway, move |g| g.clear_bridge(filter.as_deref())).await??;
        return Ok(document(200, &Forgotten { stations: ended as u64 }));
    }
    if filter.is_some() && !what.takes_name() {
        let message = "only sessions (`flows`), translations (`nat`), stations (`bridge`), `sa` and `tunnels` are cleared by a filter";
        return Err(Refused::new(Kind::BadRequest, message));
    }
    apart(gateway, move |g| g.clear(what, filter.as_deref())).await??;
    Ok(empty())
}

async fn reload(State(gateway): State<Shared>, body: Result<Bytes, BytesRejection>) -> Answer {
    let body = received(body)?;
    let ReloadRequest { colour, drop_changes, confirm } =
        if body.is_empty() { ReloadRequest::default() } else { parsed(&body)? };
    let lost = if drop_changes { LostEdit::Drop } else { LostEdit::Refuse };
    let time = confirm.map(|seconds| match seconds {
        1..=LONGEST_CONFIRM => Ok(Duration::from_secs(seconds)),
        _ => Err(Refused::new(Kind::BadRequest, "`confirm` is a number of seconds from 1 to 604800")),
    });
    let time = time.transpose()?;
    let reload = move |g: &dyn Gateway| match time {
        Some(time) => Ok::<_, Refused>(g.safe()?.reload_for(lost, time)),
        None => Ok(g.reload(lost)),
    };
    apart(gateway, move |g| match reload(g)? {
        Ok(reloaded) => Ok(document(200, &reloaded)),
        Err(error) => Err(Refused::from(Refusal::of_reload(&error, colour))),
    })
    .await?
}

/// An SPD.
async fn show_spd(State(gateway): State<Shared>, Path(name): Path<String>) -> Answer {
    apart(gateway, move |g| {
        let spds = g.spds();
        let named: Vec<_> = spds.iter().filter(|spd| spd.name == name).cloned().collect();
        if named.is_empty() {
            let names = spds.iter().map(|spd| spd.name.as_str());
            return Err(Refused::from(super::absent("SPD", "SPDs", &name, names)));
        }
        Ok(document(200, &Spds::new(named)))
    })
    .await?
}

/// A list of steer rules.
async fn show_steer(State(gateway): State<Shared>, Path(name): Path<String>) -> Answer {
    apart(gateway, move |g| {
        let lists = g.steer();
        let named: Vec<_> = lists.iter().filter(|list| list.name == name).cloned().collect();
        if named.is_empty() {
            let names = lists.iter().map(|list| list.name.as_str());
            return Err(Refused::from(super::absent("list of steer rules", "lists", &name, names)));
        }
        Ok(document(200, &Steers::new(named)))
    })
    .await?
}

/// A tunnel.
async fn show_tunnel(State(gateway): State<Shared>, Path(name): Path<String>) -> Answer {
    apart(gateway, move |g| {
        let tunnels = g.tunnels();
        match tunnels.iter().find(|own| own.name == name) {
            Some(own) => Ok(document(200, &Tunnels::new(vec![own.clone()]))),
            None => Err(Refused::from(super::no_tunnel(&name, &tunnels))),
        }
    })
    .await?
}

/// A bridge.
async fn show_bridge(State(gateway): State<Shared>, Path(name): Path<String>) -> Answer {
    apart(gateway, move |g| match g.bridges().into_iter().find(|bridge| bridge.name == name) {
        Some(bridge) => Ok(document(200, &Bridges::new(vec![bridge]))),
        None => Err(Refused::from(super::no_bridge(&name, &g.bridges()))),
    })
    .await?
}

/// The stations of a bridge.
async fn show_macs(
    State(gateway): State<Shared>,
    Path(name): Path<String>,
    query: Result<Query<Most>, QueryRejection>,
) -> Answer {
    let limit = queried(query)?.limit;
    apart(gateway, move |g| match g.bridge_macs(&name) {
        Some(macs) => Ok(document(200, &Macs::new(name, macs, limit))),
        None => Err(Refused::from(super::no_bridge(&name, &g.bridges()))),
    })
    .await?
}
