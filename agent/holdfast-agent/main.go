// Command holdfast-agent runs on the machines. It registers its machine (or a pool of GPUs)
// with a Holdfast cluster and sends keepalives. As /init of the netboot image it installs
// the machine: see package install.
//
// This command reads the machine's facts and runs under systemd. Packages client/machine
// and client/poolreg implement the protocols. It must stay small: it must not link Raft,
// the FSM or any provider.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

var version = "dev" // set by the build

func main() { os.Exit(run()) }

// run cancels the context at the first signal; the second signal kills the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	root := newRoot(system{
		out: os.Stdout, err: os.Stderr, root: os.DirFS("/"), getenv: os.Getenv, interfaces: interfaces,
		version: version, pid: os.Getpid(),
	})
	// In the netboot image, the process has the kernel's arguments, which are no flags.
	if os.Getpid() == 1 && filepath.Base(os.Args[0]) == "init" {
		root.SetArgs([]string{"install"})
	}
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "holdfast-agent:", err)
		return 1
	}
	return 0
}
