#!/usr/bin/env bash
# Runs one stage of the tests, as ci/run.sh asks for it.
set -uo pipefail
cd "$(dirname "$0")/.."

# In CI the first failure ends a stage, so that its output comes last. SHUFFLE is a seed for the order.
tests() { .venv/bin/python -m pytest -q --durations 10 --durations-min 5 ${CI:+-x} ${SHUFFLE:+--shuffle "$SHUFFLE"} "$@"; }

# Examples carry no marks of ours.
long_examples=(
    examples/clickstream/tests/test_sessions.py::test_sessions_do_not_depend_on_the_schedule
    examples/scripts/tests/test_jobs.py::test_revenue_does_not_depend_on_the_schedule
)

# The session of the first run leaves an archive of classes, from which those of the second start.
spark() {
    local first=tests/spark/test_snippets.py demo=examples/orders/tests/test_job.py::test_the_demo_shows_its_result
    tests "$first" && tests tests/spark examples --ignore "$first" "${long_examples[@]/#/--deselect=}" --deselect "$demo"
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
    # make test
    check) make check ;;
    wire) tests tests/wire ;;
    cluster) tests -n 2 --dist loadfile tests/cluster --ignore tests/cluster/handles/test_mistakes.py ;; # which is in check
    plugin) tests tests/plugin tests/page ;;
    spark) spark ;;
    docs) tests tests/tidy ;;
    chaos) tests tests/sim tests/chaos tests/fuzz ;;
    # make gates
    oracle) tests tests/wire --oracle -m "gate and not slow" ;;
    more-spark) tests tests/spark tests/plugin -m "gate and not slow" && tests "${long_examples[@]}" && make demo ;;
    install) make .venv/.ready-uv && tests tests/tidy tests/streams tests/cluster -m "gate and not slow" ;;
    takeover) tests tests/cluster/real_servers/test_kafka_takes_over.py -m slow ;;
    # make nightly
    slow) make slow ;;
    connect) tests tests/spark/test_every_helper.py -m gate -n 1 --spark-xdist=shared ;;
    spark-4.3) make matrix ARGS="-s \"spark(python='3.11', pyspark='4.3.0')\"" ;;
    spark-3.5) make matrix ARGS="-s \"spark(python='3.11', pyspark='3.5.9')\"" ;;
    tours) tests tests/wire --oracle -m slow -k "apache and (tour or damaged)" --ignore tests/wire/tools/test_admin_tour.py ;;
    drawn) tests tests/unit tests/cluster/handles/test_wrong_values.py tests/cluster/commands/test_wrong_commands.py --new-examples -m "not slow" ;;
    shuffled) tests tests/unit tests/wire tests/cluster --shuffle ;;
    no-sendfile) tests tests/wire --no-sendfile -m "not java and not slow and not spark" ;;
    hasty) tests tests/wire tests/cluster --hasty -m "not java and not slow and not spark" ;;
    oracle-3.9) tests tests/wire --oracle --oracle-version 3.9.2 -m "gate and not slow" -k apache ;;
    differences) differences ;;
    rounds) make chaos ROUNDS=200 ;;
    histories) make sim SEEDS=5000 ;;
    fuzz) make fuzz INPUTS=200000 ;;
    mutants) .venv/bin/python -m tests.mutants || [ $? = 3 ] ;; # survivors are a list of missing tests
    kerberos) if [ -x /usr/sbin/krb5kdc ]; then make kerberos; else echo "skipped: no KDC"; fi ;;
    demo) make demo ;;
    pages) make docs && git diff --exit-code docs ;;
    coverage) make coverage ;;
    release) make release-check ;;
    bench) make bench-quick ;;
    *) echo "no such stage: ${1-} (ci/run.sh lists them)" >&2; exit 2 ;;
esac
