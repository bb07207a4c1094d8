// Package auth is the gate of a peer: it authenticates callers, authorizes their calls,
// and limits their rates (docs/security.md).
//
// It owns the credentials: client certificates, tokens, OIDC access tokens, and
// identities that peers forward. It also owns the access rules of all methods and HTTP
// routes, the rate limits, and the refusals that are not yet in the audit trail. A call
// is authenticated on the peer where it arrives, and authorized on the peer that serves
// it.
//
// It must not know resources. The FSM checks conditions that must hold at the time of a
// change: the token is valid, and the machine is in the caller's pools. The package
// stores no secret, and none of its errors and log lines contains one.
package auth

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config configures the authentication and the rate limits of callers.
type Config struct {
	// Insecure makes every caller an anonymous admin without limits. For loopback only.
	Insecure bool
	// PeerID is this peer's id, for the audit trail. Cluster is the cluster name in the
	// certificates of peers.
	PeerID, Cluster string
	// Member returns an error if a peer's certificate is not that of a member of the cluster now.
	// Without it no peer may forward calls.
	Member func(ctx context.Context, c *peertls.Caller) error
	// Issuers are the issuers whose access tokens are accepted, besides the built-in one.
	Issuers []Issuer
	// SkipFiles reads no secret of an issuer: the configuration is checked, not used.
	SkipFiles bool
	// Transport connects to the issuers. It must refuse the addresses to which no name of an issuer
	// may lead. Default http.DefaultTransport.
	Transport http.RoundTripper
	// RatePerSecond is the number of calls a second that a user may make. A negative
	// value means no limit; the default is 1000. Agents may make a twentieth of it,
	// services a fifth, the agents of a pool together ten times as many. Bursts may have
	// twice as many calls.
	RatePerSecond float64
	// Now returns the time by which credentials expire; default time.Now.
	Now func() time.Time
	// Doubtful reports whether Now may be wrong, so that it proves no end and no beginning of a
	// credential; nil: it is right.
	Doubtful func() bool
	// Logger defaults to a logger that discards everything.
	Logger *slog.Logger
	// Registerer registers the metrics; nil registers none.
	Registerer prometheus.Registerer
}

// Records is the part of the replicated state that identifies callers (*fsm.View).
type Records interface {
	TokenByHash(sum []byte) (*holdfastv1.Token, bool)
	Token(id string) (*holdfastv1.Token, bool)
	SigningKeys() []*internalv1.SigningKey
	// TokensMark returns a value that differs after any change of a token.
	TokensMark() any
}

// Deps are the functions of the peer that a Gate calls.
type Deps struct {
	// Records returns this peer's copy of the state.
	Records func() Records
	// Fresh returns a state with every change that was acknowledged before the call.
	Fresh func(context.Context) (Records, error)
	// Report writes refusals to the audit trail.
	Report func(context.Context, *internalv1.RecordDenials) error
	// Session returns a session of the state, and Note writes new ones to it. Both may be nil.
	Session func(id string) (*holdfastv1.Session, bool)
	Note    func(context.Context, *internalv1.NoteSessions) error
}

// Gate authenticates and authorizes the calls of one peer.
type Gate struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	rules   map[string]*methodRule // by full gRPC method
	limits  *limits
	denials *Denials
	notes   *notes
	lookups *lookups
	known   known
	oidc    *issuers
	builtIn *builtIn
	metrics *metrics
	now     func() time.Time
	body    time.Duration // maximum time to read a request's body
}

// methodRule is the rule of a method, and how the audit trail treats its refusals.
type methodRule struct {
	Rule
	name string // in the audit trail
	read bool   // the method changes nothing, so a refusal is not an audit event
}

// New returns a gate. The caller must run its Denials.
func New(cfg Config, deps Deps) (*Gate, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.RatePerSecond = cmp.Or(cfg.RatePerSecond, defaultRate)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport
	}
	g := &Gate{
		cfg: cfg, deps: deps, log: cfg.Logger, rules: map[string]*methodRule{}, lookups: newLookups(),
		limits:  newLimits(cfg.RatePerSecond),
		builtIn: newBuiltIn(),
		metrics: newMetrics(cfg.Registerer),
		now:     cfg.Now,
		body:    bodyTimeout,
	}
	g.notes = newNotes(deps.Note, cfg.Logger)
	g.denials = newDenials(deps.Report, cfg.Logger, g.metrics)
	g.denials.sessions = g.notes
	for name, r := range policy() {
		if r.set() {
			g.rules["/"+name] = &methodRule{Rule: r, name: name, read: readOnly(name)}
		}
	}
	var err error
	g.oidc, err = newIssuers(cfg)
	return g, err
}

// Denials returns the writer of refusals to the audit trail.
func (g *Gate) Denials() *Denials { return g.denials }

// rule returns the rule of a method. A method that is not in the table is refused for all
// callers.
func (g *Gate) rule(method string) (*methodRule, *Error) {
	if r, ok := g.rules[method]; ok {
		return r, nil
	}
	return &methodRule{}, denied(ReasonNoRule, "method %s has no access rule", method)
}

// readOnly reports whether a method has no side effects according to its proto. That is true of
// those of gRPC itself, and of those between peers.
func readOnly(name string) bool {
	m := methodOf(name)
	if m == nil || m.ParentFile().Package() != "holdfast.v1" {
		return true
	}
	o, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// methodOf returns a method by its name, holdfast.v1.RunService/StartRun, or nil if it is unknown.
func methodOf(name string) protoreflect.MethodDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.Replace(name, "/", ".", 1)))
	if err != nil {
		return nil
	}
	m, _ := d.(protoreflect.MethodDescriptor)
	return m
}

// Open returns a gate that treats every caller as an anonymous admin. A server without
// another gate uses it.
func Open() *Gate {
	discard := func(context.Context, *internalv1.RecordDenials) error { return nil }
	g, err := New(Config{Insecure: true}, Deps{Report: discard})
	if err != nil {
		panic(err) // impossible: no issuer is configured
	}
	return g
}

// metrics counts the refusals of the gate. No label contains a value sent by a caller.
type metrics struct {
	refused *prometheus.CounterVec
	merged  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_auth_refused_total",
			Help: "Calls refused by this peer, by reason: credentials, roles, and limits.",
		}, []string{"reason"}),
		merged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_auth_denials_merged_total",
			Help: "Refused calls that the audit trail counts without details, because there were too many.",
		}),
	}
	if r != nil {
		r.MustRegister(m.refused, m.merged)
	}
	return m
}
