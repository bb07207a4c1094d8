#!/usr/bin/env bash
# Builds a release in DIR (default: bin/release/VERSION): release.sh VERSION [DIR]. It has static binaries
# for Linux (ARCHES="amd64 arm64"), debs, rpms, OCI images, bills of materials, the provenance and
# SHA256SUMS; with ONLY=images, it adds the images to DIR. SIGN_KEY=FILE signs SHA256SUMS with a secret key
# of minisign, whose password is in SIGN_PASSWORD if it has one. The same commit, version of Go and key
# produce the same bytes; SOURCE_DATE_EPOCH defaults to the time of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 out=${2:-bin/release/$1} arches=${ARCHES:-amd64 arm64}
if ! [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]]; then
	echo "release: \"$version\" is not a version such as 1.2.3 or 1.2.3-rc1" >&2
	exit 2
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} TZ=UTC LC_ALL=C CGO_ENABLED=0
# VERSION is the version; git fails if another user owns the checkout. The versions of modules are those
# of each go.mod, not the highest of a workspace.
export GOFLAGS="-buildvcs=false -mod=readonly" GOWORK=off
umask 022
stage=$out.stage
only=${ONLY:-}
revision=$(git rev-parse HEAD 2>/dev/null) || revision=
if [ -z "$revision" ]; then
	echo "release: this is no checkout that git reads: the provenance names no commit" >&2
elif [ -n "$(git status --porcelain)" ]; then
	echo "release: the checkout has uncommitted changes: this build cannot be repeated, and its provenance names no commit" >&2
	revision+=-dirty
fi
go -C tools/release build -trimpath -o ../../bin/tools/release .
if [ -n "${SIGN_KEY:-}" ]; then
	case $only-$revision in
	images-*) problem="the images alone are not signed: build a whole release (make release)" ;;
	-) problem="the commit is unknown: build in a checkout that git reads" ;;
	*-dirty) problem="nobody can repeat this build: commit or remove the changes" ;;
	*) problem= ;;
	esac
	[ -z "$problem" ] || {
		echo "release: sign with $SIGN_KEY: $problem" >&2
		exit 2
	}
	public=$(bin/tools/release -sign-key "$SIGN_KEY" -public-key)
	echo "release: signs with the key whose public half is $public"
fi
[ "$only" = images ] || rm -rf "$out"
rm -rf "$stage"
mkdir -p "$out" "$stage/man" "$stage/completion"

# build FILE MODULE PACKAGE
build() { go -C "$2" build -trimpath -ldflags "-s -w -X main.version=$version" -o "$(realpath -m "$1")" "$3"; }
for arch in $arches; do
	GOOS=linux GOARCH=$arch build "$stage/$arch/holdfast" . ./cmd/holdfast
	GOOS=linux GOARCH=$arch build "$stage/$arch/holdfast-agent" agent ./holdfast-agent
done

packages=()
if [ "$only" != images ]; then
	# A binary for this machine prints manual pages and completions.
	self=$stage/$(go env GOHOSTARCH)/holdfast
	[ "$(go env GOHOSTOS)" = linux ] && [ -x "$self" ] || {
		self=$stage/self
		build "$self" . ./cmd/holdfast
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

bin/tools/release -version "$version" -stage "$stage" -out "$out" -arches "${arches// /,}" -revision "$revision" \
	-locks go.sum,agent/go.sum,tools/release/go.sum,deploy/container/debs.txt ${SIGN_KEY:+-sign-key "$SIGN_KEY"} \
	-images holdfast,holdfast-agent "${packages[@]}"
rm -rf "$stage"
[ "$only" = images ] || [ -n "${SIGN_KEY:-}" ] || echo "release: SHA256SUMS is not signed: set SIGN_KEY to a secret key of minisign" >&2
echo "$out:"
ls -l "$out" | awk 'NR > 1 { printf "  %10d  %s\n", $5, $9 }'
