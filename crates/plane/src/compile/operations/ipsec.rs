//! Changes of pairs of SAs and of rules of SPDs, which leave the rest of the model as it is.

use crate::compile::compiler::Compiler;
use crate::compile::map::Map;
use crate::compile::numbers::assign;
use crate::compile::spd::Prepared;
use crate::compile::table_full::TableFull;
use crate::model::Gateway;
use crate::root::Root;

/// Pairs of SAs and SPDs that were compiled beside those in force.
pub(crate) struct IpsecPlan {
    map: Map,
    spd: Prepared,
}

impl Compiler {
    /// Compiles the pairs of SAs and the SPDs of a model that differs from the one in force, whose numbers are `map`, in nothing
    /// else. [`Compiler::carry_out_ipsec`] has to follow before anything else changes.
    ///
    /// # Errors
    /// When there is no room.
    pub(crate) fn plan_ipsec(&self, gateway: &Gateway, map: &Map) -> Result<IpsecPlan, TableFull> {
        let mut numbers = self.numbers.sas.clone();
        let sas = gateway.sas.iter().map(|sa| assign(&mut numbers, &sa.name)).collect();
        let map = Map { sas, ..map.clone() };
        let spd = self.spd.prepare(&self.domain, self.settings.workers, (gateway, &map))?;
        Ok(IpsecPlan { map, spd })
    }

    /// Puts planned pairs of SAs and SPDs into force: gives the version that follows, and its numbers. The model counts as another.
    pub(crate) fn carry_out_ipsec(&mut self, gateway: &Gateway, plan: IpsecPlan) -> (Root, Map) {
        let IpsecPlan { map, spd } = plan;
        for sa in &gateway.sas {
            assign(&mut self.numbers.sas, &sa.name);
        }
        let concerned = self.spd.commit(spd, (gateway, &map), &mut self.interfaces, &mut self.rubbish);
        self.concerns.noted().append(concerned);
        self.ipsec.commit(self.settings.workers, (gateway, &map), &self.interfaces);
        self.changed = true;
        self.models += 1;
        (self.root(), map)
    }
}
