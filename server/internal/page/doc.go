// Package page returns the pages of a list. A page starts after the last row of the
// previous one, so rows that come or go in between shift no other row to another page.
//
// It must not know resources, or the callers that may see them: see package scope.
package page
