package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/internal/cli/flagerror"
	"github.com/holdfast-metal/holdfast/internal/cli/flagfile"
	"github.com/holdfast-metal/holdfast/internal/hardware"
	"github.com/holdfast-metal/holdfast/internal/misfit"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/egress"
)

// ConfigCommand returns the command that checks the configuration of a peer without starting it.
func ConfigCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "config", Short: "Check the configuration of a peer", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var cfg Config
	var skipFiles bool
	// It has the flags of the server for its keys, but takes only a file and the environment.
	keys := pflag.NewFlagSet("config", pflag.ContinueOnError)
	cfg.flags(keys)
	check := &cobra.Command{
		Use: "check FILE", DisableFlagsInUseLine: true, Args: cobra.ExactArgs(1),
		Short: "Check the configuration of a peer without starting it",
		Long: `Check the configuration of a peer without starting it: its keys and values, and the files that it names (certificates, keys,
credentials). It lists all problems, and ends with 2 if there are any. The environment counts as for 'holdfast server'. It opens no
port and writes nothing.`,
		Example: "  holdfast config check /etc/holdfast/config.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.File = args[0]
			found := cfg.problems(keys, os.LookupEnv, skipFiles)
			if len(found) == 0 {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: no problem found\n", cfg.File)
				return err
			}
			for _, err := range found {
				text := misfit.Files(strings.TrimPrefix(err.Error(), "read configuration "+cfg.File+": "))
				if _, werr := fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cfg.File, text); werr != nil {
					return werr
				}
			}
			n := "1 problem"
			if len(found) > 1 {
				n = strconv.Itoa(len(found)) + " problems"
			}
			return flagerror.Invalid(fmt.Errorf("check configuration %s: %s", cfg.File, n))
		},
	}
	check.Flags().BoolVar(&skipFiles, "skip-files", false,
		"check keys and values only, not the files and interfaces that they name: for the file of another host")
	group.AddCommand(check)
	return group
}

// problems returns all problems of a file and of the files that it names.
func (c *Config) problems(keys *pflag.FlagSet, getenv func(string) (string, bool), skipFiles bool) []error {
	err := c.load(keys, getenv)
	if _, failed := errors.AsType[*fs.PathError](err); failed {
		return flagfile.Each(err)
	}
	err = errors.Join(err, c.settle(), c.checkValues(skipFiles))
	if !skipFiles {
		err = errors.Join(err, c.checkFiles())
	}
	return flagfile.Each(err)
}

// first returns the first of several problems, which fits on a line, and where to see the others.
func (c *Config) first(err error) error {
	switch all := flagfile.Each(err); {
	case len(all) == 0:
		return nil
	case len(all) > 1 && c.File != "":
		return fmt.Errorf("%w (and %d more: holdfast config check %s)", all[0], len(all)-1, c.File)
	default:
		return all[0]
	}
}

// checkValues returns an error for each invalid provider, issuer and network. skipFiles reads no CA
// or secret of theirs.
func (c *Config) checkValues(skipFiles bool) error {
	log := slog.New(slog.DiscardHandler)
	_, err := providers.NewSet(hardware.New(hardware.Config{Log: log, SkipFiles: skipFiles}).Factories(), c.Providers, log)
	errs := []error{err}
	policy, err := egress.New(c.DenyURLs)
	if err != nil {
		errs = append(errs, fmt.Errorf("read --deny-urls: %w", err))
		policy = new(egress.Policy) // denies nothing
	}
	for i, issuer := range c.OIDCIssuers {
		if err := policy.CheckURL(issuer.URL); err != nil {
			errs = append(errs, fmt.Errorf("read oidc_issuers[%d]: issuer %q: %w", i, issuer.URL, err))
		}
	}
	gate := c.gate(log, prometheus.NewRegistry(), "", nil, nil)
	gate.SkipFiles = skipFiles
	_, err = auth.New(gate, auth.Deps{})
	return errors.Join(append(errs, err)...)
}

