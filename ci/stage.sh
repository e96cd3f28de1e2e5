#!/usr/bin/env bash
# Runs one stage of this project's CI, as ci/run.sh asks for it.
set -uo pipefail
cd "$(dirname "$0")/.."

tests() { .venv/bin/python -m pytest -q --durations 10 --durations-min 5 "$@"; }

# The session of the first run leaves an archive of classes, from which those of the second start.
spark() {
    local failed=0 first=tests/spark/test_snippets.py
    EMBEDKAFKA_SPARK_ARCHIVE=new tests "$first" || failed=1
    tests tests/spark tests/real_clusters examples --ignore "$first" || failed=1
    return "$failed"
}

# consumer-groups is left out: Kafka's assignor chooses among equals by the order of hash maps.
differences() {
    local failed=0 family
    for family in records classic-groups transactions topics; do
        .venv/bin/python -m tests.wire.differential --family "$family" --keep-going || failed=1
    done
    return "$failed"
}

case "${1-}" in
    check) make check ;;
    wire) tests tests/wire --oracle ;;
    cluster) tests tests/cluster tests/streams ;;
    tidy) tests -n 2 tests/tidy ;;
    takeover) tests -m slow tests/cluster/test_kafka_takes_over.py ;;
    chaos) tests tests/sim tests/chaos tests/fuzz ;;
    plugin) tests tests/plugin tests/page ;;
    spark) spark ;;
    slow) make slow ;;
    no-sendfile) tests tests/wire --no-sendfile -m "not java and not slow and not spark" ;;
    hasty) tests tests/wire tests/cluster --hasty -m "not java and not slow and not spark" ;;
    oracle-3.9) tests tests/wire --oracle --oracle-version 3.9.2 -k apache ;;
    differences) differences ;;
    rounds) make chaos ROUNDS=200 ;;
    histories) make sim SEEDS=5000 ;;
    fuzz) make fuzz INPUTS=200000 ;;
    kerberos) if [ -x /usr/sbin/krb5kdc ]; then make kerberos; else echo "skipped: no KDC"; fi ;;
    demo) make demo ;;
    docs) make docs && git diff --exit-code docs ;;
    coverage) make coverage ;;
    release) make release-check ;;
    bench) make bench-quick ;;
    *) echo "no such stage: ${1-} (ci/run.sh lists them)" >&2; exit 2 ;;
esac
