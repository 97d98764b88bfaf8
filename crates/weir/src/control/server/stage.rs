//! `POST /v1/sav/POLICY/stage`: puts another action into force.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use weir_plane::stats::SavPolicyStats;

use super::super::Gateway;
use super::super::refusal::{Kind, Refusal};
use super::super::sav::stage::{self, StageRequest};
use super::answer::{Answer, Refused, Shared, apart, document, parsed, received};
use crate::render::sav::stage::Staged;

pub(super) async fn set(
    State(gateway): State<Shared>,
    Path(policy): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let StageRequest { stage } = parsed(&received(body)?)?;
    let action = stage::read(&stage).map_err(|wrong| Refused::new(Kind::BadRequest, wrong))?;
    apart(gateway, move |g| {
        let before = of(g, &policy).map(|policy| in_force(&policy));
        g.stage_sav(&policy, action)?.map_err(|error| Refused::from(Refusal::of_stage(error)))?;
        // Somebody may have reloaded the configuration in between.
        let gone = || Refused::from(Refusal::of_policy(&policy, Vec::new()));
        let now = of(g, &policy).ok_or_else(gone)?;
        Ok(document(
            200,
            &Staged {
                before: before.unwrap_or(now.action).to_owned(),
                action: in_force(&now).to_owned(),
                configured: now.action.to_owned(),
                since: now.stage.map(|(_, since)| since),
                policy,
            },
        ))
    })
    .await?
}

fn of(gateway: &dyn Gateway, policy: &str) -> Option<SavPolicyStats> {
    gateway.sav_policies().into_iter().find(|known| known.name == policy)
}

fn in_force(policy: &SavPolicyStats) -> &'static str {
    policy.stage.map_or(policy.action, |(action, _)| action)
}
