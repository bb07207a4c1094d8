// Package access has the rules of tokens, secrets, signing keys and webhooks. It must not see the
// value of a token or a secret: it stores hashes and ciphertext. It does not decide which caller
// may give a command.
package access
