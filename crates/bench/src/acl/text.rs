//! Rule sets as ClassBench writes them.

use std::fmt::Write as _;

use weir_table::classify::{Address, Rule, Span, Upper};
use weir_table::lpm::Key;

/// As ClassBench writes rules.
pub(super) fn text(rules: &[Rule<u32>]) -> String {
    let mut text = String::new();
    let net = |span: &Span<u32>| format!("{}/{}", std::net::Ipv4Addr::from(span.low()), length(span));
    for rule in rules {
        let (from, to) = match rule.upper {
            Upper::Ports { source, destination } => (source, destination),
            _ => (Span::<u16>::ALL, Span::<u16>::ALL),
        };
        let (protocol, mask) = rule.protocol.map_or((0, 0), |protocol| (protocol, 0xff));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "@{}\t{}\t{} : {}\t{} : {}\t{protocol:#04x}/{mask:#04X}\t{:#06x}/{:#06x}",
            net(&rule.source),
            net(&rule.destination),
            from.low(),
            from.high(),
            to.low(),
            to.high(),
            rule.flags.value(),
            rule.flags.mask(),
        );
    }
    text
}

/// The length of the prefix that a span is.
pub(super) fn length<K: Key + Address>(span: &Span<K>) -> u8 {
    (0..=K::BITS)
        .find(|length| span.low().truncate(*length) == span.low() && span.low().saturate(*length) == span.high())
        .unwrap_or(K::BITS)
}
