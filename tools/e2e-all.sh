#!/usr/bin/env bash
# Runs every end-to-end target in turn, continues after a failure, and prints one table. Exits with 1
# if a target failed.
#
#   tools/e2e-all.sh [target …]    default: all of them
#
# The output of each target is in bin/e2e/TARGET.log, the table in bin/e2e/table.md.
set -uo pipefail
cd "$(dirname "$0")/.."

targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(e2e-bmc e2e-ssh e2e-installer e2e-tar e2e-httpboot e2e-dhcp e2e-repave
	e2e-repave-fails e2e-ansible e2e-kube e2e-ironic e2e-s3 e2e-ui e2e-oidc e2e-terraform)
# There is nothing to upgrade from before the first release.
[ $# -gt 0 ] || [ -z "$(git tag -l 'v[0-9]*')" ] || targets+=(e2e-previous)

mkdir -p bin/e2e
table=bin/e2e/table.md
{
	echo "| target | result | tests | skipped | seconds |"
	echo "|---|---|---|---|---|"
} >"$table"
failed=0
for t in "${targets[@]}"; do
	log=bin/e2e/$t.log
	echo "e2e-all: $t (output in $log)" >&2
	begin=$SECONDS
	if make "$t" >"$log" 2>&1; then result=passed; else result=FAILED; fi
	tests=$(grep -cE '^ *--- PASS' "$log")
	skipped=$(grep -cE '^ *--- SKIP' "$log")
	# A target whose tests were all skipped has failed.
	[ "$result" = FAILED ] || [ "$tests" -gt 0 ] || result="FAILED (no test ran)"
	case $result in FAILED*) failed=1 ;; esac
	echo "| $t | $result | $tests | $skipped | $((SECONDS - begin)) |" >>"$table"
done
echo
cat "$table"
exit $failed
