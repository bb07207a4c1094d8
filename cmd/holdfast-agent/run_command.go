package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/client/machine"
	"github.com/holdfast-metal/holdfast/client/sdnotify"
	"github.com/holdfast-metal/holdfast/internal/facts/smi"
)

// runFlags are those of run.
type runFlags struct {
	servers        []string
	tokenFile      string
	pool           string
	provider       string
	machineID      string
	stateDir       string
	caFile         string
	hostname       string
	privateIP      string
	interval       time.Duration
	allowPlaintext bool
}

const runLong = `Registers this machine and keeps it alive, until it is told to stop.

It never gives up: a cluster that elects a leader, is away or refuses the token is asked again. A machine
that the cluster has forgotten registers again. The id of the machine lies in the state directory.`

func runCommand(s system, log *logFlags) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run --server URL[,URL…] --pool POOL --token-file FILE", Short: "Keep this machine registered", Long: runLong, Args: cobra.NoArgs,
		Example: "  holdfast-agent run --server https://peer-1:7401,https://peer-2:7401 --token-file /etc/holdfast-agent/token --pool gpu",
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := log.logger(s.err)
			if err != nil {
				return err
			}
			return runAgent(cmd.Context(), s, f, logger)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.servers, "server", nil, "base URLs of one or more peers, https://peer-1:7401")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the token to enroll with, or of this machine (default: none is sent)")
	flags.StringVar(&f.pool, "pool", "", "pool of this machine")
	flags.StringVar(&f.provider, "provider", machine.DefaultProvider, "provider of the pool")
	flags.StringVar(&f.machineID, "machine-id", "", "id of this machine, as holdfast machine create gave it (default: made at random once)")
	flags.StringVar(&f.stateDir, "state-dir", stateDir(s.getenv), "directory for the identity")
	flags.StringVar(&f.caFile, "ca", "", "file with the CA certificate of the peers (default: those of the system)")
	flags.StringVar(&f.hostname, "hostname", "", "name to register (default: the machine's)")
	flags.StringVar(&f.privateIP, "private-ip", "", "address to register (default: that of the interface with the default route)")
	flags.DurationVar(&f.interval, "interval", 0, "time between keepalives (default: what the server asks for)")
	flags.BoolVar(&f.allowPlaintext, "allow-plaintext-token", false, "send the token over http to other machines")
	return cmd
}

// stateDir is what systemd has made, or the place where it would have.
func stateDir(getenv func(string) string) string {
	if dir := getenv("STATE_DIRECTORY"); dir != "" {
		return dir
	}
	return "/var/lib/holdfast-agent"
}

func runAgent(ctx context.Context, s system, f runFlags, log *slog.Logger) error {
	h := &host{system: s, hostname: f.hostname, privateIP: f.privateIP}
	if ask, ok := s.smi(); ok {
		h.gpus = smi.NewMonitor(ask, log)
	}
	tlsConf, err := tlsConfig(f.caFile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.stateDir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	id, note, err := machine.Identity(filepath.Join(f.stateDir, "identity.json"), f.machineID, h.hardware())
	if err != nil {
		return err
	}
	if note != "" {
		log.WarnContext(ctx, "this machine has a new id", "machine_id", id, "reason", note)
	}
	agent, err := machine.New(machine.Config{
		Servers: f.servers, TokenFile: f.tokenFile, OwnTokenFile: filepath.Join(f.stateDir, "token.json"), MachineID: id, Pool: f.pool, Provider: f.provider,
		AgentVersion: s.version, Interval: f.interval, TLS: tlsConf, AllowPlaintext: f.allowPlaintext, Logger: log,
	}, h)
	if err != nil {
		return err
	}
	if f.tokenFile == "" {
		log.WarnContext(ctx, "no token: this works with a cluster that is insecure only; give --token-file")
	}
	log.InfoContext(ctx, "agent started", "version", s.version, "machine_id", id, "pool", f.pool, "servers", f.servers)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return agent.Run(ctx) })
	if h.gpus != nil {
		group.Go(func() error { return h.gpus.Run(ctx) })
	}
	w := watch{notify: sdnotify.New(s.getenv, s.pid), log: log, report: func() report {
		st := agent.Status()
		patience := 2*st.Interval + time.Duration(len(f.servers))*tryTimeout + time.Minute
		return report{line: machineLine(id, st), progress: st.Progress, patience: patience}
	}}
	group.Go(func() error { return w.run(ctx) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("agent stopped")
	return nil
}

// tryTimeout is more than a try at one server takes.
const tryTimeout = 15 * time.Second

func machineLine(id string, s machine.Status) string {
	switch {
	case s.Ready:
		return fmt.Sprintf("%s is ready; keepalives each %s, the last at %s", id, s.Interval, s.LastKeepalive.Format(time.TimeOnly))
	case s.Err != nil:
		return fmt.Sprintf("%s is not ready, %d failures, trying on: %.150s", id, s.Failures, s.Err)
	}
	return id + " is registering"
}
