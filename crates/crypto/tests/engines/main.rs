//! The engines: against published vectors, against each other, and against another implementation of CCM.

mod agree;
mod ccm;
mod common;
mod vectors;
