//! The tables against their naive twins. One program: what the tests share of the tables is compiled once. Races with readers
//! on other threads are programs of their own.

mod classify;
mod classify_chains;
mod classify_consulted;
mod classify_cover;
mod classify_dense;
mod classify_worst;
mod lpm;
mod masked;

/// A file that neither this program nor Cargo.toml names would not be compiled.
#[test]
fn every_file_is_compiled() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = include_str!("main.rs").to_owned() + include_str!("../Cargo.toml");
    for entry in folder.join("tests").read_dir().unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        assert!(named.contains(&format!("mod {module};")) || named.contains(&format!("tests/{name}")), "{name}");
    }
}
