package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/agent/installer"
	"github.com/holdfast-metal/holdfast/agent/installer/peers"
	"github.com/holdfast-metal/holdfast/agent/installer/pid1"
)

const (
	modulesDir = "/modules"
	// installerCA exists if the initramfs was built with a CA certificate.
	installerCA = "/etc/holdfast/ca.pem"
	// networkTimeout is how long an init waits for an address before it restarts the
	// machine. The firmware may then find another way.
	networkTimeout = 10 * time.Minute
	// restartWait leaves time to read the console after a failure.
	restartWait = 30 * time.Second
)

const installLong = `Fetches the work order of this machine, writes its image to the disk that the order's rule selects,
and reports to the cluster.

As /init of the netboot image it reads holdfast.url= and holdfast.token= from the kernel command line,
configures the network, and restarts the machine at the end. In a rescue system it needs root and both
flags, and does not restart the machine. THE DISK IS OVERWRITTEN.`

func installCommand(s system, log *logFlags) *cobra.Command {
	var l pid1.Line
	var caFile, tokenFile string
	cmd := &cobra.Command{
		Use:   "install --url URL --token-file FILE",
		Short: "Install this machine as the cluster orders: overwrites a disk",
		Long:  installLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.pid == 1 {
				return asInit(cmd.Context(), s)
			}
			token, err := os.ReadFile(tokenFile)
			if err != nil {
				return fmt.Errorf("read the install token: %w", err)
			}
			l.Token = strings.TrimSpace(string(token))
			sent := &peers.Log{}
			logger, err := log.logger(io.MultiWriter(s.err, sent))
			if err != nil {
				return err
			}
			return runInstaller(cmd.Context(), s, l, caFile, sent, logger)
		},
	}
	cmd.Flags().StringVar(&l.URL, "url", "", "base URL of a peer")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file with the token of the install session")
	cmd.Flags().StringVar(&caFile, "ca", "", "file with the CA certificate of the peers (default: the system's)")
	return cmd
}

// runInstaller installs a machine whose network is configured.
func runInstaller(ctx context.Context, s system, l pid1.Line, caFile string, sent *peers.Log, log *slog.Logger) error {
	tlsConf, err := tlsConfig(caFile)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = tlsConf
	transport.Proxy = nil
	// A peer may have to fetch the image before it can send the header.
	transport.ResponseHeaderTimeout = time.Minute
	client := &http.Client{Transport: transport}
	c, err := peers.New(peers.Config{URL: l.URL, Token: l.Token, HTTP: client, Logger: log})
	if err != nil {
		return err
	}
	m := &bareMachine{host: host{system: s}, log: log}
	return installer.New(installer.Config{Client: c, Log: sent, HTTP: client, Logger: log}, m).Run(ctx)
}

// asInit runs the netboot image. It returns only if the machine cannot be restarted.
func asInit(ctx context.Context, s system) error {
	mountErr := pid1.Mount()
	sent := &peers.Log{}
	log := slog.New(slog.NewTextHandler(io.MultiWriter(os.Stdout, sent), nil))
	log.Info("installer started", "version", s.version)
	hold := false
	err := mountErr
	if err == nil {
		hold, err = bootAndInstall(ctx, s, sent, log)
	}
	wait := time.Duration(0)
	switch {
	case err == nil:
		log.Info("installed, restarting")
	case errors.Is(err, peers.ErrOver):
		log.Info("no installation is ordered, restarting", "in", restartWait, "reason", err)
		wait = restartWait
	default:
		log.Error("installation failed, restarting", "in", restartWait, "reason", err)
		wait = restartWait
	}
	if hold {
		log.Info("holdfast.hold is set, not restarting: power-cycle the machine to continue")
		<-ctx.Done()
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return pid1.Restart()
}

// bootAndInstall installs the machine. It also reports whether the machine must not restart
// afterwards.
func bootAndInstall(ctx context.Context, s system, sent *peers.Log, log *slog.Logger) (hold bool, err error) {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return false, fmt.Errorf("read the kernel command line: %w", err)
	}
	l, err := pid1.ParseLine(string(text))
	if err != nil {
		return false, err
	}
	pid1.LoadModules(modulesDir, log)
	pid1.Randomness(log)
	wait, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	lease, err := pid1.Network(wait, l, log)
	if err != nil {
		return l.Hold, err
	}
	kept, release := context.WithCancel(ctx)
	var leases errgroup.Group
	leases.Go(func() error { return lease.Run(kept) })
	defer func() {
		release()
		_ = leases.Wait() // it has no error
	}()
	ca := ""
	if _, err := os.Stat(installerCA); err == nil {
		ca = installerCA
	}
	return l.Hold, runInstaller(ctx, s, l, ca, sent, log)
}
