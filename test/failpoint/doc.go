// Package failpoint kills peers between two durable effects.
//
// In the product, such a place is only a comment, "// failpoint: name": no build of the
// product has a switch. This package builds a test binary in which each of these comments
// is a call that kills its own process, once, when the test arms it.
//
// The package finds, builds and arms the points, and has the test that crashes a real
// cluster at each of them.
package failpoint
