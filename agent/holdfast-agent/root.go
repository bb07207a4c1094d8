package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/agent/facts"
	"github.com/holdfast-metal/holdfast/agent/facts/smi"
)

// system is the part of the machine that the commands need. Tests supply their own.
type system struct {
	out, err   io.Writer
	root       fs.FS // "/"
	getenv     func(string) string
	interfaces func() ([]facts.Interface, error)
	smi        func() (smi.Ask, bool) // nil: smi.Find
	version    string
	pid        int
}

// logFlags configure the log.
type logFlags struct {
	level  slog.Level
	format string
}

const rootLong = `holdfast-agent registers this machine with a Holdfast cluster and keeps it registered.

Every flag can be set in the environment: --token-file is HOLDFAST_AGENT_TOKEN_FILE.`

func newRoot(s system) *cobra.Command {
	if s.smi == nil {
		s.smi = smi.Find
	}
	var log logFlags
	root := &cobra.Command{
		Use: "holdfast-agent", Short: "Keep this machine registered with a Holdfast cluster", Long: rootLong,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd, s.getenv) },
	}
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.PersistentFlags().TextVar(&log.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	root.PersistentFlags().StringVar(&log.format, "log-format", "text", "text or json")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		runCommand(s, &log), poolCommand(s, &log), factsCommand(s), installCommand(s, &log), versionCommand(s),
	)
	return root
}

// fromEnvironment sets flags that are not on the command line from the environment.
func fromEnvironment(cmd *cobra.Command, getenv func(string) string) error {
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		variable := "HOLDFAST_AGENT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v := getenv(variable); v != "" && !f.Changed {
			if err := cmd.Flags().Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("read %s: %w", variable, err))
			}
		}
	})
	return errors.Join(errs...)
}

func (l logFlags) logger(w io.Writer) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: l.level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("log format %q: use text or json", l.format)
}

// tlsConfig returns a configuration that trusts only the certificates in the file, or nil
// without one.
func tlsConfig(caFile string) (*tls.Config, error) {
	if caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the CA certificate: no PEM certificate in %s", caFile)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

func versionCommand(s system) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(s.out, "holdfast-agent %s %s %s/%s\n",
				s.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// interfaces lists the network interfaces that are up.
func interfaces() ([]facts.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	var up []facts.Interface
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it has just gone
		}
		f := facts.Interface{Name: i.Name}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				f.Addrs = append(f.Addrs, p.Addr())
			}
		}
		up = append(up, f)
	}
	return up, nil
}
