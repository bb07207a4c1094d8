#!/usr/bin/env bash
# Looks for known vulnerabilities in what the code really calls. On a network without vuln.go.dev it takes the same database out of
# the module golang.org/x/vulndb, as old as the pin below: move it now and then. Without either it says that nothing was checked, and
# passes: a closed network must not fail a build.
set -euo pipefail
cd "$(dirname "$0")/.."
pin=v0.0.0-20260813214354-9de686e1fb00

check() { timeout 900 bin/tools/govulncheck "$@" ./... 2>&1; }

rc=0
out=$(check) || rc=$?
if [ $rc -ne 0 ] && grep -q 'fetching vulnerabilities' <<<"$out"; then
	if ! module=$(cd tools && go mod download -json "golang.org/x/vulndb@$pin"); then
		echo "govulncheck: SKIPPED, nothing was checked: neither vuln.go.dev nor golang.org/x/vulndb can be reached from here"
		exit 0
	fi
	db=$PWD/bin/vulndb
	rm -rf "$db"
	go -C tools run ./vulndb "$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$module")/data/osv" "$db"
	echo "govulncheck: vuln.go.dev cannot be reached from here: checked against golang.org/x/vulndb@$pin"
	rc=0
	out=$(check -db "file://$db") || rc=$?
fi
printf '%s\n' "$out"
exit $rc
