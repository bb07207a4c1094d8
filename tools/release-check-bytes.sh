#!/usr/bin/env bash
# Builds a release twice, in this checkout and in a copy elsewhere with another umask, time zone and
# home, and compares all bytes: release-check-bytes.sh VERSION DIR. The first is in DIR/old. If minisign is
# installed and there are no uncommitted changes, both are signed with a new key, and minisign, which
# shares no code with tools/release, verifies that. Needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 dir=$(realpath -m "$2")
die() {
	echo "release-check: $*" >&2
	exit 1
}
rm -rf "${dir:?}/old" "$dir/again" "$dir/copy" "$dir/keys"
mkdir -p "$dir" "$dir/keys"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
verify=
if [ -n "$(git status --porcelain)" ]; then
	echo "release-check: SKIPPED: the checkout has uncommitted changes, the release was not signed" >&2
elif ! command -v minisign >/dev/null; then
	echo "release-check: SKIPPED: minisign is not installed, the release was not signed" >&2
else
	export SIGN_KEY=$dir/keys/minisign.key
	minisign -G -W -s "$SIGN_KEY" -p "$dir/keys/minisign.pub" >/dev/null
	chmod 600 "$SIGN_KEY"
	verify=yes
fi
tools/release.sh "$version" "$dir/old" >/dev/null

# The copy has the same commit and the same changes.
git clone -q --no-checkout . "$dir/copy"
git -C "$dir/copy" reset -q
git ls-files -z --cached --others --exclude-standard |
	while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
	tar -c --null -T - | (umask 077 && tar -x --no-same-permissions -C "$dir/copy")
[ ! -d bin/image-debs ] || (mkdir -p "$dir/copy/bin" && cp -r bin/image-debs "$dir/copy/bin/")
# The caches of Go are not in the other home: modules are not loaded again.
(
	GOMODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE) && export GOMODCACHE GOCACHE
	umask 077
	HOME=$dir/keys TZ=Pacific/Auckland LC_ALL=C.UTF-8 "$dir/copy/tools/release.sh" "$version" "$dir/again" >/dev/null
)
diff -r "$dir/old" "$dir/again" >&2 || die "two builds of the same commit differ"
(cd "$dir/old" && sha256sum --quiet -c SHA256SUMS)
if [ -n "$verify" ]; then
	check() { minisign -Vm "$1" -x "$dir/old/SHA256SUMS.minisig" -p "$dir/keys/minisign.pub"; }
	check "$dir/old/SHA256SUMS" | grep -q "holdfast $version" || die "minisign does not verify SHA256SUMS.minisig"
	sed 's/^./x/' "$dir/old/SHA256SUMS" >"$dir/keys/changed"
	! check "$dir/keys/changed" >/dev/null 2>&1 || die "minisign verifies changed sums"
fi
rm -rf "$dir/again" "$dir/copy" "$dir/keys"
echo "release-check: the same bytes in two directories, $(find "$dir/old" -type f | wc -l) files${verify:+, and minisign verifies their signature}"
