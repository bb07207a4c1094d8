//go:build rowguard

package table

// guarded reports whether all tables are guarded: see Guard.
const guarded = true
