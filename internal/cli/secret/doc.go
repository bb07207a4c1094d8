// Package secret has the commands of secrets, and of the references to other clusters, which are
// secrets.
//
// It must not read a value from an argument, nor print one.
package secret
