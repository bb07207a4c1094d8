// Package holdfast is the root of the module. It owns no code: the binary is cmd/holdfast, the
// Go SDK is client, and CONTRIBUTING.md says what lives where. The tests beside this file hold
// the rules that no compiler checks: which package may import which, that every package says
// what it is for, and what must not stand in a file.
package holdfast
