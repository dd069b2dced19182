#!/usr/bin/env bash
# Plants one fault after the other and sees the test fail that is there for it: a test that cannot fail
# proves nothing. DESIGN.md, section 17, says where each fault is.
#
# `tests/plants.sh` plants all of them, `tests/plants.sh NAME...` these.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTC_WORKSPACE_WRAPPER=$PWD/tests/planted.sh
seconds_max=120 # each run

# Which program's test catches a fault. Of the crash images one sequence of steps is enough: 23 is a put to
# a store of a few threads, 59 a compaction; what a sequence is stands in the report of a violation. The
# rounds of kills and stops are of processes that are held up between their steps.
images=what_a_crash_leaves_opens_to_what_was_acknowledged
catchers="
no-sync                crash@23   $images
acknowledged-unsynced  crash@23   $images
manifest-not-synced    crash@23   $images
names-not-synced       crash@23   $images
removed-too-early      crash@59   $images
copy-not-synced        crash@59   $images
sync-tried-again       taffrail   log::tests::syncs::a_failed_sync_reaches_every_waiter_and_is_never_tried_again
shown-unsynced         taffrail   log::tests::syncs::a_failed_sync_reaches_every_waiter_and_is_never_tried_again
end-believed           taffrail   log::tests::syncs::a_failed_sync_reaches_every_waiter_and_is_never_tried_again
end-not-wiped          taffrail   log::tests::torn::openings_that_are_killed_after_writes_that_were
length-not-checked     damage     lengths::a_length_that_lies_costs_its_record_alone
place-not-checked      taffrail   format::frame::tests::a_frame_in_another_place_is_not_believed
hash-not-checked       damage     chains::a_damaged_record_that_is_only_needed_costs_what_needs_it
base-not-checked       taffrail   log::tests::gapped::a_difference_from_what_was_put_again_meanwhile_is_stale
delete-dropped         taffrail   log::tests::compaction::a_delete_is_kept_while_older_segments_hold_what_it_deleted
turn-not-locked        taffrail   log::tests::schedules::a_stopped_process_is_named_and_its_put_is_kept_when_it_goes_on
unlocked-by-child      rules      forked::a_forked_child_is_refused_and_harms_nobody
shown-late             share      stress::acknowledged_puts_of_several_processes_survive_kills_and_stops
"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
build=(cargo test --quiet --no-run --no-default-features --lib --test crash --test damage --test rules --test share)
programs=$("${build[@]}" --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')

# run PLANT PROGRAM[@SEQUENCE] TEST: its output goes to the log, how it ended is the answer.
run() {
    local program only=()
    program=$(grep -E "/${2%@*}-[0-9a-f]+$" <<<"$programs")
    [ "$2" = "${2%@*}" ] || only=("TAFFRAIL_CRASH_ONLY=${2#*@}")
    [ "$2" != share ] || only=(TAFFRAIL_HOLD_UP=30 TAFFRAIL_STRESS_ROUNDS=60)
    env TAFFRAIL_PLANT="$1" RUST_BACKTRACE=0 "${only[@]}" timeout $seconds_max "$program" --exact "$3" >"$log" 2>&1
}
since() { awk -v now="$EPOCHREALTIME" -v start="$1" 'BEGIN { printf "%.1f s", now - start }'; }
told() { tail -n 30 "$log" | sed 's/^/    /'; }

failed=0
while read -r _ program test; do
    run "" "$program" "$test" && grep -q '^test result: ok. 1 passed' "$log" && continue
    echo "FAILED without a fault: $program $test" && told
    failed=1
done < <(awk 'NF == 3 && !seen[$2 $3]++' <<<"$catchers")

while read -r plant program test; do
    [ $# -eq 0 ] || [[ " $* " = *" $plant "* ]] || continue
    start=$EPOCHREALTIME ended=0
    run "$plant" "$program" "$test" || ended=$?
    # A test program in which a test fails ends with 101, and says where; what was killed or crashed does not.
    if [ $ended -eq 101 ] && grep -q 'panicked at' "$log" && grep -q '^test result: FAILED. 0 passed; 1 failed' "$log"; then
        echo "caught: $plant by $program $test in $(since "$start")"
    else
        echo "NOT CAUGHT: $plant by $program $test, which ended with $ended" && told
        failed=1
    fi
done < <(awk 'NF == 3' <<<"$catchers")
exit $failed
