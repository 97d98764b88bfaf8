//! Routes that other sources than the model offer.

use std::sync::Arc;

use super::control::Control;
use super::made::ChangeKind;
use crate::compile::{Offer, RoutesChanged};
use crate::model;
use crate::rib::By;

/// Offers that are applied at a time: in between, others may look at the compiler, and workers see what came so far.
const BATCH: usize = 16_384;

impl Control {
    /// Changes the routes that a source offers for a VRF. Batches of changes come into force one after the other, each at once
    /// for all packets.
    pub fn change_routes(&self, vrf: &str, by: By, offers: Vec<Offer>) -> RoutesChanged {
        let operation = self.operate(ChangeKind::Routes);
        let mut all = RoutesChanged::default();
        let mut offers = offers.into_iter().peekable();
        let mut is_cluttered = false;
        while offers.peek().is_some() {
            let batch: Vec<Offer> = offers.by_ref().take(BATCH).collect();
            let mut compiler = operation.write();
            let (root, changed) = compiler.change_routes(vrf, by, batch);
            self.put_into_force(root);
            compiler.collect();
            is_cluttered |= compiler.is_cluttered();
            drop(compiler);
            all.add(changed);
        }
        drop(operation);
        self.wake();
        if is_cluttered {
            self.compile_again();
        }
        all
    }

    /// Returns the model in force, and the numbers of its interfaces in their order.
    pub fn numbered(&self) -> (Arc<model::Gateway>, Vec<u32>) {
        let (model, map) = self.in_force();
        (model, map.interfaces.clone())
    }
}
