#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other.
#
#   tools/fuzz.sh 10s    how long each target runs; 100000x counts executions instead
#
# Go 1.26 may end a target with "context deadline exceeded" when its time is up
# (go.dev/issue/75804, fixed in Go 1.27). This error passes if no failing input was written.
set -euo pipefail
cd "$(dirname "$0")/.."
fuzztime=${1:-10s}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log binary=$work/fuzz.test
cache=$(go env GOCACHE)/fuzz # inputs that go test found

# fuzz PACKAGE TARGET runs one target with the binary of the package.
fuzz() {
	echo "--- $1 $2"
	if (cd "$1" && "$binary" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$fuzztime" -test.fuzzminimizetime 100x -test.fuzzcachedir "$cache/$(go list .)") 2>&1 | tee "$log"; then
		return 0
	fi
	if grep -q '^    context deadline exceeded$' "$log" &&
		! grep -qE 'Failing input written|panic:|fatal error:|_test\.go:[0-9]+:' "$log"; then
		echo "--- $1 $2: the time was up and nothing was found (go.dev/issue/75804)"
		return 0
	fi
	echo "fuzz: $2 in $1 failed, see above; a new input is in its testdata/fuzz: commit it with the fix" >&2
	return 1
}

# Only packages with a target are linked.
mapfile -t dirs < <(grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -r dirname | LC_ALL=C sort -u)
targets=0
for dir in "${dirs[@]}"; do
	go test -c -fuzz=. -ldflags='-s -w' -o "$binary" "$dir" # once: linking takes as long as fuzzing a target
	names=$("$binary" -test.list '^Fuzz')
	for name in $(grep '^Fuzz' <<<"$names" || true); do
		fuzz "$dir" "$name"
		targets=$((targets + 1))
	done
done
echo "fuzz: $targets targets, $fuzztime each"
