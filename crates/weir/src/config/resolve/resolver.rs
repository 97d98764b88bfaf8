//! The state of resolving: the declared objects by name, and findings so far.

use std::collections::HashMap;

use weir_plane::model::{InterfaceIndex, Origins, SaIndex, SourceIndex, VrfIndex};

use super::super::declare::Declared;
use super::super::diagnostic::Diagnostic;
use super::super::source::Sources;
use super::known::{Access, Connected, Policies, Samplers};

/// The objects by name, and what is known of them so far.
pub(super) struct Resolver<'a> {
    pub(super) declared: &'a Declared,
    pub(super) sources: &'a Sources,
    pub(super) diagnostics: &'a mut Vec<Diagnostic>,
    pub(super) vrfs: HashMap<&'a str, VrfIndex>,
    /// Declared interfaces by name, as indices of `declared.interfaces`; of equal names, the first.
    pub(super) interfaces: HashMap<&'a str, usize>,
    /// The VRF of each declared interface, where it is known.
    pub(super) vrf_of: Vec<Option<VrfIndex>>,
    /// The index in the model of each declared interface that has one.
    pub(super) index_of: Vec<Option<InterfaceIndex>>,
    pub(super) connected: Connected,
    pub(super) policies: Policies<'a>,
    pub(super) samplers: Samplers<'a>,
    pub(super) access: Access<'a>,
    /// Pairs of SAs by name.
    pub(super) sas: HashMap<&'a str, SaIndex>,
    /// Declared bridges by name, as indices of `declared.bridges`; of equal names, the first.
    pub(super) bridges: HashMap<&'a str, u16>,
    pub(super) origins: Origins,
    pub(super) origin_sources: Vec<SourceIndex>,
    /// Rules are to be searched for such as could be left out, which takes a while.
    pub(super) thorough: bool,
    /// The objects come beside a model in force, whose places they may have again.
    pub(super) is_beside: bool,
}
