//! weir-port
