#!/usr/bin/env bash
# The long proofs, one after the other, each with what it did and how long that took: some hours on two cores.
# From anywhere; as root, with the packages that .ci/run installs, nothing is skipped. `run.sh NAME...` does only those;
# FUZZ_SECONDS (900) is for each target. What fails prints what plays it again, and the rest goes on.
set -uo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
wanted=("$@")
failed=()
part() {
    local name=$1 start=$SECONDS
    shift
    [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $name "* ]] || return 0
    echo "==> $name: $*"
    if "$@"; then echo "<== $name: ok, $((SECONDS - start)) s"; else failed+=("$name") && echo "<== $name: FAILED, $((SECONDS - start)) s"; fi
}

fuzz() {
    local target log
    log=$(mktemp)
    [ ! -w /dev/shm ] || export TMPDIR=/dev/shm
    cargo fuzz build --sanitizer=none || return
    for target in $(cargo fuzz list); do
        mkdir -p "fuzz/corpus/$target"
        cargo fuzz run --sanitizer=none "$target" "fuzz/corpus/$target" "tests/corpus/$target" -- \
            -max_total_time="${FUZZ_SECONDS:-900}" -timeout=20 -print_final_stats=1 >"$log" 2>&1 || { tail -n 60 "$log" && return 1; }
        echo "$target: $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs"
    done
}

# Which lines the tests reach. Who is killed leaves half a profile, and is passed over.
coverage() {
    command -v cargo-llvm-cov >/dev/null || { echo "SKIP coverage: cargo-llvm-cov is not here"; return 0; }
    cargo llvm-cov --lib --tests --failure-mode all --ignore-filename-regex tests --summary-only
}

part crash env TAFFRAIL_CRASH=soak cargo test --release --test crash -- --nocapture
part outside env TAFFRAIL_OUTSIDE=all cargo test --release --test outside -- --nocapture
part power env TAFFRAIL_POWER_ROUNDS=3000 cargo test --release --test kill power -- --nocapture
part stress env TAFFRAIL_STRESS_ROUNDS=10000 cargo test --release --test share stress:: -- --nocapture
held=(RUSTC_WORKSPACE_WRAPPER="$PWD/tests/planted.sh" TAFFRAIL_HOLD_UP=30)
part held env "${held[@]}" TAFFRAIL_STRESS_ROUNDS=3000 cargo test --test share stress:: -- --nocapture
part held env "${held[@]}" cargo test --test share -- --skip stress::
part damage env TAFFRAIL_DAMAGE=all TAFFRAIL_DAMAGE_RANDOM=5000000 cargo test --release --test damage -- --nocapture
part model env PROPTEST_CASES=20000 cargo test --release --lib log::tests::model
part plants tests/plants.sh
part unsafe tests/soak/unsafe.sh
part fuzz fuzz
part coverage coverage

[ ${#failed[@]} -eq 0 ] || { echo "FAILED: ${failed[*]}" && exit 1; }
