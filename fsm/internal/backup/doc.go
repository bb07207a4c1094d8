// Package backup has the format of snapshot files, and the commands that stage and restore one. It
// must not read or write a file itself: the caller has the reader or writer.
package backup
