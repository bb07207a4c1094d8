//go:build !linux

package bmc

import "os/exec"

// ends does nothing on systems without Pdeathsig.
func ends(*exec.Cmd) {}
