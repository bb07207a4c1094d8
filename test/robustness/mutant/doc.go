// Package mutant breaks the rules of the product one at a time, and shows that the suite
// notices.
//
// A mutant is a few pieces of source and their replacements. It is built with `go build
// -overlay`, so that the product has no switches. Its scenario must pass with the product,
// and must fail with the mutant. If a piece is not found in the source, the suite fails,
// because a mutant that breaks nothing proves nothing.
package mutant
