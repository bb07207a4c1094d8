// Package images has the test of images on real peers: over TLS, with a peer that dies.
package images
