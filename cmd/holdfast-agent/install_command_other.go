//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// installCommand reports that machines are installed with Linux.
func installCommand(system, *logFlags) *cobra.Command {
	return &cobra.Command{
		Use: "install", Short: "Install this machine by order of the cluster (Linux only)", Hidden: true,
		RunE: func(*cobra.Command, []string) error { return errors.New("install: it works on Linux only") },
	}
}
