// Package failpoint kills peers at the lines that stand between two durable effects.
//
// Such a line of the product is a comment, "// failpoint: name", and nothing else: no build of the
// product has a switch. Here a build for tests is made in which each of these comments is a call
// that kills its own process, once, when the test asks for it.
//
// It owns how the points are found, built and armed, and the test that crashes a real cluster at
// each of them.
package failpoint
