//! weir-plane

pub mod model;
