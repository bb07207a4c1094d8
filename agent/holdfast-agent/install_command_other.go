//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// installCommand returns an error: machines are installed from Linux only.
func installCommand(system, *logFlags) *cobra.Command {
	return &cobra.Command{
		Use: "install", Short: "Install this machine as the cluster orders (Linux only)", Hidden: true,
		RunE: func(*cobra.Command, []string) error { return errors.New("install: supported on Linux only") },
	}
}
