// Package watch has the common parts of the streams of changes: the effect of a filter on
// changes, and the bookmarks from which an interrupted client resumes.
//
// It must not know resources, or wait for changes: package edge does that.
package watch
