package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client/machine"
)

// factsCommand prints the facts that run would send.
func factsCommand(s system) *cobra.Command {
	return &cobra.Command{
		Use: "facts", Short: "Print the facts of this machine", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := &host{system: s}
			var err error
			var found struct {
				Specs   machine.Specs   `json:"specs"`
				Metrics machine.Metrics `json:"metrics"`
			}
			if found.Specs, err = h.Specs(cmd.Context()); err != nil {
				return err
			}
			if found.Metrics, err = h.Metrics(cmd.Context()); err != nil {
				return err
			}
			b, err := json.MarshalIndent(found, "", "  ")
			if err != nil {
				return fmt.Errorf("write the facts: %w", err)
			}
			_, err = fmt.Fprintln(s.out, string(b))
			return err
		},
	}
}
