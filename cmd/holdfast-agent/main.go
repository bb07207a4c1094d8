// Command holdfast-agent runs on the machines: it registers the machine (or a pool of GPUs) with a
// Holdfast cluster and keeps it alive. As /init of the netboot image it installs one: package
// install.
//
// It owns what is found on the machine and how the process lives beside systemd; the protocols are
// client/machine and client/poolreg. It stays small: it must not link Raft, the FSM or any
// provider.
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

// run ends the context at the first signal; the second one ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	root := newRoot(system{
		out: os.Stdout, err: os.Stderr, root: os.DirFS("/"), getenv: os.Getenv, interfaces: interfaces,
		version: version, pid: os.Getpid(),
	})
	if os.Getpid() == 1 && filepath.Base(os.Args[0]) == "init" {
		root.SetArgs([]string{"install"}) // the netboot image: the kernel's own arguments are no flags of ours
	}
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "holdfast-agent:", err)
		return 1
	}
	return 0
}
