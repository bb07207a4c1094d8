//go:build !failpoint || !linux

package serve

import "github.com/holdfast-metal/holdfast/executor"

// boundaryHook returns what the executor calls at each boundary of an attempt: nothing, except in
// the binary that tests crash (see failpoint_on.go).
func boundaryHook() func(executor.Boundary, string) { return nil }
