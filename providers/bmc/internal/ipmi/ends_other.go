//go:build !linux

package ipmi

import "os/exec"

// ends does nothing on systems without Pdeathsig.
func ends(*exec.Cmd) {}
