//! weir between real hosts: network namespaces, their kernels' own stacks, and the real program between them.
//!
//! These tests need root, for they make namespaces and devices; nothing leaves the machine. `scripts/test network` builds
//! what they need and runs them, several at a time; tests that measure run alone. Each cleans up behind itself.
//!
//! | variable | |
//! |---|---|
//! | `WEIR_TEST_UNPRIVILEGED=1` | without root, say that nothing was run instead of failing |
//! | `WEIR_TEST_ALL_SIZES=1` | echo requests of every size from 0 to 65,507 octets, not of some |
//! | `WEIR_TEST_DOWNLOAD=MB` | the size of the file in megabytes, 1000 unless given |
//! | `WEIR_TEST_DOWNLOADS=N` | so many downloads through NAT beside a flood, 2,000 unless given |
//! | `WEIR_TEST_BUSY=N` | so many rules in the test of long operations, and twice as many routes; 60,000 unless given |
//! | `WEIR_TEST_CHANGES=SECONDS` | the time under changes of everything, 10 seconds unless given |
//! | `WEIR_TEST_TABLE=FILE` | IPv4 prefixes, one a line, for the test of full tables; 100,000 made ones unless given |
//! | `WEIR_BIN=PATH` | another program than the one that was built beside the tests |

#![forbid(unsafe_code)]

mod acl;
mod bridge;
mod busy;
mod changes;
mod dhcp;
mod doctor;
mod download;
mod ecmp;
mod ending;
mod example;
mod flood;
mod groups;
mod host;
mod idle;
mod iperf;
mod ipsec;
mod lab;
mod links;
mod mtu;
mod nat;
mod nat_hosts;
mod nat_kernel;
mod nat_vrfs;
mod ping;
mod punt;
mod reload;
mod routes;
mod sav;
mod savi;
mod sessions;
mod snoop;
mod supers;
mod traceroute;
mod tunnels;
mod vlan;
mod watch;
