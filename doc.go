// Package holdfast is the root of the module. It owns no code: the binary is cmd/holdfast, the
// Go SDK is client, and CONTRIBUTING.md says what lives where. test/style holds the rules that no
// compiler checks.
package holdfast
