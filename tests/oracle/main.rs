//! weir against its documentation and the RFCs: black-box tests with evaluators of their own.
//!
//! Each module holds the real program against a second reading of the documentation. The evaluators, packet builders and
//! capture files of these tests share no code with weir. So a mistake in one reading does not hide in the other.
//!
//! | variable | |
//! |---|---|
//! | `WEIR_ORACLE_SEED=N` | the seed of all random choices, 1 unless given; failures print it |
//! | `WEIR_ORACLE_ROUNDS=N` | N times as many random lists, each time with the next seed; 1 unless given |
//! | `WEIR_ORACLE_SHOW=N` | failures show the first N of what is wrong, 5 unless given |
//! | `WEIR_BIN=PATH` | another program than the one that was built beside the tests |

#![forbid(unsafe_code)]

mod acl;
mod fragments;
mod frame;
mod headers;
mod lists;
mod martians;
mod own_ipv6;
mod preview;
mod program;
mod random;
mod vocabulary;
