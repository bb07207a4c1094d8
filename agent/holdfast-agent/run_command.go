package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/agent/facts/smi"
	"github.com/holdfast-metal/holdfast/client/machine"
)

// runFlags are the flags of run.
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

const runLong = `Registers this machine and sends keepalives until the process is stopped.

It never gives up: it retries while the cluster elects a leader, is down or refuses the token. It registers
again if the cluster has forgotten the machine. The id of the machine is kept in the state directory.`

func runCommand(s system, log *logFlags) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --server URL[,URL…] --pool POOL --token-file FILE",
		Short: "Keep this machine registered",
		Long:  runLong,
		Args:  cobra.NoArgs,
		Example: "  holdfast-agent run --server https://peer-1:7401,https://peer-2:7401 " +
			"--token-file /etc/holdfast-agent/token --pool gpu",
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
	flags.StringVar(&f.tokenFile, "token-file", "",
		"file with the enrollment token or this machine's token (default: none is sent)")
	flags.StringVar(&f.pool, "pool", "", "pool of this machine")
	flags.StringVar(&f.provider, "provider", machine.DefaultProvider, "provider of the pool")
	flags.StringVar(&f.machineID, "machine-id", "",
		"id of this machine, from holdfast machine create (default: created at random once)")
	flags.StringVar(&f.stateDir, "state-dir", stateDir(s.getenv), "directory for the identity")
	flags.StringVar(&f.caFile, "ca", "", "file with the CA certificate of the peers (default: the system's)")
	flags.StringVar(&f.hostname, "hostname", "", "name to register (default: the machine's)")
	flags.StringVar(&f.privateIP, "private-ip", "",
		"address to register (default: the one of the interface with the default route)")
	flags.DurationVar(&f.interval, "interval", 0, "time between keepalives (default: as the server requests)")
	flags.BoolVar(&f.allowPlaintext, "allow-plaintext-token", false,
		"allow sending the token over http to other machines")
	return cmd
}

// stateDir returns the directory that systemd has created, or its usual path.
func stateDir(getenv func(string) string) string {
	return cmp.Or(getenv("STATE_DIRECTORY"), "/var/lib/holdfast-agent")
}

func runAgent(ctx context.Context, s system, f runFlags, log *slog.Logger) error {
	h := &host{system: s, hostname: f.hostname, privateIP: f.privateIP, setting: ", or set --private-ip"}
	if ask, ok := s.smi(); ok {
		h.gpus = smi.NewMonitor(ask, log)
	}
	tlsConf, err := tlsConfig(f.caFile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.stateDir, 0o700); err != nil {
		return fmt.Errorf("create the state directory: %w", err)
	}
	id, note, err := machine.Identity(filepath.Join(f.stateDir, "identity.json"), f.machineID, h.hardware())
	if err != nil {
		return err
	}
	if note != "" {
		log.WarnContext(ctx, "this machine has a new id", "machine_id", id, "reason", note)
	}
	agent, err := machine.New(machine.Config{
		Servers:        f.servers,
		TokenFile:      f.tokenFile,
		OwnTokenFile:   filepath.Join(f.stateDir, "token.json"),
		MachineID:      id,
		Pool:           f.pool,
		Provider:       f.provider,
		AgentVersion:   s.version,
		Interval:       f.interval,
		TLS:            tlsConf,
		AllowPlaintext: f.allowPlaintext,
		Logger:         log,
	}, h)
	if err != nil {
		return err
	}
	if f.tokenFile == "" {
		log.WarnContext(ctx, "no token: only an insecure cluster accepts this machine: set --token-file")
	}
	log.InfoContext(ctx, "agent started", "version", s.version, "machine_id", id, "pool", f.pool, "servers", f.servers)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return agent.Run(ctx) })
	err = s.watched(ctx, group, h.gpus, log, func() report {
		st := agent.Status()
		patience := 2*st.Interval + time.Duration(len(f.servers))*tryTimeout + time.Minute
		return report{line: machineLine(id, st), progress: st.Progress, patience: patience}
	})
	if err != nil {
		return err
	}
	log.Info("agent stopped")
	return nil
}

// tryTimeout is longer than a try at one server takes.
const tryTimeout = 15 * time.Second

func machineLine(id string, s machine.Status) string {
	switch {
	case s.Ready:
		at := s.LastKeepalive.Format(time.TimeOnly)
		return fmt.Sprintf("%s is ready; keepalives each %s, the last at %s", id, s.Interval, at)
	case s.Err != nil:
		return fmt.Sprintf("%s is not ready, failures: %d, will retry: %.150s", id, s.Failures, s.Err)
	}
	return id + " is registering"
}
