// Command holdfast is the one binary: the control plane's peers and every verb of an operator.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-metal/holdfast/cmd/holdfast/serve"
	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/pki"
	"github.com/holdfast-metal/holdfast/internal/demo"
)

var version = "dev" // set by the build

func main() { os.Exit(run()) }

// run ends the context at the first signal; the second one ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	streams := app.OSStreams()
	streams.Version = version
	return cli.Main(ctx, streams, os.Args[1:],
		serve.Command(version), serve.ConfigCommand(), demo.FakeHardwareCommand(),
		demo.Command(), pki.TLSCommand(), pki.GossipCommand(),
		companionCommand("bench"), companionCommand("simulate", "simulate"))
}
