// Package expression prints parts of a JSON document selected by JSONPath or a Go template. It
// owns the syntax of expressions; the caller chooses the document.
package expression
