// Package golden opens data directories that earlier releases have written.
//
// Its testdata has, for each release, a directory of one peer (data.tar.gz) and the
// responses of its API (seen.json). They are written by `make golden-data VERSION=…` and
// never changed afterwards. A test must not repair a directory before opening it, because
// an upgrade cannot do so either.
package golden
