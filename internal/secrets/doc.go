// Package secrets keeps what must not be read: the values of secrets, and the keys of the built-in
// issuer.
//
// It owns the keys that seal them (a file that never enters the log), how a value is sealed and
// opened, and the types and functions that keep values out of everything that is printed. It must
// not decide who may ask, and it never shows a key or a value: not in a log, not in an error.
package secrets
