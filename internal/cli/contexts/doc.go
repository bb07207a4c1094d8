// Package contexts has the commands of the config file: contexts, and the sign-in of one.
//
// It must not print a token.
package contexts
