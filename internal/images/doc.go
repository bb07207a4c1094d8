// Package images keeps the files of all images on every peer's disk, receives uploads, and
// serves the files over HTTP to machines that have no account yet (docs/images.md). Images
// are defined in the replicated state, which this package never changes.
package images
