#!/usr/bin/env bash
# Builds this tree and another commit, and compares them (make bench-compare). Usage:
#
#   tools/bench-compare.sh REF [PARTS [ARG...]]
#
# PARTS are those of `holdfast-bench compare`, separated by commas. ARGs are passed to it. The
# other commit is checked out in a temporary directory, which is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

ref=${1:?usage: tools/bench-compare.sh REF [PARTS [ARG...]]}
parts=${2:-}
shift "$(($# < 2 ? $# : 2))"
commit=$(git rev-parse --verify --quiet "$ref^{commit}") || {
	echo "bench-compare: REF=$ref is not a commit of this repository" >&2
	exit 2
}

dir=$(mktemp -d "${TMPDIR:-/tmp}/bench-compare-XXXXXX")
cleanup() {
	git worktree remove --force "$dir/tree" 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# build TREE DIR VERSION builds holdfast and the Go benchmarks of a tree.
build() {
	go -C "$1" build -ldflags "-X main.version=$3" -o "$2/holdfast" ./cmd/holdfast
	go -C "$1" test -c -o "$2/fsm.test" ./fsm
}

git worktree add --quiet --detach "$dir/tree" "$commit"
echo "bench-compare: building $(git log -1 --format='%h %s' "$commit") and this tree" >&2
build "$dir/tree" "$dir/ref" "$(git describe --match 'v[0-9]*' --always "$commit")"
build . "$dir/this" "$(git describe --match 'v[0-9]*' --always --dirty)"
go build -ldflags "-X main.version=$(git describe --match 'v[0-9]*' --always --dirty)" -o "$dir/this/holdfast-bench" ./bench/holdfast-bench
"$dir/this/holdfast-bench" compare --ref "$dir/ref" ${parts:+--only "$parts"} "$@"
