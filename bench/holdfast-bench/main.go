// Command holdfast-bench measures Holdfast on one machine, compared with other systems, and
// simulates a fleet in front of a cluster. It starts peers from the program holdfast and contains
// no peer itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/bench"
	"github.com/holdfast-metal/holdfast/bench/simulate"
	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

var version = "dev" // set by the build

func main() { os.Exit(run()) }

// run ends the context at the first signal; the second one ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	streams := app.OSStreams()
	root := bench.Command(version)
	root.AddCommand(app.WithClientFlags(simulate.Command(func(cmd *cobra.Command) (client.Config, error) {
		return app.ClientConfig(cmd, streams)
	})))
	return cli.Execute(ctx, streams, root, os.Args[1:])
}
