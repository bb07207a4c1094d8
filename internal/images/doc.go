// Package images sees to it that every peer has the files of all images on its disk, takes uploads,
// and gives them out over HTTP: to machines that have no account yet (docs/images.md). What an
// image is says the replicated state; this package never changes it.
package images
