// Package images tests images on real peers, over TLS, with a peer that dies.
package images
