// Package secrets encrypts the values of secrets, the keys of the built-in issuer and browser
// sessions.
//
// It owns the encryption keys (in a file that never enters the log), the format of sealed
// values, and the types and functions that keep values out of all output. Access control is
// not its concern. It never includes a key or a value in a log or an error.
package secrets
