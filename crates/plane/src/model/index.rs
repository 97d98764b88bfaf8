//! Indices of objects of a model.

/// Index of a VRF in [`Gateway::vrfs`](super::Gateway::vrfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct VrfIndex(pub u16);

/// Index of an interface in [`Gateway::interfaces`](super::Gateway::interfaces).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceIndex(pub u32);
