package hardware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/providers/ironic"
)

// peer has a real state and fixed secrets.
type peer struct {
	mu      sync.Mutex
	fsm     *fsmtest.Peer
	secrets map[string]secrets.Secret
}

func (p *peer) Resolve(_ context.Context, name string) (secrets.Secret, error) {
	s, ok := p.secrets[name]
	if !ok {
		return s, fmt.Errorf("secret %q not found", name)
	}
	return s, nil
}

func (p *peer) View() *fsm.View       { return p.fsm.View() }
func (p *peer) Get(key string) []byte { return p.fsm.View().DeviceNote(key) }

func (p *peer) Put(_ context.Context, key string, value []byte) error {
	return p.note(&internalv1.NoteDevice{Key: key, Value: value})
}

func (p *peer) PutSoon(key string, value []byte) {
	_ = p.note(&internalv1.NoteDevice{Key: key, Value: value})
}

func (p *peer) PutFirst(_ context.Context, key string, value []byte) error {
	return p.note(&internalv1.NoteDevice{Key: key, Value: value, First: true})
}

func (p *peer) note(c *internalv1.NoteDevice) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.fsm.Do(c).Err; err != nil {
		return err
	}
	return nil
}

func newPeer(t *testing.T) (*Hardware, *peer) {
	t.Helper()
	p := &peer{fsm: fsmtest.NewPeer(), secrets: map[string]secrets.Secret{
		"bmcs": {Name: "bmcs", Type: "bmc", Version: 3,
			Values: map[string]secrets.Value{"username": secrets.NewValue("admin"), "password": secrets.NewValue("secret")}},
		"ironic": {Name: "ironic", Type: "opaque", Version: 2,
			Values: map[string]secrets.Value{"username": secrets.NewValue("admin"), "password": secrets.NewValue("secret"),
				"application_credential_id": secrets.NewValue("app"), "application_credential_secret": secrets.NewValue("key")}},
		"hosts": {Name: "hosts", Type: "ssh", Version: 1,
			Values: map[string]secrets.Value{"password": secrets.NewValue("hush")}},
	}}
	return New(Config{Secrets: p, Notes: p, Inventory: p, Log: slog.New(slog.DiscardHandler)}), p
}

func TestConfigurations(t *testing.T) {
	for name, tt := range map[string]struct{ kind, config, problem string }{
		"cloudbmc":               {"cloudbmc", `{"tls": "insecure"}`, ""},
		"ssh":                    {"ssh", `{"credentials_ref": "hosts", "host_keys": "pinned"}`, ""},
		"datacenter":             {"datacenter", `{"bmc": {"protocol": "redfish"}, "ssh": {"idle": "2m"}}`, ""},
		"datacenter by default":  {"datacenter", ``, ""},
		"a key of no half":       {"datacenter", `{"ipmi": {}}`, "ipmi"},
		"unknown key of the BMC": {"datacenter", `{"bmc": {"protocoll": "redfish"}}`, "protocoll"},
		"a bad value":            {"datacenter", `{"ssh": {"idle": "soon"}}`, "soon"},
		"ironic": {"ironic",
			`{"endpoint": "https://ironic:6385", "auth": "http_basic", "credentials_ref": "ironic"}`, ""},
		"ironic nowhere": {"ironic", `{}`, "endpoint is missing"},
		"cloudbmc that installs": {"cloudbmc",
			`{"tls": "insecure", "media": {"servers": ["http://10.0.0.1:7404"], "boot_seconds": 1200}}`, ""},
		"media without servers":  {"cloudbmc", `{"media": {}}`, "0 servers for BMCs"},
		"media with a path":      {"cloudbmc", `{"media": {"servers": ["http://10.0.0.1:7404/x"]}}`, "nothing else"},
		"media with another key": {"cloudbmc", `{"media": {"server": "http://10.0.0.1:7404"}}`, "server"},
		"the section of another": {"cloudbmc", `{"bmc": {"protocol": "ipmi"}}`, "one of a datacenter"},
		"a bad protocol":         {"cloudbmc", `{"protocol": "amt"}`, "amt"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := newPeer(t)
			set, err := providers.NewSet(h.Factories(),
				map[string]providers.Config{"p": {Kind: tt.kind, Raw: json.RawMessage(tt.config)}}, slog.New(slog.DiscardHandler))
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("got %v, want an error with %s", err, tt.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p, err := set.Of(&holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{Provider: "p"}})
			if err != nil || p.Kind() != tt.kind {
				t.Errorf("got %v, %v, want a provider of kind %s", p, err, tt.kind)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	h, _ := newPeer(t)
	machine := func(ref string) *holdfastv1.Machine {
		return &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{BmcCredentialsRef: ref}}
	}
	got, err := accounts{h}.Account(t.Context(), machine("bmcs"))
	if want := (bmc.Account{User: "admin", Password: "secret", Version: "bmcs/3"}); err != nil || got != want {
		t.Errorf("account: got %+v, %v, want %+v", got, err, want)
	}
	for ref, problem := range map[string]string{"": "names no account", "hosts": "is of type ssh, want bmc",
		"none": "not found"} {
		if _, err := (accounts{h}).Account(t.Context(), machine(ref)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("account of %q: got %v, want %q", ref, err, problem)
		}
	}
	login, err := logins{h}.Login(t.Context(), "hosts")
	if err != nil || login.Password != "hush" {
		t.Errorf("login: %v", err)
	}
	for ref, problem := range map[string]string{"": "no credentials for the host", "bmcs": "is of type bmc, want ssh"} {
		if _, err := (logins{h}).Login(t.Context(), ref); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("login of %q: got %v, want %q", ref, err, problem)
		}
	}
}

func TestLoginsAtIronic(t *testing.T) {
	h, _ := newPeer(t)
	got, err := ironicLogins{h}.Login(t.Context(), "ironic")
	if want := (ironic.Login{Username: "admin", Password: "secret", AppID: "app", AppSecret: "key",
		Version: "ironic/2"}); err != nil || got != want {
		t.Errorf("login: got %+v, %v, want %+v", got, err, want)
	}
	if _, err := (ironicLogins{h}).Login(t.Context(), "bmcs"); err == nil ||
		!strings.Contains(err.Error(), "is of type bmc, want opaque") {
		t.Errorf("secret of another type: got %v", err)
	}
}

func TestMemory(t *testing.T) {
	h, _ := newPeer(t)
	m := memory{h}
	if got, err := m.Recall(t.Context(), "https://b"); err != nil || !cmp.Equal(got, bmc.Memo{}) {
		t.Errorf("before the first note: got %v, %v", got, err)
	}
	want := bmc.Memo{Driver: bmc.Redfish, Session: "/redfish/v1/SessionService/Sessions/7", Refused: 1,
		RefusedWith: "bmcs/3", OpenUntil: time.Unix(1_800_000_000, 0).UTC(), Owed: []string{"/redfish/v1/Sessions/6"},
		Logins: []bmc.Login{{From: "10.0.0.1", First: time.Unix(1_800_000_000, 0).UTC(),
			Until: time.Unix(1_800_000_020, 0).UTC()}}}
	if err := m.Remember(t.Context(), "https://b", want); err != nil {
		t.Fatal(err)
	}
	got, err := m.Recall(t.Context(), "https://b")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("memory: %v (-want +got):\n%s", err, diff)
	}
}

