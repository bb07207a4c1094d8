// Package blob keeps files on a peer's disk under their SHA-256, and gives out none that is not
// whole. A file that is being received lies beside them, so that what broke off goes on. It knows
// neither images nor peers, and never fetches anything.
package blob
