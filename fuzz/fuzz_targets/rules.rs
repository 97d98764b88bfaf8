//! Rules, one a line: whatever the text, an answer within it; what is read prints back.

#![no_main]

#[path = "check/rules.rs"]
mod check;

use libfuzzer_sys::fuzz_target;
use weir::rules::Format;

fuzz_target!(|text: &[u8]| check::holds(Format::Rules, text));
