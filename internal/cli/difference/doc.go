// Package difference compares two messages field by field. It owns the paths and the text of
// the values; the caller decides which values may be shown.
package difference
