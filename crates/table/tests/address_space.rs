//! A process of its own: other tests would find no address space during this one.

use weir_base::reclaim::Domain;
use weir_table::lpm::{Full, Limits, Writer};
use weir_table::recent;

/// The largest table reserves 8 GiB. A process has 128 TiB, or on request 64 PiB with five levels of page tables.
#[test]
fn a_table_without_address_space_is_an_error() {
    let domain = Domain::new();
    let limits = Limits { max_routes: 1, max_bytes: 1 << 40 };
    let mut tables = Vec::new();
    let error = loop {
        match Writer::<u32>::new(&domain, limits) {
            Ok(writer) => tables.push(writer),
            Err(error) => break error,
        }
        assert!(tables.len() < 1 << 16, "the address space has an end");
    };
    assert!(matches!(error, Full::AddressSpace { octets, .. } if octets == 8 << 30), "{error}");
    let text = error.to_string();
    assert!(text.contains("refuses 8589934592 bytes"), "{text}");
    // Nor is there room for a cache.
    let refused = recent::entries::<[u64; 2]>(100_000_000).unwrap_err();
    assert_eq!(refused.octets, (1 << 29) * 24);
    // There is room again once a table is gone.
    tables.pop();
    Writer::<u32>::new(&domain, limits).unwrap();
}
