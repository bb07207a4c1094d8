// Package installs serves machines that boot from the network, and their installers
// (docs/netboot.md, docs/installer.md). It decides which image a machine boots according to
// its run.
//
// It must not authenticate machines other than by the MAC address and the token of an
// install session, and it must not drive runs.
package installs
