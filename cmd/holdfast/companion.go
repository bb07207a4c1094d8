package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// companion is the program that holds the benchmarks and the simulator.
const companion = "holdfast-bench"

// companionCommand returns a hidden command that replaces this process by holdfast-bench, with the
// arguments of args and its own. It keeps the verbs of releases that contained the benchmarks.
func companionCommand(verb string, args ...string) *cobra.Command {
	return &cobra.Command{
		Use: verb, Hidden: true, DisableFlagParsing: true, Short: "Run " + companion,
		RunE: func(_ *cobra.Command, rest []string) error {
			path, err := findCompanion()
			if err != nil {
				return err
			}
			argv := append(append([]string{path}, args...), rest...)
			return fmt.Errorf("run %s: %w", path, syscall.Exec(path, argv, os.Environ())) //nolint:gosec // our own program
		},
	}
}

// findCompanion returns the path of holdfast-bench: in the directory of this program, else in
// $PATH.
func findCompanion() (string, error) {
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), companion)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	path, err := exec.LookPath(companion)
	if err != nil {
		return "", fmt.Errorf("find %s: %w: it contains the benchmarks and the simulator: build it (make build) and "+
			"put it next to holdfast", companion, err)
	}
	return path, nil
}
