// Package compat compares this build with what was stable in earlier releases (docs/support.md):
// commands, flags, environment variables, configuration keys, exit codes, metrics, alerts, and
// the callers of methods and routes. Package golden does it for data; `make compat` for protos.
//
// Its testdata has, for each minor release, a directory with one file for each kind, which
// `make compat-record VERSION=…` writes and nothing changes afterwards, and allowed.txt with
// the lines that were removed on purpose. It must not know the parts of the product, only the
// programs and files that users have.
package compat
