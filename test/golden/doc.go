// Package golden opens data directories that earlier releases have written.
//
// It owns testdata: for each release a directory of one peer (data.tar.gz) and what its API
// answered (seen.json), written by `make golden-data VERSION=…` and never changed after. It must
// not mend a directory so that it opens: an upgrade cannot either.
package golden
