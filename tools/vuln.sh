#!/usr/bin/env bash
# Checks for known vulnerabilities in the code that is called: vuln.sh [PATTERN...]. Without access to vuln.go.dev it uses the
# database in the module golang.org/x/vulndb at the version below; update that regularly. Without
# either it prints that nothing was checked, and passes: a closed network must not fail a build.
set -euo pipefail
cd "$(dirname "$0")/.."
pin=v0.0.0-20260813214354-9de686e1fb00

packages=("${@:-./...}")
check() { timeout 900 bin/tools/govulncheck "$@" "${packages[@]}" 2>&1; }

rc=0
out=$(check) || rc=$?
if [ $rc -ne 0 ] && grep -q 'fetching vulnerabilities' <<<"$out"; then
	if ! module=$(cd tools && GOWORK=off go mod download -json "golang.org/x/vulndb@$pin"); then
		echo "govulncheck: SKIPPED, nothing was checked: neither vuln.go.dev nor golang.org/x/vulndb can be reached from here"
		exit 0
	fi
	db=$PWD/bin/vulndb
	rm -rf "$db"
	GOWORK=off go -C tools run ./vulndb "$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$module")/data/osv" "$db"
	echo "govulncheck: vuln.go.dev cannot be reached from here: checked against golang.org/x/vulndb@$pin"
	rc=0
	out=$(check -db "file://$db") || rc=$?
fi
printf '%s\n' "$out"
exit $rc
