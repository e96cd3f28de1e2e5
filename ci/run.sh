#!/usr/bin/env bash
# What this project's CI runs, one stage after the other: all of them even if one fails, with the
# time each took at the end. `ci/run.sh check spark` runs only those, `ci/run.sh nightly` all there are.
set -uo pipefail
cd "$(dirname "$0")/.."

every_push=(check wire cluster takeover chaos plugin spark)
every_night=("${every_push[@]}" slow oracle-3.9 rounds histories fuzz demo docs bench)

case "${1-}" in
    "") stages=("${every_push[@]}") ;;
    nightly) stages=("${every_night[@]}") ;;
    *) stages=("$@") ;;
esac
make setup || exit 1

tests() { .venv/bin/python -m pytest -q "$@"; }

run_stage() {
    case "$1" in
        check) make check ;;
        wire) tests tests/wire --oracle ;;
        cluster) tests tests/cluster tests/streams tests/tidy ;;
        takeover) tests -m slow tests/cluster/test_kafka_takes_over.py ;;
        chaos) tests tests/sim tests/chaos tests/fuzz ;;
        plugin) tests tests/plugin ;;
        spark) tests tests/spark examples ;;
        slow) make slow ;;
        oracle-3.9) tests tests/wire --oracle --oracle-version 3.9.2 ;;
        rounds) make chaos ROUNDS=200 ;;
        histories) make sim SEEDS=5000 ;;
        fuzz) make fuzz INPUTS=200000 ;;
        demo) make demo ;;
        docs) make docs && git diff --exit-code docs ;;
        bench) make bench-quick ;;
        *) echo "no such stage: $1 (there are ${every_night[*]})" >&2; return 2 ;;
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
