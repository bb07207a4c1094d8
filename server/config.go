package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/console"
	"github.com/holdfast-metal/holdfast/server/internal/images"
	"github.com/holdfast-metal/holdfast/server/internal/operator"
	"github.com/holdfast-metal/holdfast/server/internal/registry"
	"github.com/holdfast-metal/holdfast/server/internal/runs"
)

// Config configures a Server. The zero value works.
type Config struct {
	// Version is the response of GET /version; default "dev".
	Version string
	// Now returns the time at which tokens begin, and by which states are judged; default time.Now.
	Now func() time.Time
	// Logger defaults to a logger that discards everything.
	Logger *slog.Logger
	// Registerer registers the server's metrics, and Gatherer is the source of GET
	// /metrics. The default is a registry of the server's own.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	// DefaultStepTimeout and DefaultMaxRetries apply to steps that do not set them. The
	// defaults are 10 minutes and 2 (negative: no retry).
	DefaultStepTimeout time.Duration
	DefaultMaxRetries  int32
	// DefaultInstallTimeout is the default timeout of steps that install; default an
	// hour.
	DefaultInstallTimeout time.Duration
	// CancelWait is the maximum time for which CancelRun waits for the run to end, so that
	// it usually returns the run as CANCELED. Default 2 s; negative: do not wait.
	CancelWait time.Duration
	// CallTimeout is the deadline of unary calls without one; default 30 s. A Forwarder has
	// its own for the calls that it may forward.
	CallTimeout time.Duration
	// Gate authenticates and authorizes callers; default auth.Open, where every caller is
	// an anonymous admin.
	Gate *auth.Gate
	// AutoDiscover creates machines for reports from unknown MAC addresses. They await
	// approval.
	AutoDiscover bool
	// AutoDiscoverLimit is the maximum number of machines that await approval; 0: no
	// limit.
	AutoDiscoverLimit uint32
	// EnrollLimit is the maximum number of machines of a pool that their agents have created with a
	// shared token and that no operator has approved; 0: no limit.
	EnrollLimit uint32
	// PlatformMarginPercent is returned to marketplace providers that register.
	PlatformMarginPercent float64
	// Leases renews leases; without it heartbeats are UNAVAILABLE.
	Leases registry.Leases
	// Forwarder sends calls to the leader that only the leader can serve. By default
	// there is none, as in a cluster of one peer.
	Forwarder Forwarder
	// Consoles is the set of consoles that are open while this peer leads, and Peers
	// connects to the leader; without them no console can be attached. PeerID is this
	// peer's id.
	Consoles console.Consoles
	// RecordConsoles records the output of console sessions. ConsoleKeep is how long console
	// sessions are kept after their end; default 90 days.
	RecordConsoles bool
	ConsoleKeep    time.Duration
	Peers          console.Peers
	PeerID         string
	// Settings is this peer's configuration without secrets, for debugging.
	Settings string
	// Admin administers the cluster: snapshots, membership, leadership. Without one
	// those calls fail.
	Admin operator.Admin
	// ChooseDisk returns the disk that a rule of RepaveImage selects, according to the
	// inventory of a machine. If sure is true, the installer would fail with the same
	// error; otherwise the inventory is not sufficient. With a nil inventory only the
	// rule itself is checked, as for plans. By default only the installer checks the
	// rule.
	ChooseDisk func(rule string, h *holdfastv1.HardwareInventory) (disk string, sure bool, err error)
	// Keys encrypt secrets; without them no secret can be stored.
	Keys *secrets.Keyring
	// Files stores the files of images; without it no file can be uploaded.
	Files images.Files
	// DenyURL returns an error for a URL that no peer may fetch, such as one of a denied network.
	// By default all are allowed.
	DenyURL func(url string) error
	// RefuseOpenWebhooks makes this peer refuse webhooks whose messages are not encrypted or
	// signed.
	RefuseOpenWebhooks bool
	// Archive contains the steps and logs of old runs; without it this peer cannot read
	// them.
	Archive runs.Archive
	// Note returns a remark about this peer for its status. It may be nil, or return "".
	Note func() string
}

// Forwarder sends a call to the peer that serves it, between the authentication and the
// authorization of the call (*cluster.Peer). Both methods are interceptors.
type Forwarder interface {
	InterceptUnary(ctx context.Context, req any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error)
	InterceptStream(srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) error
}

// withDefaults returns a configuration with the defaults of unset fields.
func withDefaults(cfg Config) Config {
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Registerer == nil || cfg.Gatherer == nil {
		own := prometheus.NewRegistry()
		cfg.Registerer, cfg.Gatherer = own, own
	}
	cfg.DefaultStepTimeout = orDefault(cfg.DefaultStepTimeout, 10*time.Minute)
	cfg.DefaultInstallTimeout = orDefault(cfg.DefaultInstallTimeout, time.Hour)
	cfg.DefaultMaxRetries = max(0, orDefault(cfg.DefaultMaxRetries, 2))
	cfg.CancelWait = max(0, orDefault(cfg.CancelWait, 2*time.Second))
	cfg.CallTimeout = orDefault(cfg.CallTimeout, 30*time.Second)
	if cfg.Note == nil {
		cfg.Note = func() string { return "" }
	}
	if cfg.Gate == nil {
		cfg.Gate = auth.Open()
	}
	return cfg
}

// orDefault returns a value, or the default if the value is zero.
func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
