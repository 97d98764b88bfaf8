//! Edits of a gateway: tables of source address validation, access lists, and groups.

use super::control::Control;
use super::error::EngineError;
use super::made::ChangeKind;
use crate::compile::{
    AclEdit, AclEdited, AclError, AclMembers, AclRestored, AclSaid, Edit, Edited, EntryKey, LostEdits, Names, SavError,
    StageError,
};
use crate::model;

impl Control {
    /// Changes what a source says of the table of a policy: all changes, or none. The time is the system's, in seconds of
    /// the Unix epoch.
    ///
    /// # Errors
    /// If the policy has no table, a change cannot be made, or there is no room.
    pub fn edit_sav(&self, policy: &str, source: &str, edits: &[Edit], time: u64) -> Result<Edited, SavError> {
        let operation = self.operate(ChangeKind::EditSav);
        let (model, _) = self.in_force();
        let mut compiler = operation.write();
        let (edited, root) = compiler.edit_sav(&model, policy, source, edits, time)?;
        self.put_into_force(root);
        Ok(edited)
    }

    /// Makes a source say these entries of the table of a policy and no others.
    ///
    /// # Errors
    /// As for [`Control::edit_sav`].
    pub fn replace_sav(
        &self,
        policy: &str,
        source: &str,
        entries: &[(EntryKey, Names)],
        time: u64,
    ) -> Result<Edited, SavError> {
        let operation = self.operate(ChangeKind::ReplaceSav);
        let (model, _) = self.in_force();
        let plan = operation.read().plan_sav(&model, policy, source, entries, time)?;
        let mut compiler = operation.write();
        let (edited, root) = compiler.carry_out_sav(&model, plan)?;
        self.put_into_force(root);
        Ok(edited)
    }

    /// Has another action than the configured one in force for a policy, from a time on in seconds of the Unix epoch, at once
    /// for all packets; `None`: the configured one again. It stays through reloads as long as the policy does.
    ///
    /// # Errors
    /// When there is no such policy, or it does not say what the action needs.
    pub fn stage_sav(&self, policy: &str, action: Option<model::SavAction>, time: u64) -> Result<(), StageError> {
        let operation = self.operate(ChangeKind::StageSav);
        let (model, _) = self.in_force();
        let mut compiler = operation.write();
        let root = compiler.stage_sav(&model, policy, action, time)?;
        self.put_into_force(root);
        Ok(())
    }

    /// Changes an access list, at once for all packets: all of the change, or none. `edit` gets the model in force, to
    /// resolve the interfaces and groups that rules name. `said` is the source of the change and the system's time.
    ///
    /// # Errors
    /// The errors of `edit`; no such list, rule or place; a rule that cannot be compiled; no room.
    pub fn edit_acl<E: From<AclError>>(
        &self,
        list: &str,
        said: &AclSaid,
        edit: impl FnOnce(&model::Gateway) -> Result<AclEdit, E>,
    ) -> Result<AclEdited, E> {
        let operation = self.operate(ChangeKind::EditList);
        let (model, map) = self.in_force();
        let edit = edit(&model)?;
        let plan = operation.read().plan_acl_edit((&model, &map), list, edit, said)?;
        let publish = |root| self.put_into_force(root);
        Ok(operation.write().carry_out_acl_edit((&model, &map), plan, said, publish)?)
    }

    /// Replaces the members of a group that rules of access lists name, at once for all packets, and in all groups that
    /// contain it. `group` gets the model in force.
    ///
    /// # Errors
    /// The errors of `group`; no such group; no members, or the group in itself; a rule without addresses of its
    /// family; no room.
    pub fn replace_acl_group<E: From<AclError>, M: Into<AclMembers>>(
        &self,
        said: &AclSaid,
        group: impl FnOnce(&model::Gateway) -> Result<M, E>,
    ) -> Result<AclEdited, E> {
        let operation = self.operate(ChangeKind::ReplaceGroup);
        let (model, map) = self.in_force();
        let group = group(&model)?;
        let plan = operation.read().plan_acl_group((&model, &map), group, said)?;
        let publish = |root| self.put_into_force(root);
        Ok(operation.write().carry_out_acl_edit((&model, &map), plan, said, publish)?)
    }

    /// Takes back what a group was given while the gateway runs: one that is declared is as declared again, in all rules at
    /// once; any other is gone.
    ///
    /// # Errors
    /// If there is no such group, or it is as declared, or it cannot be so: rules or groups name one that would go, a
    /// group would contain itself, a rule would have no addresses of its family, or there is no room.
    pub fn restore_acl_group(&self, group: &str) -> Result<AclRestored, AclError> {
        let operation = self.operate(ChangeKind::RestoreGroup);
        let (model, map) = self.in_force();
        let publish = |root| self.put_into_force(root);
        operation.write().restore_acl_group((&model, &map), group, publish)
    }

    /// Creates an access list that the configuration does not have. `list` gets the model in force.
    ///
    /// # Errors
    /// The errors of `list`; a list of this name; a rule that cannot be compiled; no room.
    pub fn create_acl<E: From<AclError>>(
        &self,
        said: &AclSaid,
        list: impl FnOnce(&model::Gateway) -> Result<model::AclList, E>,
    ) -> Result<AclEdited, E> {
        let operation = self.operate(ChangeKind::CreateList);
        let (model, map) = self.in_force();
        let list = list(&model)?;
        Ok(operation.write().create_acl((&model, &map), list, said)?)
    }

    /// Deletes an access list that was made while the gateway ran.
    ///
    /// # Errors
    /// When there is no such list, interfaces name it, or it is declared.
    pub fn delete_acl(&self, list: &str) -> Result<AclEdited, AclError> {
        let operation = self.operate(ChangeKind::DeleteList);
        let (model, map) = self.in_force();
        operation.write().delete_acl((&model, &map), list)
    }

    /// Returns the live edits of access lists and groups that would end with a model, and without which more packets might
    /// pass.
    ///
    /// # Errors
    /// When a list of the model has no room.
    pub fn refused_acl_edits(&self, model: &model::Gateway) -> Result<Vec<LostEdits>, EngineError> {
        Ok(self.look().0.refused_acl_edits(model)?)
    }
}
