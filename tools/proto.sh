#!/usr/bin/env bash
# Generates the Go code of proto/, or checks the committed code.
#
#   tools/proto.sh generate    write *.pb.go into the tree
#   tools/proto.sh check       generate into a temporary directory and compare
#
# The plugins are in bin/tools (make tools). protoc is in Debian's protobuf-compiler, its includes in
# libprotobuf-dev; root installs them if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

need_protoc() {
	if command -v protoc >/dev/null && [ -e "$(dirname "$(command -v protoc)")/../include/google/protobuf/timestamp.proto" ]; then
		return
	fi
	if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
		apt-get update -q
		DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends protobuf-compiler libprotobuf-dev
		return
	fi
	echo "proto: protoc is not installed: run 'apt-get install protobuf-compiler libprotobuf-dev' as root, or put protoc 3.21 or later on the PATH" >&2
	exit 1
}

# generate DIR writes the code of every .proto file below DIR/proto, except for proto/google, whose code is a module.
generate() {
	local files
	mapfile -t files < <(find proto -name '*.proto' -not -path 'proto/google/*' | LC_ALL=C sort)
	PATH="$PWD/bin/tools:$PATH" protoc -I . -I proto \
		--go_out="$1" --go_opt=module=github.com/holdfast-metal/holdfast \
		--go-grpc_out="$1" --go-grpc_opt=module=github.com/holdfast-metal/holdfast \
		"${files[@]}"
}

# check compares both ways, so it also finds code of a deleted .proto file. It ignores the version of
# protoc, since the pinned plugins generate the code.
check() {
	local tmp
	tmp=$(mktemp -d)
	# shellcheck disable=SC2064 # tmp is local: expand it now
	trap "rm -rf '$tmp'" EXIT
	mkdir "$tmp/is" "$tmp/should-be"
	generate "$tmp/should-be"
	find proto -name '*.pb.go' -exec cp --parents -t "$tmp/is" {} +
	if ! (cd "$tmp" && diff -ru -I '^//[[:space:]-]*protoc  *v[0-9.]*$' is should-be); then
		echo "proto: the generated code does not match proto/: run 'make proto', delete code without a .proto file, and commit the result" >&2
		exit 1
	fi
	echo "proto: the generated code is up to date"
}

case "${1-}" in
generate)
	need_protoc
	generate .
	;;
check)
	need_protoc
	check
	;;
*)
	echo "usage: tools/proto.sh generate|check" >&2
	exit 2
	;;
esac
