//! What is compiled here, once for each family, and not again by every crate that calls it.
//!
//! A generic function is compiled where its types are filled in. The large ones of a classifier took more time in the crates
//! that use them, and in their tests, than all the rest of these.

use super::arch::{self, View};
use super::cover::{self, Effort, Listed, Report};
use super::small::{self, Inner};
use super::tree::{Refusal, Tree};
use super::{Error, Fields, Rule, Small};

/// The functions that are compiled for a family. Those who call them by their own names find what they do there.
pub trait Compiled: Sized {
    /// [`arch::lookup`].
    ///
    /// # Safety
    /// As there.
    unsafe fn lookup(view: &View, packets: &[Fields<Self>], places: Option<&mut [u64]>, found: &mut [u32]);
    /// [`Tree::load`].
    fn load(tree: &mut Tree<Self>, rules: Vec<(u64, Rule<Self>, u32)>) -> Result<(), Refusal>;
    /// [`Tree::insert`].
    fn insert(tree: &mut Tree<Self>, place: u64, rule: Rule<Self>, identity: u32) -> Result<(), Refusal>;
    /// [`Tree::remove`].
    fn remove(tree: &mut Tree<Self>, place: u64) -> Result<Option<u32>, Refusal>;
    /// [`Small::build`].
    fn build_small(rules: &[&Rule<Self>], identities: Vec<u32>) -> Small<Self>;
    /// [`Small::lookup_each`].
    fn lookup_small(rules: &Inner<Self>, packets: &[Fields<Self>], found: &mut [u32]);
    /// [`cover::analyse`], or [`cover::never`] where nothing is said of packets that no rule matches.
    fn analyse(list: &[Listed<'_, Self>], unmatched: Option<u32>, effort: Effort) -> Result<Report, Error>;
}

macro_rules! compile {
    ($($family:ty),*) => {$(
        impl Compiled for $family {
            unsafe fn lookup(view: &View, packets: &[Fields<Self>], places: Option<&mut [u64]>, found: &mut [u32]) {
                // SAFETY: the caller's promise.
                unsafe { arch::lookup(view, packets, places, found) }
            }

            fn load(tree: &mut Tree<Self>, rules: Vec<(u64, Rule<Self>, u32)>) -> Result<(), Refusal> {
                tree.load(rules)
            }

            fn insert(tree: &mut Tree<Self>, place: u64, rule: Rule<Self>, identity: u32) -> Result<(), Refusal> {
                tree.insert(place, rule, identity)
            }

            fn remove(tree: &mut Tree<Self>, place: u64) -> Result<Option<u32>, Refusal> {
                tree.remove(place)
            }

            fn build_small(rules: &[&Rule<Self>], identities: Vec<u32>) -> Small<Self> {
                small::build(rules, identities)
            }

            fn lookup_small(rules: &Inner<Self>, packets: &[Fields<Self>], found: &mut [u32]) {
                small::lookup(rules, packets, found);
            }

            fn analyse(
                list: &[Listed<'_, Self>],
                unmatched: Option<u32>,
                effort: Effort,
            ) -> Result<Report, Error> {
                cover::find(list, unmatched, effort)
            }
        }
    )*};
}

compile!(u32, u128);