// checkFiles opens the files that a peer opens before it joins. It starts nothing.
func (c *Config) checkFiles() error {
	log := slog.New(slog.DiscardHandler)
	var errs []error
	_, err := secrets.Open(c.SecretsKeyFile, log)
	errs = append(errs, err)
	if c.TLSCA != "" && c.TLSCert != "" && c.TLSKey != "" {
		_, err = c.tlsConfig.open(c.Insecure, c.PeerID, c.DataDir, nil, log, prometheus.NewRegistry())
		_, bad := c.peers.Signer(time.Now)
		errs = append(errs, err, bad)
	}
	if c.GossipKeyFile != "" {
		_, err = keyfile.ReadPrivate(c.GossipKeyFile)
		errs = append(errs, err)
	}
	_, closeArchive, err := c.archiveConfig.open(nil)
	if err == nil {
		closeArchive()
	}
	errs = append(errs, err, c.netbootConfig.check(), checkDataDir(c.DataDir))
	return errors.Join(errs...)
}

// checkDataDir returns an error if the data directory exists and is none.
func checkDataDir(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case dir == "", errors.Is(err, fs.ErrNotExist):
		return nil // created at the start
	case err != nil:
		return fmt.Errorf("read --data-dir: %w", err)
	case !st.IsDir():
		return fmt.Errorf("read --data-dir %s: it is not a directory", dir)
	}
	return nil
}

// checkAddresses returns an error for each address that is not host:port or is there twice.
func (c *Config) checkAddresses() error {
	var errs []error
	listener := map[string]string{}
	check := func(flag, addr string, listens bool) {
		if err := peertls.CheckAddress(addr, listens); err != nil {
			errs = append(errs, fmt.Errorf("read --%s %q: %w", flag, addr, err))
		} else if other := listener[addr]; listens && other != "" && !strings.HasSuffix(addr, ":0") {
			errs = append(errs, fmt.Errorf("set --%s to another address than --%s, not %s", flag, other, addr))
		} else if listens {
			listener[addr] = flag
		}
	}
	for _, f := range [][2]string{{"grpc-addr", c.GRPCAddr}, {"http-addr", c.HTTPAddr}, {"raft-addr", c.RaftAddr},
		{"gossip-addr", c.GossipAddr}, {"netboot-addr", c.NetbootAddr}, {"advertise-grpc", c.AdvertiseGRPC},
		{"advertise-http", c.AdvertiseHTTP}, {"advertise-raft", c.AdvertiseRaft}, {"advertise-gossip", c.AdvertiseGossip}} {
		if optional := strings.HasPrefix(f[0], "advertise") || f[0] == "netboot-addr"; f[1] != "" || !optional {
			check(f[0], f[1], !strings.HasPrefix(f[0], "advertise"))
		}
	}
	for _, addr := range c.Join {
		check("join", addr, false)
	}
	return errors.Join(errs...)
}

func plain(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// bound is the range of a number.
type bound struct {
	flag        string
	value       float64
	least, most float64
}

// checkNumbers returns an error for each number out of its range.
func (c *Config) checkNumbers() error {
	const day = 24 * 60 * 60
	var errs []error
	for _, b := range []bound{
		{"max-active-runs", float64(c.MaxActiveRuns), 1, 1_000_000},
		{"default-step-timeout-seconds", float64(c.DefaultStepTimeoutSeconds), 1, day},
		{"default-install-timeout-seconds", float64(c.DefaultInstallTimeoutSeconds), 1, day},
		{"default-step-max-retries", float64(c.DefaultStepMaxRetries), 0, 100},
		{"rate-limit-per-second", c.RateLimitPerSecond, 0, 1_000_000},
		{"reconcile-interval-seconds", float64(c.ReconcileIntervalSeconds), 1, day},
		{"health-interval-seconds", float64(c.HealthIntervalSeconds), 1, day},
		{"poll-calls-per-second", float64(c.PollCalls), 1, 1_000_000},
		{"console-keep-days", float64(c.ConsoleKeepDays), 1, 3650},
		{"platform-margin-percent", c.PlatformMarginPercent, 0, 100},
		{"raft-multiplier", c.RaftMultiplier, 0.01, 10},
	} {
		if !(b.value >= b.least && b.value <= b.most) { // also not a number
			errs = append(errs, fmt.Errorf("set --%s to a number from %s to %s, not %s", b.flag,
				plain(b.least), plain(b.most), plain(b.value)))
		}
	}
	return errors.Join(errs...)
}
