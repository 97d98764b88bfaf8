//! The engines: against published vectors, against a naive twin, against each other, and against another implementation of CCM.

mod agree;
mod algorithm;
mod ccm;
mod common;
mod naive;
mod native;
mod vectors;
