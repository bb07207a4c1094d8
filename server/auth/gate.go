package auth

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config says how callers are known, and how much each of them may ask for.
type Config struct {
	// Insecure takes everybody for anonymous, an admin, and limits nobody. For loopback only.
	Insecure bool
	// PeerID is this peer's id, for the audit trail. Cluster is the name of its cluster in the
	// certificates of peers.
	PeerID, Cluster string
	// Issuers are those whose access tokens are taken, beside the built-in one.
	Issuers []Issuer
	// RatePerSecond is how many calls a user may make; negative: any number. Default 1000; agents
	// get a twentieth, services a fifth, the agents of a pool together ten times as many. A burst
	// of twice that is taken at once.
	RatePerSecond float64
	// Logger defaults to none.
	Logger *slog.Logger
	// Registerer takes the metrics; nil registers none.
	Registerer prometheus.Registerer
}

// Records are the parts of the replicated state that say who somebody is (*fsm.View).
type Records interface {
	TokenByHash(sum []byte) (*holdfastv1.Token, bool)
	Token(id string) (*holdfastv1.Token, bool)
	SigningKeys() []*internalv1.SigningKey
	// TokensMark returns a value that is another one after any change of a token.
	TokensMark() any
}

// Deps are what a Gate needs of its peer.
type Deps struct {
	// Records returns this peer's own state.
	Records func() Records
	// Fresh returns a state that includes all that was acknowledged before the call.
	Fresh func(context.Context) (Records, error)
	// Report takes refusals to the audit trail.
	Report func(context.Context, *internalv1.RecordDenials) error
}

// Gate authenticates and authorizes the calls of one peer.
type Gate struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	rules   map[string]methodRule // by full method, as gRPC spells it
	limits  *limits
	denials *Denials
	second  *secondLooks
	known   known
	oidc    *issuers
	builtIn *builtIn
	metrics *metrics
	now     func() time.Time
	body    time.Duration // that a request's body may take
}

// methodRule is what the gate needs to know of a method.
type methodRule struct {
	Rule
	name string // in the audit trail
	read bool   // changes nothing: a refusal is no audit event
}

// New returns a gate. Its Denials must be run.
func New(cfg Config, deps Deps) (*Gate, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.RatePerSecond == 0 {
		cfg.RatePerSecond = defaultRate
	}
	g := &Gate{
		cfg: cfg, deps: deps, log: cfg.Logger, rules: map[string]methodRule{}, second: newSecondLooks(),
		limits: newLimits(cfg.RatePerSecond), builtIn: newBuiltIn(), metrics: newMetrics(cfg.Registerer), now: time.Now, body: bodyTimeout,
	}
	g.denials = newDenials(deps.Report, cfg.Logger, g.metrics)
	for name, r := range policy() {
		g.rules["/"+name] = methodRule{Rule: r, name: name, read: readOnly(name)}
	}
	var err error
	g.oidc, err = newIssuers(cfg.Issuers)
	return g, err
}

// Denials returns what takes refusals to the audit trail.
func (g *Gate) Denials() *Denials { return g.denials }

// rule returns the rule of a method. One that is not in the table refuses everybody.
func (g *Gate) rule(method string) (methodRule, *Error) {
	r, ok := g.rules[method]
	if !ok || !r.set() {
		return methodRule{}, denied(ReasonNoRule, "%s has no rule that lets anybody call it", method)
	}
	return r, nil
}

// readOnly reports whether a method is marked so in its proto, or is gRPC's own.
func readOnly(name string) bool {
	service, method, _ := strings.Cut(name, "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return true // health or reflection, not linked in
	}
	sd, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return true
	}
	if md := sd.Methods().ByName(protoreflect.Name(method)); md != nil && sd.ParentFile().Package() == "holdfast.v1" {
		o, ok := md.Options().(*descriptorpb.MethodOptions)
		return ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
	}
	return true
}

// Open returns a gate that takes everybody for anonymous, an admin: that of a server that was told
// of no other one.
func Open() *Gate {
	g, err := New(Config{Insecure: true}, Deps{Report: func(context.Context, *internalv1.RecordDenials) error { return nil }})
	if err != nil {
		panic(err) // no issuer is configured that could be wrong
	}
	return g
}
