//! A model that is compiled, before there are workers.

use std::collections::HashSet;
use std::sync::Arc;

use weir_base::reclaim::{Domain, Published};

use crate::compile::{Compiler, Map, Places, Settings, TableFull};
use crate::model;
use crate::neighbor::Link;
use crate::neighbor::control::{self, Keeper};
use crate::root::Root;

/// A model that is compiled, with all that its control side goes on with.
pub(super) struct Compiled {
    pub(super) model: model::Gateway,
    pub(super) map: Map,
    pub(super) places: Places,
    pub(super) keeper: Keeper,
    pub(super) compiler: Compiler,
    pub(super) domain: Domain,
    /// For the workers.
    pub(super) root: Arc<Published<Root>>,
    /// The root of the compiler.
    pub(super) made: Root,
    /// Links that the keeper has not adopted yet.
    pub(super) links: Vec<Link>,
}

impl Compiled {
    /// Compiles a model whose interfaces stand at `places`. `announces` are the ports, by the model's index, behind which there may
    /// be stations that the gateway does not know of.
    ///
    /// # Errors
    /// When a table has no room.
    pub(super) fn new(
        model: model::Gateway,
        settings: Settings,
        keeper: Keeper,
        mut places: Places,
        announces: &HashSet<u32>,
    ) -> Result<Compiled, TableFull> {
        let domain = Domain::new();
        let mut compiler = Compiler::new(&domain, settings, model.limits);
        let acls = compiler.stage_acls(&model)?;
        let unusable = |links: &[Link]| keeper.unusable(links);
        let announces = |index| announces.contains(&index);
        let (prepared, links) = control::prepare(&compiler, acls, unusable, &model, &mut places, announces)?;
        let (made, map) = compiler.commit(&model, prepared, true);
        drop(compiler.take_rubbish());
        let root = Arc::new(Published::new(made.clone(), &domain));
        Ok(Compiled { model, map, places, keeper, compiler, domain, root, made, links })
    }
}
