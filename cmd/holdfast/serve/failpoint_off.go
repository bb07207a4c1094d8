//go:build !failpoint || !linux

package serve

import "github.com/holdfast-metal/holdfast/executor/runs"

// boundaryHook returns the function that the executor calls at each boundary of an attempt:
// nil, except in the binary for crash tests (see failpoint_on.go).
func boundaryHook() func(runs.Boundary, string) { return nil }
