// Package blob stores files on a peer's disk under their SHA-256. It serves complete files
// only. A partially received file is kept next to them, so that an interrupted transfer can
// resume. The package does not know images or peers, and fetches nothing.
package blob
