#!/usr/bin/env bash
# Compares proto/ with that of each recorded release by the rules in tools/buf, or records it:
#
#   tools/compat.sh check             fail if a change breaks callers, peers or stored data
#   tools/compat.sh record VERSION    write test/compat/testdata/VERSION/api.binpb, once for each release
#
# bin/tools/buf is built by make.
set -euo pipefail
cd "$(dirname "$0")/.."
recorded=${COMPAT_DIR:-test/compat/testdata}

build() { bin/tools/buf build . --config tools/buf/buf.yaml "$@"; }

case "${1-}" in
check)
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	build -o "$tmp/api.binpb"
	failed=0 releases=0
	for release in "$recorded"/*/; do
		[ -d "$release" ] || continue
		old=${release}api.binpb
		[ -e "$old" ] || {
			echo "compat: $old is missing: git restore it, or check its release out and record it again" >&2
			exit 1
		}
		releases=$((releases + 1))
		for rule in api:proto/holdfast internal:proto/internal; do
			bin/tools/buf breaking "$tmp/api.binpb" --against "$old" --config "tools/buf/${rule%%:*}.yaml" --path "${rule#*:}" || {
				failed=1
				echo "compat: the above differs from release $(basename "$release"): restore it, or announce that (docs/support.md) and allow it in tools/buf/${rule%%:*}.yaml" >&2
			}
		done
	done
	[ "$releases" -gt 0 ] || echo "compat: SKIPPED: no release is recorded yet: make compat-record VERSION=0.1.0 does it" >&2
	exit $failed
	;;
record)
	version=${2:?compat: want a version: tools/compat.sh record 0.1.0}
	file=$recorded/$version/api.binpb
	[ ! -e "$file" ] || {
		echo "compat: $file exists: what a release had never changes" >&2
		exit 1
	}
	mkdir -p "$(dirname "$file")"
	build --exclude-source-info -o "$file"
	;;
*)
	echo "usage: tools/compat.sh check|record VERSION" >&2
	exit 2
	;;
esac
