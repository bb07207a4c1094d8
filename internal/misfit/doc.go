// Package misfit words why an input does not fit: JSON and the text of a field of an API message,
// YAML, and a file that cannot be opened. Its sentences name the field, the value and what is
// allowed, in the words of the API and never in those of Go's packages.
//
// It owns the wording only. It decodes nothing for use: a strict decoder does, and this package
// explains its refusal.
package misfit
