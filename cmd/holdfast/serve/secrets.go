package serve

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/issuer"
)

// secretsConfig configures the encryption of secrets and the built-in issuer.
type secretsConfig struct {
	SecretsKeyFile  string
	OIDCIssuerURL   string
	OIDCKeyRotation time.Duration
}

func (c *secretsConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.SecretsKeyFile, "secrets-key-file", "",
		"`file` with the keys that encrypt secrets, the primary key first (holdfast secret keygen), or credential:NAME "+
			"of systemd; reloaded when it changes")
	fs.StringVar(&c.OIDCIssuerURL, "oidc-issuer-url", "",
		"`URL` of the built-in OIDC issuer for clients, the same on all peers (default: the host of each request, with "+
			"the path /oidc)")
	fs.DurationVar(&c.OIDCKeyRotation, "oidc-key-rotation", issuer.DefaultRotation,
		"`time` between two rotations of the built-in issuer's signing key")
}

func (c *secretsConfig) settle() error {
	if c.OIDCKeyRotation <= 0 {
		return fmt.Errorf("set --oidc-key-rotation to more than 0, not %s", c.OIDCKeyRotation)
	}
	_, err := issuer.New(issuer.Config{URL: c.OIDCIssuerURL}, nil, nil, nil)
	if err != nil {
		return fmt.Errorf("read --oidc-issuer-url: %w", err)
	}
	return nil
}

// vault holds the parts of a peer that use its secrets keys.
type vault struct {
	keys   *secrets.Keyring
	guard  *secrets.Guard
	issuer *issuer.Issuer
	tasks  []leader.Task
}

// open creates the vault. The keys were read before anything else was done.
func (c *secretsConfig) open(
	keys *secrets.Keyring, node *cluster.Peer, state *fsm.FSM, gate *auth.Gate, now func() time.Time,
	log *slog.Logger,
) (*vault, error) {
	v := &vault{keys: keys, guard: secrets.NewGuard(state, keys, log)}
	var err error
	v.issuer, err = issuer.New(issuer.Config{URL: c.OIDCIssuerURL, Now: now, Logger: log}, state, keys, gate)
	if err != nil {
		return nil, err
	}
	v.tasks = []leader.Task{v.guard, issuer.NewRotator(c.OIDCKeyRotation, node, state, keys, now, log)}
	return v, nil
}

// routes adds the routes of the issuer.
func (v *vault) routes(m *auth.Mux, _ grpc.ClientConnInterface) { v.issuer.Routes(m) }
