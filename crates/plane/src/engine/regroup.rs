//! Groups that get other members while packets pass, in access lists and in all other rules that name them.

use super::error::EngineError;
use super::made::ChangeKind;
use super::reload::LostEdit;
use super::running::Engine;
use crate::compile::{AclEdited, AclError, AclGroup, AclMembers, AclRestored, AclSaid, regroup};
use crate::model;

impl Engine {
    /// Gives a group other members, at once in all rules that name it and in all groups that contain it. `group` gets the model in
    /// force. If rules outside of access lists get other members, the model with them is compiled as at a reload; `check` gets it
    /// before. Returns also the number of translations that ended.
    ///
    /// # Errors
    /// The errors of `group` and `check`; those of [`Control::replace_acl_group`](super::Control::replace_acl_group); no room.
    pub fn replace_group<E: From<AclError> + From<EngineError>, M: Into<AclMembers>>(
        &self,
        said: &AclSaid,
        group: impl FnOnce(&model::Gateway) -> Result<M, E>,
        check: impl FnOnce(&model::Gateway) -> Result<(), E>,
    ) -> Result<(AclEdited, usize), E> {
        let control = &*self.control;
        let operation = control.operate(ChangeKind::ReplaceGroup);
        let (model, map) = control.in_force();
        let members: AclMembers = group(&model)?.into();
        let elsewhere = operation.read().regrouped((&model, &map), members.clone(), said)?;
        let Some(elsewhere) = elsewhere else {
            let plan = operation.read().plan_acl_group((&model, &map), members, said)?;
            let publish = |root| control.put_into_force(root);
            let edited = operation.write().carry_out_acl_edit((&model, &map), plan, said, publish)?;
            return Ok((edited, 0));
        };
        check(&elsewhere.gateway)?;
        let edits = (LostEdit::Refuse, Some(&elsewhere.edits));
        let reloaded = self.put(&operation, elsewhere.gateway, edits, |_| ()).map_err(E::from)?;
        Ok((AclEdited { rules: elsewhere.rules, ..AclEdited::default() }, reloaded.translations))
    }

    /// Takes back what a group was given while the gateway runs, likewise.
    ///
    /// # Errors
    /// The errors of `check`; those of [`Control::restore_acl_group`](super::Control::restore_acl_group); no room.
    pub fn restore_group<E: From<AclError> + From<EngineError>>(
        &self,
        group: &str,
        check: impl FnOnce(&model::Gateway) -> Result<(), E>,
    ) -> Result<(AclRestored, usize), E> {
        let control = &*self.control;
        let operation = control.operate(ChangeKind::RestoreGroup);
        let (model, map) = control.in_force();
        let elsewhere = operation.read().restored((&model, &map), group)?;
        let Some((elsewhere, restored)) = elsewhere else {
            let publish = |root| control.put_into_force(root);
            let restored = operation.write().restore_acl_group((&model, &map), group, publish)?;
            return Ok((restored, 0));
        };
        check(&elsewhere.gateway)?;
        let edits = (LostEdit::Refuse, Some(&elsewhere.edits));
        let reloaded = self.put(&operation, elsewhere.gateway, edits, |_| ()).map_err(E::from)?;
        Ok((restored, reloaded.translations))
    }

    /// Returns the groups of a model with the live edits that would apply to it: groups of the model, and then the others by name.
    pub fn groups_of(&self, model: &model::Gateway) -> Vec<AclGroup> {
        self.control.look().0.groups_of(model)
    }

    /// Gives the rules of a model outside of access lists the members that their groups would have. Returns the groups.
    pub fn regroup(&self, model: &mut model::Gateway) -> Vec<AclGroup> {
        let groups = self.groups_of(model);
        regroup(&groups, model);
        groups
    }
}
