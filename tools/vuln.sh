#!/usr/bin/env bash
# Looks for known vulnerabilities in what the code really calls. On a network without vuln.go.dev it says so and passes: a closed
# network must not fail a build, and CI has the network.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(timeout 600 bin/tools/govulncheck ./... 2>&1)
rc=$?
if [ $rc -ne 0 ] && grep -q 'fetching vulnerabilities' <<<"$out"; then
	echo "govulncheck: SKIPPED, nothing was checked: vuln.go.dev cannot be reached from here"
	exit 0
fi
printf '%s\n' "$out"
exit $rc
