// Package expression prints parts of a JSON document, as JSONPath or a Go template says. It owns
// what such an expression may be; which document it gets is up to the caller.
package expression
