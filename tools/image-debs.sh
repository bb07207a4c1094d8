#!/usr/bin/env bash
# Prints deploy/container/debs.txt with today's versions: image-debs.sh >NEW. Needs Debian's apt-get and,
# of a release, the sources in /etc/apt. The tests of IPMI use the same release: Debian 12.
set -euo pipefail
# ipmitool and stdbuf with their libraries, the roots of TLS, and /etc/os-release for scanners.
packages=(base-files ca-certificates coreutils ipmitool libc6 libfreeipmi17 libgcrypt20 libgpg-error0 libreadline8 libssl3 libtinfo6)
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
echo "# Debian packages of the image holdfast: SHA-256 and URL, from tools/image-debs.sh."
echo "# day: $(date -u +%Y%m%dT000000Z)"
for arch in amd64 arm64; do
	mkdir -p "$state/$arch/lists/partial" "$state/$arch/cache/archives/partial"
	apt=(-o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State=$state/$arch" -o Dir::State::status=/dev/null -o "Dir::Cache=$state/$arch/cache" -o APT::Sandbox::User=root)
	apt-get -q "${apt[@]}" update >&2
	apt-get "${apt[@]}" download --print-uris "${packages[@]}"
done | sed -E "s,^'(http[^']*)' .* SHA256:(.*)$,\2 \1,; s, http:, https:," | sort -u -k 2
