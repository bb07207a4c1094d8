// Package install has the commands that show installs and follow one.
//
// It must not start an install: runs do.
package install
