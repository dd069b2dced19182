#!/usr/bin/env bash
# The unsafe code, and what workers share, under Miri, AddressSanitizer and ThreadSanitizer.
#   tests/soak/unsafe.sh [miri] [address] [thread]     all of them without an argument; miri alone takes a minute and a half
# Needs a nightly toolchain (TAFFRAIL_NIGHTLY, else "nightly") with miri and rust-src; what is missing is said and passed over.
set -uo pipefail
cd "$(dirname "$0")/../.."
nightly=${TAFFRAIL_NIGHTLY:-nightly}
target=$(rustc -vV | sed -n 's/^host: //p')
built=${CARGO_TARGET_DIR:-$PWD/target}
parts=("${@:-miri address thread}")
failed=0

has() { rustup component list --toolchain "$nightly" --installed 2>/dev/null | grep -q "^$1"; }
# part NAME COMPONENT COMMAND...: runs the command where the component is there and NAME was asked for.
part() {
    local name=$1 component=$2 start=$SECONDS
    [[ " ${parts[*]} " == *" $name "* ]] || return 0
    has "$component" || { echo "SKIP $name: $nightly has no $component"; return 0; }
    CARGO_TARGET_DIR="$built/$name" "${@:3}" || failed=1
    echo "$name: $((SECONDS - start)) s"
}

# Miri knows no file mappings and walks bytes slowly, so it gets what is small and pure, and the page on the heap.
miri() {
    PROPTEST_CASES=${PROPTEST_CASES:-2} MIRIFLAGS=-Zmiri-disable-isolation cargo "+$nightly" miri test --quiet --lib -- \
        format::names format::segment::tests::a_newer delta::rule delta::payload::tests::numbers delta::payload::tests::what_does_not_fit \
        delta::tests::a_delta_that log::heads log::index::tests::a_list log::index::tests::readers log::runs::tests log::tail \
        log::view::tests::an_old fs::page::tests::waiting fs::page::tests::a_wake
}

# Maps, locks, the page and the whole log on real files; left out are the walks over every operation. Leaks are not
# looked for: a test forgets its handle, which is how it stands for a killed process.
address() {
    ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS=-Zsanitizer=address cargo "+$nightly" test --quiet --lib --target "$target" -- fs:: log:: --test-threads=2 \
        --skip log::tests::faults --skip log::tests::survivors --skip log::tests::mended::one_in_doubt
}

# What several workers do at once. The standard library is instrumented too, or it would be told of.
thread() {
    RUSTFLAGS=-Zsanitizer=thread TSAN_OPTIONS="suppressions=$PWD/.ci/tsan.supp" \
        cargo "+$nightly" test --quiet --lib -Zbuild-std --target "$target" -- --test-threads=2 \
        fs::page log::index log::tests::races log::tests::parted log::tests::pressed log::tests::schedules log::tests::shared
}

part miri miri miri
part address rustc address
part thread rust-src thread
exit "$failed"
