#!/usr/bin/env bash
# Runs the stages of this project's CI, all of them even if one fails, and prints what each took: its
# time, and its CPU time, which does not depend on what runs beside it.
#
#   ci/run.sh                every push
#   ci/run.sh nightly        every night
#   ci/run.sh check spark    only these
set -uo pipefail
cd "$(dirname "$0")/.."

# The longest come first.
every_push=(wire spark plugin cluster check tidy takeover chaos)
every_night=("${every_push[@]}" slow no-sendfile hasty oracle-3.9 differences rounds histories fuzz kerberos demo docs coverage release bench)

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

# A stage that hangs ends after this time, long before the machine's own limit would end the whole
# run without a word. SIGABRT makes every Python process write the stacks of its threads.
limit=${STAGE_LIMIT-30m}
[ "${1-}" = nightly ] && limit=3h
export PYTHONFAULTHANDLER=1
run_stage() { # <stage>
    timeout --signal=ABRT --kill-after=60 "$limit" ci/stage.sh "$1" &
    echo "$!" > "$logs/$1.pid"
    local status=0
    wait "$!" || status=$?
    rm "$logs/$1.pid"
    return "$status"
}

# Stages wait much of their time, so there is one more at a time than there are cores. At night, chaos
# and benchmarks need the machine to themselves. Each stage has its own temporary directory, because
# tests look there for leftovers of clusters.
at_a_time=$(($(nproc) + 1))
[ "${1-}" = nightly ] && at_a_time=1
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# A stage has a process group of its own, which a terminal's Ctrl-C does not reach.
trap 'kill $(cat "$logs"/*.pid) 2> /dev/null; exit 130' INT TERM

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
ended_badly=()
for stage in "${stages[@]}"; do
    cat "$logs/$stage.summary" || failed=1
    grep -q passed "$logs/$stage.summary" && continue
    failed=1
    ended_badly+=("$stage")
done
# Once more at the end, where whoever sees only the last lines of a log finds it.
for stage in "${ended_badly[@]}"; do
    printf '\n%s ended so:\n' "$stage"
    tail -n 200 "$logs/$stage.log"
done
exit "$failed"
