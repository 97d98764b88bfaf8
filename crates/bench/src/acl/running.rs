//! Rules that come and go in a gateway that runs, as they do by the control socket: what the call takes that puts one in,
//! and what it takes of the packets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_plane::compile::{AclEdit, AclError as EditError, AclSaid, At};
use weir_plane::engine::Engine;
use weir_plane::model::{AclAction, AclDefault, AclIndex, AclRule};

use super::Effort;
use super::lookup::{capture, gateway};
use super::packet::Ip;
use super::sets::Set;
use super::update::{ABSENT, Times};
use crate::Error;
use crate::machine::{self, compute, throughput};
use crate::report::figure::{Figure, Target};

/// Seconds of the Unix epoch that rules bear.
const TIME: u64 = 1_700_000_000;

/// The cost of changes to a list in a running gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// The name of the set.
    pub name: String,
    /// Its rules; an eighth of them is out at a time.
    pub rules: usize,
    /// Rules that came in.
    pub added: Times,
    /// The target for the 99th percentile of these, in microseconds.
    pub target: Target,
    /// Rules that went.
    pub removed: Times,
    /// Packets per second of the worker while nothing changes.
    pub idle: Figure,
    /// Packets per second while the other CPU computes, and touches no memory.
    pub busy: Figure,
    /// Packets per second while rules come and go.
    pub changing: Figure,
}

/// Changes a list that applies to each packet of a worker. The worker runs on the last of `cpus`, the changes on the
/// caller's CPU.
pub(super) fn measure<K: Ip>(set: &Set<K>, effort: &Effort, cpus: &[usize]) -> Result<Running, Error> {
    let mut random = Random::from_seed(set.rules.len() as u64);
    let scratch = tempfile::tempdir().map_err(Error::Scratch)?;
    let packets = capture(&set.spread(effort.packets, &mut random), scratch.path())?;
    let mut model = gateway(set, &packets);
    let mut there: Vec<AclRule> = model.acls[0].rules.to_vec();
    let most = (there.len() / ABSENT).max(1);
    let absent: Vec<AclRule> =
        (0..most).map(|_| there.swap_remove(random.below(there.len() as u64) as usize)).collect();
    let list = model.acls[0].name.clone();
    model.acls[0].rules = there.into();
    model.acls[0].default = AclDefault::Action(AclAction::Permit);
    model.interfaces[0].access.acl_in = vec![AclIndex(0)];
    let engine = machine::start(model, cpus)?;
    let said = AclSaid { source: Arc::from("bench"), time: TIME };
    let mut changes = Changes {
        engine: &engine,
        list,
        said,
        rules: set.rules.len() - most,
        absent,
        numbers: Vec::new(),
        adding: true,
        added: Vec::new(),
        removed: Vec::new(),
    };
    let (mut idle, mut busy, mut changing) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 1..=effort.turns {
        idle.push(throughput(&engine, || {
            std::thread::sleep(effort.pause);
            Ok(())
        })?);
        busy.push(throughput(&engine, || {
            compute(effort.pause);
            Ok(())
        })?);
        changing
            .push(throughput(&engine, || changes.turn(effort.adds * turn / effort.turns, effort.pause, &mut random))?);
    }
    let added = Times::of(changes.added);
    let removed = Times::of(changes.removed);
    let end = engine.stop().conservation;
    if end.imbalance() != 0 || end.dropped != 0 || end.transmitted == 0 {
        return Err(Error::Running(format!("lost or dropped packets, or forwarded none: {end:?}")));
    }
    Ok(Running {
        family: K::NAME.to_owned(),
        name: set.name.clone(),
        rules: set.rules.len(),
        added,
        target: Target::at_most(10.0, added.p99),
        removed,
        idle: Figure::of(idle),
        busy: Figure::of(busy),
        changing: Figure::of(changing),
    })
}

/// Rules that come to random places of a list, and go.
struct Changes<'a> {
    engine: &'a Engine,
    list: String,
    said: AclSaid,
    /// How many the list has.
    rules: usize,
    absent: Vec<AclRule>,
    /// Added rules, which are removed in random order.
    numbers: Vec<(u32, AclRule)>,
    adding: bool,
    added: Vec<f64>,
    removed: Vec<f64>,
}

impl Changes<'_> {
    /// Until so many have come, and for so long at least.
    fn turn(&mut self, adds: usize, pause: Duration, random: &mut Random) -> Result<(), Error> {
        let start = Instant::now();
        while self.added.len() < adds || start.elapsed() < pause {
            if self.adding {
                self.adding = self.add(random)?;
            } else {
                self.adding = !self.remove(random)?;
            }
        }
        Ok(())
    }

    /// One comes, if one is absent.
    fn add(&mut self, random: &mut Random) -> Result<bool, Error> {
        let Some(rule) = self.absent.pop() else { return Ok(false) };
        let at = At::Index(random.below(self.rules as u64 + 1) as usize);
        let edit = AclEdit::Insert { at, rules: vec![rule.clone()] };
        let start = Instant::now();
        let edited = self.engine.edit_acl(&self.list, &self.said, |_| Ok::<_, EditError>(edit))?;
        self.added.push(start.elapsed().as_secs_f64() * 1e6);
        self.rules = edited.rules;
        self.numbers.extend(edited.added.into_iter().map(|number| (number, rule.clone())));
        Ok(true)
    }

    /// One goes, if one came.
    fn remove(&mut self, random: &mut Random) -> Result<bool, Error> {
        if self.numbers.is_empty() {
            return Ok(false);
        }
        let (number, rule) = self.numbers.swap_remove(random.below(self.numbers.len() as u64) as usize);
        let edit = AclEdit::Delete { rules: vec![number] };
        let start = Instant::now();
        let edited = self.engine.edit_acl(&self.list, &self.said, |_| Ok::<_, EditError>(edit))?;
        self.removed.push(start.elapsed().as_secs_f64() * 1e6);
        self.rules = edited.rules;
        self.absent.push(rule);
        Ok(true)
    }
}
