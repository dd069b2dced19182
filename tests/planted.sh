#!/bin/sh
# The compiler as cargo calls it for this workspace's own crates alone (RUSTC_WORKSPACE_WRAPPER): with the faults that
# tests/plants.sh plants. What they depend on is built as for every other test.
exec "$@" --cfg taffrail_plants
