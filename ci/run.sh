#!/usr/bin/env bash
# What this project's CI runs, one stage after the other: all of them even if one fails, with the
# time each took at the end. `ci/run.sh check spark` runs only those.
set -uo pipefail
cd "$(dirname "$0")/.."

if (($#)); then stages=("$@"); else stages=(check wire cluster plugin spark); fi
make setup || exit 1

tests() { .venv/bin/python -m pytest -q "$@"; }

run_stage() {
    case "$1" in
        check) make check ;;
        wire) tests tests/wire ;;
        cluster) tests tests/cluster tests/sim tests/chaos tests/fuzz tests/streams tests/tidy ;;
        plugin) tests tests/plugin ;;
        spark) tests tests/spark examples ;;
        *) echo "no such stage: $1 (there are check, wire, cluster, plugin and spark)" >&2; return 2 ;;
    esac
}

failed=0
summary=()
for stage in "${stages[@]}"; do
    echo "::group::$stage"
    begun=$SECONDS
    if run_stage "$stage"; then outcome=passed; else outcome=FAILED; failed=1; fi
    echo "::endgroup::"
    summary+=("$(printf '%-10s %-7s %4d s' "$stage" "$outcome" "$((SECONDS - begun))")")
done

printf '%s\n' "${summary[@]}"
exit "$failed"
