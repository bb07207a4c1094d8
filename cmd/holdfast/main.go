// Command holdfast is the one binary: the control plane's peers and every verb of an operator.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/bench"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/cli"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/demo"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/pki"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/serve"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/simulate"
)

var version = "dev" // set by the build

func main() { os.Exit(run()) }

// run ends the context at the first signal; the second one ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	streams := cli.OSStreams()
	streams.Version = version
	connect := func(cmd *cobra.Command) (client.Config, error) { return cli.ClientConfig(cmd, streams) }
	return cli.Main(ctx, streams, os.Args[1:],
		serve.Command(version), serve.FakeHardwareCommand(), demo.Command(), bench.Command(version), bench.TargetCommand(), simulate.Command(connect), pki.TLSCommand(), pki.GossipCommand())
}
