// Package difference says field by field how two messages differ. It owns the paths and the text of
// the values; what may be shown is the caller's.
package difference
