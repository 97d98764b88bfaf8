//! The fast path for the flow of a packet, as explanations and replays have it.

use serde::Serialize;
use weir_plane::harness::{Outcome, Verdict};
use weir_plane::record::{Learning, Unlearned};

/// Whether the flow of a packet is learned, or why not. As JSON, its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FastPath {
    /// Its name.
    pub name: &'static str,
    /// The name in words.
    #[serde(skip)]
    pub sentence: &'static str,
}

impl FastPath {
    /// Returns `None` for packets of interfaces that learn no flows, and for packets that no route sends on.
    pub fn of(outcome: &Outcome) -> Option<FastPath> {
        if outcome.flow == Some(None) {
            return Some(FastPath { name: "hit", sentence: "other packets of the flow take its learned decision" });
        }
        let goes_on = matches!(outcome.verdict, Verdict::Forward | Verdict::Held);
        outcome.learning.filter(|_| goes_on).map(FastPath::new)
    }

    /// Returns the result in words.
    pub fn new(learning: Learning) -> FastPath {
        let (name, sentence) = match learning {
            Learning::Excluded => ("excluded", "packets like this one take no learned decision"),
            Learning::Learned => ("learned", "further packets of the flow take the decision that is learned now"),
            Learning::Refused => ("refused", "not learned, as there is no room or the session has changed"),
            Learning::Not(why) => (why.name(), unlearned(why)),
        };
        FastPath { name, sentence }
    }
}

/// Why no decision is learned.
fn unlearned(why: Unlearned) -> &'static str {
    match why {
        Unlearned::New => "would be learned at a later packet of the flow",
        Unlearned::NoFlow => "not learned, as a rule has `no-flow`",
        Unlearned::Mark => "not learned, as a rule of the lists matches a mark",
        Unlearned::Validation => "not learned, as validation exempts the packet or looks at more than its source",
        Unlearned::Classify => "not learned, as the packet leaves by an interface with classifier tables",
        Unlearned::Spd => "not learned, as a security policy decides about the packet",
        Unlearned::Flow => "learned beside its session, which is of another zone",
        Unlearned::Zones => "not learned here, as another zone with sessions is passed",
        Unlearned::Translation => "not learned, as translations apply and none is the packet's",
        Unlearned::Nat => "not learned here, as the translation has the decisions",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_name() {
        let own = FastPath::new(Learning::Not(Unlearned::NoFlow));
        assert_eq!(serde_json::to_string(&own).unwrap(), "\"no-flow\"");
        assert_eq!(own.sentence, "not learned, as a rule has `no-flow`");
    }
}
