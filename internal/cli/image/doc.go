// Package image has the commands of images, and uploads their files.
//
// It must not serve an image: peers do.
package image
