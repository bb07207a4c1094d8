// Package images serves the images that machines boot and install (docs/images.md).
//
// It must not store files: its Files do that on the peers.
package images
