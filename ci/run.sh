#!/usr/bin/env bash
# Runs stages of the tests side by side, and prints what each took: its time, and its CPU time, which
# does not depend on what runs beside it.
#
#   ci/run.sh test           what contributors run; needs no Apache Kafka
#   ci/run.sh gates          what CI runs after it on every push
#   ci/run.sh nightly        everything there is
#   ci/run.sh check spark    only these
set -uo pipefail
cd "$(dirname "$0")/.."

# Quick news comes first, then the longest.
test=(check spark plugin cluster wire docs chaos)
gates=(oracle more-spark install takeover)
nightly=("${test[@]}" "${gates[@]}" slow connect spark-4.3 spark-3.5 tours drawn shuffled no-sendfile hasty oracle-3.9 differences histories fuzz mutants kerberos demo pages coverage release rounds bench)

night=''
case "${1-}" in
    test) stages=("${test[@]}") ;;
    gates) stages=("${gates[@]}") ;;
    nightly) stages=("${nightly[@]}") night=yes ;;
    *) stages=("$@") ;;
esac
make setup || exit 1

# Tests start hundreds of Python processes. Without bytecode, each would compile all that it imports.
unset PYTHONDONTWRITEBYTECODE

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
limit=${STAGE_LIMIT-$([ "$night" ] && echo 3h || echo 30m)}
export PYTHONFAULTHANDLER=1
run_stage() { # <stage>
    timeout --signal=ABRT --kill-after=60 "$limit" ci/stage.sh "$1" &
    echo "$!" > "$logs/$1.pid"
    local status=0
    wait "$!" || status=$?
    rm "$logs/$1.pid"
    return "$status"
}

# Stages wait about half of their time, so there are twice as many at a time as there are cores; a few
# need the machine to themselves. Each stage has its own temporary directory, because tests look
# there for leftovers of clusters.
most_at_a_time() { # <stage>
    case "$1" in
        rounds | bench) echo 1 ;;
        *) echo $((2 * $(nproc))) ;;
    esac
}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
stop_all() { kill $(cat "$logs"/*.pid) 2> /dev/null; }
# A stage has a process group of its own, which a terminal's Ctrl-C does not reach.
trap 'stop_all; exit 130' INT TERM

run_logged() { # <stage>
    local outcome=passed TIMEFORMAT='%0R %0U %0S'
    mkdir "$logs/$1.tmp"
    { time TMPDIR="$logs/$1.tmp" run_stage "$1" > "$logs/$1.log" 2>&1; } 2> "$logs/$1.time" || outcome=FAILED
    [ -e "$logs/stopped" ] && outcome=stopped
    read -r real user system < "$logs/$1.time"
    printf '%-11s %-7s %4d s %5d CPU s\n' "$1" "$outcome" "$real" "$((user + system))" > "$logs/$1.summary"
    [ "$outcome" = stopped ] && return
    printf '::group::%s\n%s\n::endgroup::\n%s\n' "$1" "$(cat "$logs/$1.log")" "$(cat "$logs/$1.summary")"
}

# The first failure ends a run of CI by day: nothing that comes after it would land.
wait_for_one() {
    wait -n
    if [ -n "${CI-}" ] && [ -z "$night" ] && grep -qs FAILED "$logs"/*.summary; then
        touch "$logs/stopped"
        stop_all
    fi
}

begun=$SECONDS
for stage in "${stages[@]}"; do
    at_a_time=$(most_at_a_time "$stage")
    while (($(jobs -rp | wc -l) >= at_a_time)); do wait_for_one; done
    [ -e "$logs/stopped" ] && break
    echo "$stage begins"
    run_logged "$stage" &
    ((at_a_time > 1)) || wait_for_one
done
while (($(jobs -rp | wc -l))); do wait_for_one; done

echo
ended_badly=()
for stage in "${stages[@]}"; do
    cat "$logs/$stage.summary" 2> /dev/null || echo "$stage did not run"
    grep -qs 'passed\|stopped' "$logs/$stage.summary" || ended_badly+=("$stage")
done
echo "all of it   $((SECONDS - begun)) s"
# Repeats failures last, for those who see only the end of a log.
for stage in "${ended_badly[@]}"; do
    [ -e "$logs/$stage.log" ] || continue
    printf '\n%s ended so:\n' "$stage"
    tail -n 200 "$logs/$stage.log"
done
((${#ended_badly[@]} == 0))
