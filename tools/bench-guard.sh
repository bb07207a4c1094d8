#!/usr/bin/env bash
# Runs the tests that hold the budgets of internal/guard/budgets.txt and prints the table. They count
# allocations, bytes and writes, no times, so that they mean the same on each machine.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
mapfile -t packages < <(git grep -lE '^func Test(Guard|Allocs)' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,')
go test -count=1 -short -v -run '^Test(Guard|Allocs)' "${packages[@]}" >"$log" 2>&1 || status=$?
{
	echo COUNT MEASURED BUDGET
	sed -nE 's/^ +[a-z_0-9]+\.go:[0-9]+: guard: //p' "$log"
} | column -t
if [ $status -ne 0 ]; then
	grep -E '^ +[a-z_0-9]+\.go:[0-9]+: |^(FAIL|panic)|^[^ ]+\.go:|cannot|error' "$log" | grep -v ': guard: ' >&2
elif ! grep -q ': guard: ' "$log"; then
	echo 'bench-guard: no budget was checked' >&2
	status=1
fi
exit $status
