// Package mutant breaks the rules of the product one at a time, and shows that the suite notices.
//
// A mutant is a few pieces of source and what stands in their place. It is built with `go build
// -overlay`, so that the product has no switches. Its scenario is run against the product as it is,
// which must hold, and against the mutant, which must be caught. A piece that is not in the source
// any more fails the suite: a mutant that no longer breaks anything proves nothing.
package mutant
