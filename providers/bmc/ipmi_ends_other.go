//go:build !linux

package bmc

import "os/exec"

// ends does nothing where there is no Pdeathsig.
func ends(*exec.Cmd) {}
