package hardware

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/ironic"
	sshexec "github.com/holdfast-metal/holdfast/providers/ssh"
)

// strict decodes JSON and refuses unknown keys.
func strict(raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read configuration: more than one value")
	}
	return nil
}

// open returns a secret, which must have a type.
func (h *Hardware) open(ctx context.Context, name, kind string) (secrets.Secret, error) {
	s, err := h.secrets.Resolve(ctx, name)
	switch {
	case errors.Is(err, secrets.ErrNoKey):
		return s, &providers.NotAsked{Reason: "NoSecretsKey", Err: err}
	case err != nil:
		return s, &providers.NotAsked{Reason: "NoCredentials", Err: err}
	case s.Type != kind:
		return secrets.Secret{}, &providers.NotAsked{Reason: "NoCredentials",
			Err: fmt.Errorf("secret %q is of type %s, want %s: create another one with holdfast secret put --type %s",
				name, s.Type, kind, kind)}
	}
	return s, nil
}

// accounts returns the BMC accounts from the secrets that machines name.
type accounts struct{ h *Hardware }

func (a accounts) Account(ctx context.Context, m providers.Machine) (bmc.Account, error) {
	ref := m.GetSpec().GetBmcCredentialsRef()
	if ref == "" {
		return bmc.Account{}, &providers.NotAsked{Reason: "NoCredentials",
			Err: fmt.Errorf("machine %s names no account for its BMC: set bmc_credentials_ref to a secret of type bmc",
				m.GetMachineId())}
	}
	s, err := a.h.open(ctx, ref, "bmc")
	if err != nil {
		return bmc.Account{}, err
	}
	return bmc.Account{User: s.Values["username"].Reveal(), Password: s.Values["password"].Reveal(),
		Version: fmt.Sprintf("%s/%d", s.Name, s.Version)}, nil
}

// logins returns the credentials of hosts.
type logins struct{ h *Hardware }

func (l logins) Login(ctx context.Context, ref string) (sshexec.Login, error) {
	if ref == "" {
		return sshexec.Login{}, &providers.NotAsked{Reason: "NoCredentials",
			Err: errors.New("no credentials for the host: set ssh_credentials_ref of the machine, or credentials_ref of " +
				"the provider, to a secret of type ssh")}
	}
	s, err := l.h.open(ctx, ref, "ssh")
	if err != nil {
		return sshexec.Login{}, err
	}
	reveal := func(name string) string { return s.Values[name].Reveal() }
	return sshexec.Login{Username: reveal("username"), PrivateKey: []byte(reveal("private_key")),
		Certificate: []byte(reveal("certificate")), Password: reveal("password")}, nil
}

// ironicLogins returns the credentials of Ironic.
type ironicLogins struct{ h *Hardware }

func (l ironicLogins) Login(ctx context.Context, ref string) (ironic.Login, error) {
	s, err := l.h.open(ctx, ref, "opaque")
	if err != nil {
		return ironic.Login{}, err
	}
	reveal := func(name string) string { return s.Values[name].Reveal() }
	return ironic.Login{Username: reveal("username"), Password: reveal("password"),
		AppID:     reveal("application_credential_id"),
		AppSecret: reveal("application_credential_secret"), Version: fmt.Sprintf("%s/%d", s.Name, s.Version)}, nil
}

// memory stores memos of BMCs as notes.
type memory struct{ h *Hardware }

func (m memory) Recall(_ context.Context, name string) (bmc.Memo, error) {
	var memo bmc.Memo
	note := m.h.notes.Get("bmc/" + name)
	if note == nil {
		return memo, nil
	}
	if err := json.Unmarshal(note, &memo); err != nil {
		return bmc.Memo{}, fmt.Errorf("read the note of BMC %s: %w", name, err)
	}
	return memo, nil
}

func (m memory) Remember(ctx context.Context, name string, memo bmc.Memo) error {
	note, err := json.Marshal(memo)
	if err != nil {
		return fmt.Errorf("note BMC %s: %w", name, err)
	}
	if bytes.Equal(note, m.h.notes.Get("bmc/"+name)) {
		return nil
	}
	before, err := m.Recall(ctx, name)
	if err == nil && !urgent(before, memo) {
		m.h.notes.PutSoon("bmc/"+name, note)
		return nil
	}
	return m.h.notes.Put(ctx, "bmc/"+name, note)
}

// urgent reports whether the next leader could do harm without a change of a memo: leave a session
// open, lock an account, or reset a BMC a second time. The next leader notices by itself that a
// session was ended, which driver works, and that a BMC does not answer.
func urgent(before, now bmc.Memo) bool {
	return now.Session != "" && now.Session != before.Session || now.OwesMore(before) ||
		now.Refused != before.Refused || now.RefusedWith != before.RefusedWith || !now.ResetAt.Equal(before.ResetAt)
}

// hostKeys returns the keys of hosts from the inventory, or else the key that was pinned at the
// first connection.
type hostKeys struct{ h *Hardware }

func (k hostKeys) Get(_ context.Context, host string) ([]string, error) {
	if m, ok := k.h.inventory.View().Machine(host); ok && len(m.GetSpec().GetSshHostKeys()) > 0 {
		return m.GetSpec().GetSshHostKeys(), nil
	}
	if note := k.h.notes.Get("host/" + host); len(note) > 0 {
		return strings.Split(string(note), "\n"), nil
	}
	return nil, nil
}

func (k hostKeys) Pin(ctx context.Context, host, key string) error {
	return k.h.notes.PutFirst(ctx, "host/"+host, []byte(key))
}
