//! The actions for invalid packets: the action in force, and the parts that it needs.
//!
//! A stage is an action that was put into force while the gateway runs, in the place of the one that is configured. It
//! stays with the policy, by name, as long as that can do it. Buckets stay with a policy as long as what they let pass does.

use std::collections::HashMap;
use std::sync::Arc;

use super::input::Input;
use crate::model::{Gateway, IpFamily, PerFamily, RateLimit, RatePer, SavAction, SavPolicy};
use crate::root::sav::Meters;

/// An action in the place of the one that is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// The action.
    pub action: SavAction,
    /// Since when: seconds of the Unix epoch.
    pub since: u64,
}

/// The reason why a stage cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// There is no such policy.
    #[error("there is no policy of source address validation with the name `{policy}`")]
    NoSuchPolicy {
        /// The requested policy.
        policy: String,
        /// The policies of the model.
        policies: Vec<String>,
    },
    /// The policy does not say how many packets may pass.
    #[error("policy `{policy}` has no rate limit")]
    NoRateLimit {
        /// The policy.
        policy: String,
    },
    /// The policy does not say where packets go.
    #[error("policy `{policy}` has no redirection for {}, which it validates", family_name(*.family))]
    NoRedirect {
        /// The policy.
        policy: String,
        /// The family that is missing.
        family: IpFamily,
    },
}

const fn family_name(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "IPv4",
        IpFamily::V6 => "IPv6",
    }
}

/// Whether a policy has what an action needs.
pub(super) fn can(gateway: &Gateway, place: usize, action: SavAction) -> Result<(), StageError> {
    let policy = &gateway.sav[place];
    let name = || policy.name.clone();
    let validates = |of: fn(&PerFamily<Option<crate::model::SavIndex>>) -> Option<crate::model::SavIndex>| {
        gateway.interfaces.iter().any(|interface| of(&interface.sav).is_some_and(|own| usize::from(own.0) == place))
    };
    match action {
        SavAction::RateLimit if policy.rate_limit.is_none() => Err(StageError::NoRateLimit { policy: name() }),
        SavAction::Redirect if policy.redirect.v4.is_none() && validates(|of| of.v4) => {
            Err(StageError::NoRedirect { policy: name(), family: IpFamily::V4 })
        }
        SavAction::Redirect if policy.redirect.v6.is_none() && validates(|of| of.v6) => {
            Err(StageError::NoRedirect { policy: name(), family: IpFamily::V6 })
        }
        _ => Ok(()),
    }
}

/// The state of policies beside their tables, by name.
#[derive(Default)]
pub(super) struct Actions {
    pub(super) stages: HashMap<String, Stage>,
    pub(super) buckets: HashMap<String, Buckets>,
    /// Policies whose stages ended because they could not go on.
    pub(super) ended: Vec<String>,
}

/// The buckets of a policy: the same for both families where interfaces have them.
#[derive(Clone)]
pub(super) struct Buckets {
    limit: RateLimit,
    pub(super) v4: Arc<Meters>,
    pub(super) v6: Arc<Meters>,
}

impl Actions {
    /// The stage of a policy.
    pub(super) fn stage(&self, policy: &str) -> Option<Stage> {
        self.stages.get(policy).copied()
    }

    /// The action of a policy that is in force.
    pub(super) fn action(&self, policy: &SavPolicy) -> SavAction {
        self.stage(&policy.name).map_or(policy.action, |stage| stage.action)
    }

    /// The buckets of a policy, if it has a limit.
    pub(super) fn meters(&self, policy: &SavPolicy) -> Option<PerFamily<&Arc<Meters>>> {
        let buckets = self.buckets.get(&policy.name)?;
        Some(PerFamily { v4: &buckets.v4, v6: &buckets.v6 })
    }

    /// Takes over a model. Ends stages that its policies cannot have.
    pub(super) fn adopt(&mut self, input: Input<'_>) {
        let gateway = input.gateway;
        let place = |name: &str| gateway.sav.iter().position(|policy| policy.name == name);
        let ended = &mut self.ended;
        self.stages.retain(|name, stage| {
            let stays = place(name).is_some_and(|place| can(gateway, place, stage.action).is_ok());
            if !stays {
                ended.push(name.clone());
            }
            stays
        });
        let mut before = std::mem::take(&mut self.buckets);
        for policy in &gateway.sav {
            if let Some(limit) = policy.rate_limit {
                let own = before.remove(&policy.name).filter(|before| before.limit == limit);
                self.buckets.insert(policy.name.clone(), buckets(input, limit, own));
            }
        }
    }
}

fn buckets(input: Input<'_>, limit: RateLimit, before: Option<Buckets>) -> Buckets {
    let make = |count: usize, apart, before: Option<&Arc<Meters>>| match before {
        Some(before) if before.len() == count => Arc::clone(before),
        Some(before) if before.len() < count => Arc::new(before.grown(count)),
        _ => Arc::new(Meters::new(limit, count, apart)),
    };
    match limit.per {
        RatePer::Interface => {
            // Room to grow: as numbers of interfaces only become more, so do buckets.
            let count = input.numbers.len().next_power_of_two().max(64);
            let all = make(count, true, before.as_ref().map(|before| &before.v4));
            Buckets { limit, v4: Arc::clone(&all), v6: all }
        }
        RatePer::Rule => {
            // By the numbers of prefixes, of which a table of lists has one more; number 0 is that of sources without a rule.
            let count = 2 * (input.gateway.limits.sav_prefixes as usize + 1) + 1;
            let v4 = make(count, false, before.as_ref().map(|before| &before.v4));
            Buckets { limit, v4, v6: make(count, false, before.as_ref().map(|before| &before.v6)) }
        }
    }
}

/// Whether the prefixes of a policy need numbers of their own, and with them rows.
pub(crate) fn is_distinct(policy: &SavPolicy) -> bool {
    let per_rule = policy.rate_limit.is_some_and(|limit| limit.per == RatePer::Rule);
    per_rule || policy.mechanism.rules().is_some_and(|rules| rules.hits)
}
