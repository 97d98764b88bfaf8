//! The command line as its users see it: each `.trycmd` file shows commands and all that they print.
//! `TRYCMD=overwrite cargo test -p weir --test cli` writes what is printed now; read the difference.

#[test]
fn what_commands_print() {
    trycmd::TestCases::new().env("WEIR_SOCKET", "/nonexistent/control.sock").case("tests/cli/*.trycmd");
}
