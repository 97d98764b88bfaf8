//! `weir check` as its users see it: each `.trycmd` file shows commands over the files of its folder and all that they
//! print. `TRYCMD=overwrite cargo test -p weir --test check` writes what is printed now; read the difference.

use std::path::Path;

use weir::config::Code;

#[test]
fn what_check_prints() {
    trycmd::TestCases::new().case("tests/check/*.trycmd");
}

/// Nothing that weir can say about a configuration goes unseen.
#[test]
fn every_code_is_shown() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check");
    let mut shown = String::new();
    for entry in folder.read_dir().expect("the folder of the tests").flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "trycmd") {
            shown += &std::fs::read_to_string(entry.path()).expect("a file of text");
        }
    }
    // The first needs a file of 64 MiB. The next need files that their owner alone can read (`sa.rs`), one needs changes by
    // the socket (`control::ipsec`), and the last one depends on the machine (`config::resolve::memory`).
    let untold = [Code::FileTooLarge, Code::DuplicateSpi, Code::KeyReused, Code::LiveRules, Code::BeyondMemory];
    let missing: Vec<&str> = (Code::ALL.iter())
        .filter(|code| !untold.contains(code) && !shown.contains(&format!("[{code}]")))
        .map(|code| code.as_str())
        .collect();
    assert!(missing.is_empty(), "no test shows {missing:?}");
}
