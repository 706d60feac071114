#!/usr/bin/env bash
# Searches for inputs that a decoder does not bear, with libFuzzer: tests/fuzz/run.sh [SECONDS] [DECODER…]
#
# SECONDS (60) are for each decoder; as many run side by side as there are processors. Needs a nightly compiler (TOOLCHAIN=…
# names another) and g++. What is found stays in target/fuzz/: DIR/crash-…, with DIR/log; what led to new code, in DIR/corpus.
# Copy a crash into tests/fuzz/corpus/DECODER/ together with its fix: the test command runs it from then on.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
shift || true
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz
mkdir -p "$work"

# What `cargo fuzz` gives the compiler: edges, comparisons, and AddressSanitizer.
target=$(rustc -vV | sed -n 's/^host: //p')
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address"
flags+=" -Cdebug-assertions -Ccodegen-units=4 --cfg fuzzing"
RUSTFLAGS="$flags" cargo "+${TOOLCHAIN:-nightly}" build --release --locked --quiet --target "$target" --target-dir "$work/build" \
    -p tideline-fuzz --features tideline-fuzz/libfuzzer,tideline/faults
program=$work/build/$target/release/tideline-fuzz

run() { # SECONDS DECODER
    local dir=$work/$2
    mkdir -p "$dir/corpus" "$dir/tmp"
    (cd "$dir" && TMPDIR=$dir/tmp TIDELINE_FUZZ=$2 ASAN_OPTIONS=detect_leaks=0 "$program" -max_total_time="$1" -max_len=49152 \
        -rss_limit_mb=3072 -timeout=10 -print_final_stats=1 -verbosity=1 corpus "$OLDPWD/tests/fuzz/corpus/$2" >log 2>&1) && end=ok || end=CRASH
    rm -r "$dir/tmp"
    local runs cov
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/log")
    cov=$(grep -o 'cov: [0-9]*' "$dir/log" | tail -1)
    echo "$2: ${runs:-?} executions, ${cov:-cov: ?}, $(find "$dir/corpus" -type f | wc -l) new inputs, $end"
    [ $end = ok ] || { grep -m3 -E 'panicked|ERROR:|Test unit written' -A1 "$dir/log"; exit 1; }
}
export -f run
export work program
[ $# -gt 0 ] || set -- $(ls tests/fuzz/corpus)
printf '%s\n' "$@" | xargs -P "${JOBS:-$(nproc)}" -I '{}' bash -c "run $seconds {}"
