#!/usr/bin/env bash
# Runs the stages of this project's CI, all of them even if one fails, and prints how long each took.
#
#   ci/run.sh                every push
#   ci/run.sh nightly        every night
#   ci/run.sh check spark    only these
set -uo pipefail
cd "$(dirname "$0")/.."

every_push=(check wire cluster takeover chaos plugin spark)
every_night=("${every_push[@]}" slow no-sendfile oracle-3.9 rounds histories fuzz demo docs coverage release bench)

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
        cluster) tests tests/cluster tests/streams && tests -n 2 tests/tidy ;;
        takeover) tests -m slow tests/cluster/test_kafka_takes_over.py ;;
        chaos) tests tests/sim tests/chaos tests/fuzz ;;
        plugin) tests tests/plugin ;;
        spark) tests tests/spark examples ;;
        slow) make slow ;;
        no-sendfile) tests tests/wire --no-sendfile -m "not java and not slow and not spark" ;;
        oracle-3.9) tests tests/wire --oracle --oracle-version 3.9.2 -k apache ;;
        rounds) make chaos ROUNDS=200 ;;
        histories) make sim SEEDS=5000 ;;
        fuzz) make fuzz INPUTS=200000 ;;
        demo) make demo ;;
        docs) make docs && git diff --exit-code docs ;;
        coverage) make coverage ;;
        release) make release-check ;;
        bench) make bench-quick ;;
        *) echo "no such stage: $1 (choose from ${every_night[*]})" >&2; return 2 ;;
    esac
}

failed=0
summary=()
for stage in "${stages[@]}"; do
    echo "::group::$stage"
    begun=$SECONDS
    if run_stage "$stage"; then outcome=passed; else outcome=FAILED; failed=1; fi
    echo "::endgroup::"
    summary+=("$(printf '%-11s %-7s %4d s' "$stage" "$outcome" "$((SECONDS - begun))")")
done

printf '%s\n' "${summary[@]}"
exit "$failed"
