#!/usr/bin/env bash
# Builds a release in DIR (default: bin/release/VERSION): release.sh VERSION [DIR]. It has static binaries
# for Linux (ARCHES="amd64 arm64"), debs, rpms, OCI images, bills of materials and SHA256SUMS; with
# ONLY=images, it adds the images to DIR. The same commit and version of Go produce the same bytes;
# SOURCE_DATE_EPOCH defaults to the time of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 out=${2:-bin/release/$1} arches=${ARCHES:-amd64 arm64}
if ! [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]]; then
	echo "release: \"$version\" is not a version such as 1.2.3 or 1.2.3-rc1" >&2
	exit 2
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} TZ=UTC LC_ALL=C CGO_ENABLED=0
export GOFLAGS=-buildvcs=false # VERSION is the version; git fails if another user owns the checkout
umask 022
[ -z "$(git status --porcelain 2>/dev/null)" ] || echo "release: the checkout has uncommitted changes: this build cannot be repeated" >&2
stage=$out.stage
only=${ONLY:-}
[ "$only" = images ] || rm -rf "$out"
rm -rf "$stage"
mkdir -p "$out" "$stage/man" "$stage/completion"

build() { go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$@"; }
for arch in $arches; do
	for binary in holdfast holdfast-agent; do
		GOOS=linux GOARCH=$arch build "$stage/$arch/$binary" "./cmd/$binary"
	done
done

packages=()
if [ "$only" != images ]; then
	# A binary for this machine prints manual pages and completions.
	self=$stage/$(go env GOHOSTARCH)/holdfast
	[ "$(go env GOHOSTOS)" = linux ] && [ -x "$self" ] || {
		self=$stage/self
		build "$self" ./cmd/holdfast
	}
	"$self" man "$stage/man"
	gzip -9n "$stage"/man/*.1
	for shell in bash zsh fish; do
		"$self" completion "$shell" >"$stage/completion/holdfast.$shell"
	done
	# Packages install binaries in /usr/bin; /usr/local is for other ways to install.
	for unit in holdfast holdfast-agent; do
		sed 's,/usr/local/bin/,/usr/bin/,g' "deploy/systemd/$unit.service" >"$stage/$unit.service"
	done
	packages=(deploy/packages/holdfast.yaml deploy/packages/holdfast-agent.yaml)
fi

go -C tools/release build -trimpath -o ../../bin/tools/release .
bin/tools/release -version "$version" -stage "$stage" -out "$out" -arches "${arches// /,}" -revision "$(git rev-parse HEAD 2>/dev/null)" -images holdfast,holdfast-agent "${packages[@]}"
rm -rf "$stage"
echo "$out:"
ls -l "$out" | awk 'NR > 1 { printf "  %10d  %s\n", $5, $9 }'
