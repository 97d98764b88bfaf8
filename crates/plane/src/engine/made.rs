//! The kinds of changes that the control side makes, and how many it has made of each.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! kinds {
    ($($name:ident $doc:literal;)*) => {
        /// A kind of change. Each operation names its kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ChangeKind {
            $(#[doc = $doc] $name,)*
        }

        impl ChangeKind {
            /// All kinds.
            pub const ALL: &[ChangeKind] = &[$(ChangeKind::$name,)*];
        }
    };
}

kinds! {
    Model "Another model, or the same one again.";
    Links "Links of ports went up or down.";
    Routes "A source of routes changed its routes.";
    Ipsec "SAs and security policies alone.";
    EditSav "Some entries of a policy of source address validation.";
    ReplaceSav "All entries that a source gave a policy.";
    StageSav "The action of a policy on trial.";
    EditList "Rules of an access list.";
    CreateList "An access list that the configuration does not have.";
    DeleteList "The end of such a list.";
    ReplaceGroup "Other members of a group.";
    RestoreGroup "The declared members of a group again.";
    ClearCounters "Counters of rules begin with 0.";
    ClearFlows "Sessions or translations end.";
    ClearMacs "A bridge forgets stations.";
    TendSas "SAs come to the end of a lifetime, or send keepalives.";
    Neighbors "Neighbours, and bindings that were learned.";
}

/// How many changes of each kind were begun.
#[derive(Debug)]
pub(super) struct Made([AtomicU64; ChangeKind::ALL.len()]);

impl Made {
    pub(super) fn none() -> Made {
        Made([const { AtomicU64::new(0) }; ChangeKind::ALL.len()])
    }

    pub(super) fn count(&self, kind: ChangeKind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (ChangeKind, u64)> + '_ {
        ChangeKind::ALL.iter().zip(&self.0).map(|(&kind, count)| (kind, count.load(Ordering::Relaxed)))
    }
}
