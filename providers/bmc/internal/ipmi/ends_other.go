//go:build !linux

package ipmi

import "os/exec"

// endWithThread does nothing on systems without Pdeathsig.
func endWithThread(*exec.Cmd) {}
