// Package backup has the format of snapshot files, and the commands that stage and restore one. It
// must not decide when a restore is due, nor hold a cluster back while one is staged.
package backup
