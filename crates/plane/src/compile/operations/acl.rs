//! Access lists: edits, decisions and reports.

use crate::compile::acl::{
    AclDecision, AclEdit, AclEditRow, AclEdited, AclError, AclGroup, AclListBrief, AclMembers, AclPlan, AclRestored,
    Beside, GroupEdits, Input, LostEdits, Plan, Said, StagedAcls, Step, regroup,
};
use crate::compile::compiler::Compiler;
use crate::compile::map::Map;
use crate::compile::table_full::TableFull;
use crate::model::{AclDefault, AclList, AclRule, Gateway, IpFamily, Origin};
use crate::root::Root;
use crate::root::acl::Found;
use crate::stats::{AclListStats, AclRuleRow, AclSectionStats};

impl Compiler {
    /// Changes an access list, at once for all packets; `said` is who says so, and when. `gateway` is the model in force, and
    /// `map` its numbers. `publish` puts a root into force, once or more often; it is not called where nothing
    /// changes. The caller is no reader.
    ///
    /// # Errors
    /// If there is no such list, rule or place, a rule cannot be compiled, or there is no room. Then nothing has
    /// changed.
    pub fn edit_acl(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        list: &str,
        edit: AclEdit,
        said: &Said,
        publish: impl FnMut(Root),
    ) -> Result<AclEdited, AclError> {
        let plan = self.plan_acl_edit((gateway, map), list, edit, said)?;
        let edited = self.carry_out_acl_edit((gateway, map), plan, said, publish);
        drop(self.take_rubbish());
        edited
    }

    /// The first part of [`Compiler::edit_acl`], which takes nearly all of its time. The second has to follow before anything
    /// else changes.
    ///
    /// # Errors
    /// As there.
    pub fn plan_acl_edit(
        &self,
        (gateway, map): (&Gateway, &Map),
        list: &str,
        edit: AclEdit,
        said: &Said,
    ) -> Result<AclPlan, AclError> {
        self.acl.plan(Input { domain: &self.domain, gateway, map }, list, edit, said).map(AclPlan)
    }

    /// The second part.
    ///
    /// # Errors
    /// When there is no room.
    pub fn carry_out_acl_edit(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        plan: AclPlan,
        said: &Said,
        mut publish: impl FnMut(Root),
    ) -> Result<AclEdited, AclError> {
        let done = self.take_step((gateway, map), plan, said, &mut publish);
        // Decisions of packets that these rules match hold no longer, also where all is as it was in the end.
        if self.acl.has_noted() {
            publish(self.root());
        }
        done
    }