func TestHostKeys(t *testing.T) {
	h, p := newPeer(t)
	k := hostKeys{h}
	want := func(keys ...string) {
		t.Helper()
		if got, err := k.Get(t.Context(), "m-1"); err != nil || !cmp.Equal(got, keys) {
			t.Errorf("keys: got %q, %v, want %q", got, err, keys)
		}
	}
	want()
	if err := k.Pin(t.Context(), "m-1", "ssh-ed25519 first"); err != nil {
		t.Fatal(err)
	}
	var refused *fsm.Error
	if err := k.Pin(t.Context(), "m-1", "ssh-ed25519 second"); !errors.As(err, &refused) {
		t.Errorf("pin another key: got %v, want a refusal", err)
	}
	want("ssh-ed25519 first")
	// Keys in the inventory were set by an operator.
	if err := p.fsm.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{SshHostKeys: []string{"ssh-ed25519 known"}}}}).Err; err != nil {
		t.Fatal(err)
	}
	want("ssh-ed25519 known")
}

// At the end of a term, no session is left on the BMC, and the next leader begins with the notes of
// this one.
func TestSessionsEndWithTerm(t *testing.T) {
	service := redfishtest.New(redfishtest.Config{})
	defer service.Close()
	site := httptest.NewTLSServer(service.Handler())
	defer site.Close()
	h, p := newPeer(t)
	set, err := providers.NewSet(h.Factories(),
		map[string]providers.Config{"dc": {Kind: "datacenter", Raw: json.RawMessage(`{"bmc": {"tls": "insecure"}}`)}},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- h.Serve(ctx) }()
	m := &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Provider: "dc", BmcEndpoint: site.URL,
		BmcCredentialsRef: "bmcs"}}
	use := func() {
		t.Helper()
		dc, err := set.Of(m)
		if err != nil {
			t.Fatal(err)
		}
		read := func() (providers.PowerState, error) {
			return dc.(providers.PowerController).PowerState(t.Context(), m)
		}
		state, err := read()
		for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond) // sleep: the end of the last term may refuse operations under way
			state, err = read()
		}
		if err != nil || state != providers.PowerOn {
			t.Fatalf("got power %q, %v, want on", state, err)
		}
		if n := service.Sessions(); n != 1 {
			t.Errorf("got %d sessions while the BMC is in use, want 1", n)
		}
	}
	gone := func() {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); service.Sessions() > 0; {
			if time.Now().After(deadline) {
				t.Fatalf("got %d remaining sessions, want 0", service.Sessions())
			}
			time.Sleep(5 * time.Millisecond) // sleep: between two polls
		}
	}
	term, over := context.WithCancel(t.Context())
	led := make(chan error, 1)
	go func() { led <- h.Run(term, leader.Term{}) }()
	use()
	if note := string(p.Get("bmc/" + site.URL + "#bmcs")); !strings.Contains(note, "Sessions/") {
		t.Errorf("note of the BMC: got %q", note)
	}
	over()
	if err := <-led; err != nil {
		t.Error(err)
	}
	gone()
	use() // this peer leads again
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	gone()
}
