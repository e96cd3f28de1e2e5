#!/usr/bin/env bash
# Runs the stages of this project's CI, all of them even if one fails, and prints what each took: its
# time, and its CPU time, which does not depend on what runs beside it.
#
#   ci/run.sh                every push
#   ci/run.sh nightly        every night
#   ci/run.sh check spark    only these
set -uo pipefail
cd "$(dirname "$0")/.."

# After the quick one, the longest come first: two run at a time.
every_push=(check spark wire cluster plugin tidy chaos takeover)
every_night=("${every_push[@]}" slow no-sendfile oracle-3.9 differences rounds histories fuzz kerberos demo docs coverage release bench)

case "${1-}" in
    "") stages=("${every_push[@]}") ;;
    nightly) stages=("${every_night[@]}") ;;
    *) stages=("$@") ;;
esac
make setup || exit 1

# Debian's packages that tests of a stage need. Without them, these tests are skipped.
packages_of() { # <stage>
    case "$1" in
        cluster) echo kcat ;;
        plugin) echo chromium ;;
        kerberos) echo krb5-kdc krb5-admin-server krb5-user libkrb5-dev ;;
    esac
}

# A machine of CI may be changed, a developer's not.
if [ -n "${CI-}" ]; then
    # shellcheck disable=SC2046  # one word for each package
    ci/packages.sh $(for stage in "${stages[@]}"; do packages_of "$stage"; done)
fi

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

run_stage() {
    case "$1" in
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
        *) echo "no such stage: $1 (choose from ${every_night[*]})" >&2; return 2 ;;
    esac
}

# Stages mostly wait, so two at a time take little longer than the longer one. At night, chaos and
# benchmarks need the machine to themselves. Each stage has its own temporary directory, because
# tests look there for leftovers of clusters.
at_a_time=2
[ "${1-}" = nightly ] && at_a_time=1
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run_logged() { # <stage>
    local outcome=passed TIMEFORMAT='%0R %0U %0S'
    mkdir "$logs/$1.tmp"
    { time TMPDIR="$logs/$1.tmp" run_stage "$1" > "$logs/$1.log" 2>&1; } 2> "$logs/$1.time" || outcome=FAILED
    read -r real user system < "$logs/$1.time"
    printf '%-11s %-7s %4d s %5d CPU s\n' "$1" "$outcome" "$real" "$((user + system))" > "$logs/$1.summary"
    printf '::group::%s\n%s\n::endgroup::\n%s\n' "$1" "$(cat "$logs/$1.log")" "$(cat "$logs/$1.summary")"
}

for stage in "${stages[@]}"; do
    while (($(jobs -rp | wc -l) >= at_a_time)); do wait -n; done
    echo "$stage begins"
    run_logged "$stage" &
done
wait

echo
failed=0
for stage in "${stages[@]}"; do
    cat "$logs/$stage.summary" || failed=1
    grep -q passed "$logs/$stage.summary" || failed=1
done
exit "$failed"