    fn take_step(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        plan: AclPlan,
        said: &Said,
        publish: &mut impl FnMut(Root),
    ) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        let input = Input { domain: &domain, gateway, map };
        match self.acl.carry_out(input, plan.0, said)? {
            Step::Done(edited) => Ok(edited),
            Step::Next(edited) => {
                publish(self.root());
                Ok(edited)
            }
            Step::Insert(pending) => {
                if pending.tell {
                    self.acl.show();
                    publish(self.root());
                    domain.synchronize();
                }
                let (edited, tell) = self.acl.insert(input, pending)?;
                if tell {
                    publish(self.root());
                }
                Ok(edited)
            }
        }
    }

    /// Gives a group that rules of access lists name other members: all rules that name it, or a group that it is in, have
    /// them at once. A group that is not there comes.
    ///
    /// # Errors
    /// When it is of another kind, it would have no members or be in itself, a rule would have no addresses of its family, or
    /// there is no room. Then nothing has changed.
    pub fn replace_acl_group(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        members: impl Into<AclMembers>,
        said: &Said,
        publish: impl FnMut(Root),
    ) -> Result<AclEdited, AclError> {
        let plan = self.plan_acl_group((gateway, map), members, said)?;
        let edited = self.carry_out_acl_edit((gateway, map), plan, said, publish);
        drop(self.take_rubbish());
        edited
    }

    /// The first part of [`Compiler::replace_acl_group`]; the second is [`Compiler::carry_out_acl_edit`].
    ///
    /// # Errors
    /// As there.
    pub fn plan_acl_group(
        &self,
        (gateway, map): (&Gateway, &Map),
        members: impl Into<AclMembers>,
        said: &Said,
    ) -> Result<AclPlan, AclError> {
        let beside = self.acl.replace_group(Input { domain: &self.domain, gateway, map }, members.into(), said)?;
        Ok(AclPlan(Plan::Beside(Box::new(beside))))
    }

    /// Sets the limit on copied rules; the default is 4,096. From the next change on, sequences share the list if its
    /// copies, over all sequences but one, would need more rules. Sharing costs one more lookup.
    pub fn share_acls(&mut self, most_copied: usize) {
        self.acl.share(most_copied);
    }

    /// Takes back what a group was given while the gateway ran: one that is declared has the members again that it was declared
    /// with, in all rules at once; any other is gone. `publish` is called if rules may match other packets.
    ///
    /// # Errors
    /// When there is no such group, it is as it was declared, rules or groups name one that would go, groups would be in
    /// themselves, a rule would have no addresses of its family, or there is no room. Then nothing has changed.
    pub fn restore_acl_group(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        group: &str,
        publish: impl FnOnce(Root),
    ) -> Result<AclRestored, AclError> {
        let domain = self.domain.clone();
        let input = Input { domain: &domain, gateway, map };
        let restoring = self.acl.plan_restore(input, group)?;
        let restored = self.acl.restore_group(input, restoring);
        drop(self.take_rubbish());
        if restored.members.is_some() {
            publish(self.root());
        }
        Ok(restored)
    }

    /// Returns the effect that other members of a group have on rules outside of access lists; `None`: none.
    ///
    /// # Errors
    /// As for [`Compiler::replace_acl_group`].
    pub(crate) fn regrouped(
        &self,
        (gateway, map): (&Gateway, &Map),
        members: AclMembers,
        said: &Said,
    ) -> Result<Option<Elsewhere>, AclError> {
        let beside = self.acl.replace_group(Input { domain: &self.domain, gateway, map }, members, said)?;
        Ok(elsewhere(gateway, &beside, beside.rules()))
    }

    /// Returns the effect on rules outside of access lists that the end of a group's live edits has; `None`: none.
    ///
    /// # Errors
    /// As for [`Compiler::restore_acl_group`].
    pub(crate) fn restored(
        &self,
        (gateway, map): (&Gateway, &Map),
        group: &str,
    ) -> Result<Option<(Elsewhere, AclRestored)>, AclError> {
        let restoring = self.acl.plan_restore(Input { domain: &self.domain, gateway, map }, group)?;
        let elsewhere = restoring.beside.and_then(|beside| elsewhere(gateway, &beside, restoring.restored.rules));
        Ok(elsewhere.map(|own| (own, restoring.restored)))
    }

    /// Returns the groups of a model with the live edits that apply: groups of the model, and then the others by name.
    pub fn groups_of(&self, gateway: &Gateway) -> Vec<AclGroup> {
        self.acl.groups_of(Input { domain: &self.domain, gateway, map: &self.map_of(gateway) })
    }

    /// Makes an access list that is not declared, and that stays until it is deleted, or declared.
    ///
    /// # Errors
    /// If a list of this name exists, a rule cannot be compiled, or there is no room. Then nothing has changed.
    pub fn create_acl(
        &mut self,
        (gateway, map): (&Gateway, &Map),
        list: AclList,
        said: &Said,
    ) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        self.acl.create(Input { domain: &domain, gateway, map }, list, said)
    }

    /// Deletes an access list that was made while the gateway ran.
    ///
    /// # Errors
    /// When there is no such list, interfaces name it, or it is declared.
    pub fn delete_acl(&mut self, (gateway, map): (&Gateway, &Map), list: &str) -> Result<AclEdited, AclError> {
        let domain = self.domain.clone();
        self.acl.delete(Input { domain: &domain, gateway, map }, list)
    }

    /// Returns the edits of access lists and groups that would end with a model, and without which more packets might pass.
    ///
    /// # Errors
    /// When a list of the model has no room.
    pub fn refused_acl_edits(&self, gateway: &Gateway) -> Result<Vec<LostEdits>, TableFull> {
        let lists = self.stage_acls(gateway)?;
        let refused = lists.protecting();
        self.abandon_acls(lists);
        Ok(refused)
    }

    /// Returns all edits of access lists and groups that would end with a model.
    ///
    /// # Errors
    /// When a list of the model has no room.
    pub fn ending_acl_edits(&self, gateway: &Gateway) -> Result<Vec<LostEdits>, TableFull> {
        let lists = self.stage_acls(gateway)?;
        let ending = lists.ending();
        self.abandon_acls(lists);
        Ok(ending)
    }

    /// Stages the access lists of a model with the live edits that apply, for [`Compiler::prepare_with`]. Nothing else may
    /// change in between.
    ///
    /// # Errors
    /// When a list has no room.
    pub fn stage_acls(&self, gateway: &Gateway) -> Result<StagedAcls, TableFull> {
        self.stage_acls_with(gateway, None)
    }

    /// The same with other live edits of groups than those in force.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn stage_acls_with(
        &self,
        gateway: &Gateway,
        groups: Option<&GroupEdits>,
    ) -> Result<StagedAcls, TableFull> {
        let map = self.map_of(gateway);
        self.acl.stage(Input { domain: &self.domain, gateway, map: &map }, groups)
    }

    /// Abandons staged access lists.
    pub fn abandon_acls(&self, lists: StagedAcls) {
        self.acl.abandon(lists);
    }

    /// Changes to access lists and groups that ended with the last models; once.
    pub fn lost_acl_edits(&mut self) -> Vec<LostEdits> {
        self.acl.take_lost()
    }

    /// Returns the decision about a packet for the result of a node's lookup.
    pub fn acl_decision(&self, found: Found) -> Option<AclDecision> {
        self.acl.decision(found)
    }

    /// Returns the origin of the first rule that matches fields of first fragments only, among the lists of an
    /// interface, direction and family. Such a rule holds all later fragments, whether it would match them or not.
    pub(crate) fn acl_needs_transport(
        &self,
        (gateway, map): (&Gateway, &Map),
        interface: u32,
        output: bool,
        family: IpFamily,
    ) -> Option<Origin> {
        self.acl.needs_transport((gateway, map), interface, output, family)
    }

    /// Returns the access lists in the order of the configuration, then the lists that commands created.
    pub fn acl_lists(&self, gateway: &Gateway) -> Vec<AclListStats> {
        self.acl.list_rows(gateway)
    }

    /// Returns up to `most` wanted rules of a list in their order, and the number of all wanted rules. Returns `None`
    /// if there is no such list.
    pub fn acl_rules(
        &self,
        gateway: &Gateway,
        list: &str,
        wanted: impl Fn(&AclRule) -> bool,
        most: usize,
    ) -> Option<(Vec<AclRuleRow>, usize)> {
        self.acl.rule_rows(gateway, list, wanted, most)
    }

    /// Returns the default of a list.
    pub fn acl_default(&self, list: &str) -> Option<AclDefault> {
        self.acl.default_of(list)
    }

    /// Returns the groups that rules may name, in their present state. Groups of the configuration come first
    /// (addresses, ports, interfaces), then groups of live edits, by name. A group that differs from its declaration
    /// has the source of the change.
    pub fn acl_groups(&self, gateway: &Gateway) -> Vec<(AclGroup, Option<Said>)> {
        self.acl.group_rows(gateway)
    }

    /// Returns all access lists without a look at their rules, and whether a group has live edits.
    pub fn acl_briefs(&self) -> (Vec<AclListBrief>, bool) {
        self.acl.briefs()
    }

    /// Returns the live edits of access lists and groups.
    pub fn acl_edits(&self, gateway: &Gateway) -> Vec<AclEditRow> {
        self.acl.edit_rows(gateway)
    }

    /// The sections that lists are compiled to.
    pub fn acl_sections(&self, gateway: &Gateway) -> Vec<AclSectionStats> {
        self.acl.sections(gateway)
    }

    /// Rules of all lists, and octets of what is kept for each rule beside classifiers.
    pub fn acl_occupancy(&self) -> (usize, usize) {
        self.acl.occupancy()
    }

    /// Frees what readers of classifiers have passed.
    pub fn collect_acl(&mut self) {
        self.acl.collect();
    }

    /// Has all rules matched nothing.
    pub fn clear_acl(&mut self) {
        self.acl.clear();
    }
}

/// The effect of a group's change on rules outside of access lists.
pub(crate) struct Elsewhere {
    /// The model with the members that groups have from now on.
    pub(crate) gateway: Gateway,
    /// The live edits of groups from now on.
    pub(crate) edits: GroupEdits,
    /// Rules that name the group, or one that it is in: of access lists and others.
    pub(crate) rules: usize,
}

fn elsewhere(gateway: &Gateway, beside: &Beside, rules: usize) -> Option<Elsewhere> {
    let mut gateway = gateway.clone();
    let groups = beside.groups_of(&gateway.groups);
    regroup(&groups, &mut gateway).then(|| Elsewhere { gateway, edits: beside.group_edits(), rules })
}
