#!/usr/bin/env bash
# Fuzzes on stable Rust, with coverage but without sanitizers, and without cargo-fuzz.
#
#   fuzz/run.sh [SECONDS] [TARGET…]      60 seconds each unless given; all targets unless named
#
# FUZZ_PROFILE=quick compiles in less time and runs slower.
#
# A target is a file in src/ that src/main.rs names. As many run at a time as there are CPUs. What a target learns stays in corpus/TARGET,
# what makes it fail in artifacts/TARGET; seeds/TARGET, where there is one, is read too. Exits 1 if any target fails.
set -euo pipefail
cd "$(dirname "$0")"

seconds=60
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then
    seconds=$1
    shift
fi

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for file in src/*.rs; do
        target=$(basename "$file" .rs)
        [[ " main check " == *" $target "* ]] || targets+=("$target")
    done
fi

# libfuzzer-sys compiles libFuzzer, which is C++.
compiler=${CXX:-c++}
if ! command -v "${compiler%% *}" >/dev/null; then
    echo "fuzz/run.sh: no C++ compiler: install one (g++ or clang), or name it in CXX" >&2
    exit 1
fi

profile=${FUZZ_PROFILE:-release}
host=$(rustc -vV | sed -n 's/^host: //p')
# With a target of its own, RUSTFLAGS leave build scripts alone: they could not be linked with coverage.
RUSTFLAGS="--cfg fuzzing \
-Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares \
-Ccodegen-units=1 ${RUSTFLAGS:-}" \
    cargo build --profile "$profile" --target "$host"
program=${CARGO_TARGET_DIR:-target}/$host/$profile/weir-fuzz

# Fuzzes one target, and prints at its end what came out.
fuzz() {
    local target=$1 directories=("corpus/$1") log
    mkdir -p "corpus/$target" "artifacts/$target"
    if [ -d "seeds/$target" ]; then
        directories+=("seeds/$target")
    fi
    local options=(-max_total_time="$seconds" -artifact_prefix="artifacts/$target/" -timeout=10 -rss_limit_mb=2048)
    if [ -f "seeds/$target.dict" ]; then
        options+=(-dict="seeds/$target.dict")
    fi
    log=$(mktemp)
    local code=0
    WEIR_FUZZ_TARGET=$target "$program" "${options[@]}" -print_final_stats=1 "${directories[@]}" >"$log" 2>&1 || code=1
    if [ "$code" -eq 0 ]; then
        printf '== %s: %s s\n%s\n' "$target" "$seconds" \
            "$(grep -E '^stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb)|^Done' "$log")"
    else
        printf '== %s FAILED\n%s\n' "$target" "$(tail -n 40 "$log")"
    fi
    rm -f "$log"
    return "$code"
}
export -f fuzz
export seconds program

if ! printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'; then
    echo "fuzz/run.sh: some targets failed" >&2
    exit 1
fi
