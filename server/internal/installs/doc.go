// Package installs serves machines that boot from the network, and their installers
// (docs/netboot.md, docs/installer.md). It selects the image that a machine boots, according
// to the machine's run.
//
// It must not drive runs: package executor does that. The routes that firmware calls are in
// package netbootapi.
package installs
