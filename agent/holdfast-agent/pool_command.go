package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/agent/facts"
	"github.com/holdfast-metal/holdfast/agent/facts/smi"
	"github.com/holdfast-metal/holdfast/client/poolreg"
	"github.com/holdfast-metal/holdfast/internal/misfit"
)

// poolFile is the configuration file of pool.
type poolFile struct {
	Registration *poolreg.Settings `json:"registration"`
	// CAFile has the CA certificate of the servers. Empty means the system's.
	CAFile string `json:"ca_file"`
	// MetricsAddr is the address that serves /metrics. Empty disables it.
	MetricsAddr string `json:"metrics_addr"`
	// GPUs are registered if there is no nvidia-smi.
	GPUs []fixedGPU `json:"gpus"`
}

// fixedGPU is a GPU in the configuration.
type fixedGPU struct {
	ID                int    `json:"id"`
	Model             string `json:"model"`
	TotalVRAMGB       *int   `json:"total_vram_gb"` // nil: unknown
	ComputeCapability string `json:"compute_capability"`
}

const poolLong = `Runs a pool manager: registers the GPUs of this machine as a pool, sends heartbeats with their
state, and deregisters the pool at the end. The configuration is the one of POOLREG-18070.`

func poolCommand(s system, log *logFlags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "pool --config FILE",
		Short: "Keep the GPUs of this machine registered as a pool",
		Long:  poolLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := log.logger(s.err)
			if err != nil {
				return err
			}
			if file == "" {
				return errors.New("no configuration: set --config FILE")
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("read the configuration: %w", err)
			}
			conf, err := parsePoolFile(text)
			if err != nil {
				return fmt.Errorf("read %s: %w", file, err)
			}
			return runPool(cmd.Context(), s, conf, logger)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

func parsePoolFile(text []byte) (poolFile, error) {
	var f poolFile
	if err := misfit.Settings(text, &f); err != nil {
		return f, err
	}
	if f.Registration == nil {
		return f, errors.New("no key registration")
	}
	return f, nil
}

// poolConfig fills in what the file omits: the node id is the machine's name, and the
// endpoint is at its address with the port of the specification's example.
func poolConfig(s system, f poolFile) (poolreg.Config, error) {
	settings := *f.Registration
	if settings.NodeID == "" {
		name, err := facts.Hostname(s.root)
		if err != nil {
			return poolreg.Config{}, err
		}
		settings.NodeID = name
	}
	if settings.Endpoint == "" {
		h := host{system: s, setting: ", or set registration.endpoint"}
		ip, _, err := h.address()
		if err != nil {
			return poolreg.Config{}, err
		}
		settings.Endpoint = "http://" + net.JoinHostPort(ip, "9200")
	}
	settings.Version = cmp.Or(settings.Version, s.version)
	return settings.Config()
}

func runPool(ctx context.Context, s system, f poolFile, log *slog.Logger) error {
	cfg, err := poolConfig(s, f)
	if err != nil {
		return err
	}
	if cfg.TLS, err = tlsConfig(f.CAFile); err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	cfg.Registerer, cfg.Logger = metrics, log
	source := &gpuPool{started: time.Now(), fixed: f.GPUs}
	if ask, ok := s.smi(); ok {
		source.gpus = smi.NewMonitor(ask, log)
		source.gpus.Poll(ctx)
	}
	client, err := poolreg.New(cfg, source)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if f.MetricsAddr != "" {
		if err := serveMetrics(ctx, group, f.MetricsAddr, metrics); err != nil {
			return err
		}
	}
	group.Go(func() error { return client.Run(ctx) })
	if err := s.watched(ctx, group, source.gpus, log, func() report { return poolReport(cfg, client) }); err != nil {
		return err
	}
	log.Info("pool manager stopped")
	return nil
}

func poolReport(cfg poolreg.Config, c *poolreg.Client) report {
	r := report{line: "pool " + cfg.Pool.ID, patience: 2 * time.Minute}
	urls := 0
	add := func(name string, s poolreg.Status) {
		state := "disconnected"
		if s.Connected {
			state = "connected"
		} else if s.Err != nil {
			state += fmt.Sprintf(" (%.120s)", s.Err)
		}
		r.line += fmt.Sprintf("; %s: %s", name, state)
		r.patience += 2 * s.Interval
		if s.Progress.After(r.progress) {
			r.progress = s.Progress
		}
	}
	if cfg.Orchestrator != nil {
		urls += len(cfg.Orchestrator.URLs)
		add("orchestrator", c.Orchestrator())
	}
	if cfg.Platform != nil {
		urls += len(cfg.Platform.URLs)
		add("platform", c.Platform())
	}
	r.patience += time.Duration(urls) * max(cfg.Timeout, tryTimeout)
	return r
}

// serveMetrics listens at once, so that an address in use is an error at the start.
func serveMetrics(ctx context.Context, group *errgroup.Group, addr string, metrics *prometheus.Registry) error {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
	}
	group.Go(func() error {
		if err := server.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve metrics: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	return nil
}
