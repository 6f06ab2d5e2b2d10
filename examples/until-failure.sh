#!/bin/sh
# Runs a program that records itself until it fails, and keeps the recordings of the run that failed only.
#
#     until-failure.sh [-n MOST-RUNS] PROGRAM [ARGUMENT...]
#
# The files of a run are recognised by the process id of the program: *-PID.undo and *-PID.shmem in the current directory.
# Exit status: 0 if a run failed (its files are there), 1 if none of MOST-RUNS (default 1000) did.
set -u

most_runs=1000
if [ "${1:-}" = "-n" ] && [ $# -ge 2 ]; then
    most_runs=$2
    shift 2
fi
if [ $# -eq 0 ]; then
    echo "usage: $0 [-n MOST-RUNS] PROGRAM [ARGUMENT...]" >&2
    exit 2
fi

output=$(mktemp) || exit 2
trap 'rm -f "$output"' EXIT

run=0
while [ "$run" -lt "$most_runs" ]; do
    run=$((run + 1))
    "$@" >"$output" 2>&1 &
    pid=$!
    wait "$pid"
    status=$?
    if [ "$status" -ne 0 ]; then
        cat "$output"
        echo "Run $run failed with status $status."
        exit 0
    fi
    rm -f ./*-"$pid".undo ./*-"$pid".shmem
done
echo "None of $most_runs runs failed."
exit 1
