package server

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// keyring returns a keyring with new keys of these ids; the first one encrypts.
func keyring(t *testing.T, ids ...string) (*secrets.Keyring, []string) {
	t.Helper()
	var lines []string
	for _, id := range ids {
		l, err := secrets.NewKeyLine(id)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return ring(t, lines...), lines
}

func ring(t *testing.T, lines ...string) *secrets.Keyring {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := secrets.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func secretClient(t *testing.T, n *nodetest.Node, k *secrets.Keyring) holdfastv1.SecretServiceClient {
	t.Helper()
	_, c := serve(t, n, Config{Keys: k})
	return holdfastv1.NewSecretServiceClient(c.conn)
}

func TestSecretsLife(t *testing.T) {
	n := nodetest.New()
	k, _ := keyring(t, "k1")
	c := secretClient(t, n, k)
	ctx := testCtx(t)
	values := map[string]string{"username": "root", "password": "correct-horse"}
	s, err := c.PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: "bmc/r7", Type: "bmc", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	want := &holdfastv1.Secret{Name: "bmc/r7", Type: "bmc", Keys: []string{"password", "username"}, KeyId: "k1",
		Version: 1, UpdatedBy: "anonymous"}
	times := protocmp.IgnoreFields(&holdfastv1.Secret{}, "created_at", "updated_at")
	if diff := cmp.Diff(want, s, protocmp.Transform(), times); diff != "" || s.GetUpdatedAt() == nil {
		t.Errorf("first version (-want +got):\n%s", diff)
	}
	values["password"] = "battery-staple"
	if s, err = c.PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: "bmc/r7", Type: "bmc",
		Values: values}); err != nil || s.GetVersion() != 2 {
		t.Errorf("second version: %v, %v", s, err)
	}
	got, err := secrets.NewResolver(n.Peer, k).Resolve(ctx, "bmc/r7")
	if err != nil || got.Values["password"].Reveal() != "battery-staple" {
		t.Errorf("resolved %v, %v", got, err)
	}

	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{BmcCredentialsRef: "bmc/r7"}}})
	want.Version, want.UsedBy, want.Uses = 2, []string{"m-1"}, 1
	one, err := c.GetSecret(ctx, &holdfastv1.GetSecretRequest{Name: "bmc/r7"})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.ListSecrets(ctx, &holdfastv1.ListSecretsRequest{})
	if err != nil || len(list.GetSecrets()) != 1 {
		t.Fatalf("list: %v, %v", list, err)
	}
	for _, s := range []*holdfastv1.Secret{one, list.GetSecrets()[0]} {
		if diff := cmp.Diff(want, s, protocmp.Transform(), times); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
	}
	_, err = c.DeleteSecret(ctx, &holdfastv1.DeleteSecretRequest{Name: "bmc/r7"})
	wantError(t, err, codes.FailedPrecondition, "SECRET_IN_USE")
	if _, err := c.DeleteSecret(ctx, &holdfastv1.DeleteSecretRequest{Name: "bmc/r7", Force: true}); err != nil {
		t.Error(err)
	}
	_, err = c.GetSecret(ctx, &holdfastv1.GetSecretRequest{Name: "bmc/r7"})
	wantError(t, err, codes.NotFound, "SECRET_NOT_FOUND")
}

// If another call has stored the same version meanwhile, the secret is encrypted as the
// next one.
func TestPutSecretAtTheSameTime(t *testing.T) {
	n := nodetest.New()
	k, _ := keyring(t, "k1")
	c := secretClient(t, n, k)
	other, err := k.Put(&holdfastv1.Secret{Name: "a", Type: "opaque", Version: 1}, map[string]string{"x": "1"})
	if err != nil {
		t.Fatal(err)
	}
	raced := false
	n.Before = func(cmd *internalv1.Command) error {
		if cmd.GetPutSecret() != nil && !raced {
			raced = true
			n.Do(t, &internalv1.PutSecret{Secret: other})
		}
		return nil
	}
	s, err := c.PutSecret(testCtx(t), &holdfastv1.PutSecretRequest{Name: "a", Type: "opaque",
		Values: map[string]string{"x": "2"}})
	if err != nil || s.GetVersion() != 2 {
		t.Fatalf("got %v, %v; want version 2", s, err)
	}
	got, err := secrets.NewResolver(n.Peer, k).Resolve(t.Context(), "a")
	if err != nil || got.Values["x"].Reveal() != "2" {
		t.Errorf("resolved %v, %v", got, err)
	}
}

// kubeconfig returns a kubeconfig with a user.
func kubeconfig(user string) string {
	return "current-context: it\ncontexts: [{name: it, context: {cluster: it, user: it}}]\nclusters: [{name: it, " +
		"cluster: {server: \"https://10.0.0.1\", certificate-authority-data: AA==}}]\n" +
		"users: [{name: it, user: " + user + "}]\n"
}

func TestPutSecretRefuses(t *testing.T) {
	key, cert, other := sshFixture(t)
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(ed25519.NewKeyFromSeed(make([]byte, 32)), "", []byte("pass"))
	if err != nil {
		t.Fatal(err)
	}
	k, _ := keyring(t, "k1")
	c := secretClient(t, nodetest.New(), k)
	const secret = "hunter2-hunter2"
	for _, tc := range []struct {
		name, secret, typ string
		values            map[string]string
		want              string // "" is fine
	}{
		{"bmc", "a", "bmc", map[string]string{"username": "u", "password": secret}, ""},
		{"ssh of root", "b", "ssh", map[string]string{"private_key": key}, ""},
		{"ssh with a key", "b", "ssh", map[string]string{"username": "u", "private_key": key}, ""},
		{"ssh with a password", "c", "ssh", map[string]string{"username": "u", "password": secret}, ""},
		{"ssh with a certificate", "d", "ssh", map[string]string{"username": "u", "private_key": key, "certificate": cert},
			""},
		{"join", "e", "join", map[string]string{"token": secret, "ca_hash": "sha256:x", "endpoint": "10.0.0.1:6443"}, ""},
		{"a cluster", "cluster/e", "join", map[string]string{"kubeconfig": kubeconfig("{token: " + secret + "}")}, ""},
		{"a cluster whose user is a program", "cluster/x", "join",
			map[string]string{"kubeconfig": kubeconfig("{exec: {command: " + secret + "}}")}, "with a program"},
		{"a cluster whose user is in a file", "cluster/x", "join",
			map[string]string{"kubeconfig": kubeconfig("{tokenFile: /" + secret + "}")}, "refers to files of a user"},
		{"a cluster without its CA", "cluster/x", "join",
			map[string]string{"kubeconfig": strings.Replace(kubeconfig("{}"), "certificate-authority-data", "x",
				1)}, "without certificate-authority-data"},
		{"no kubeconfig", "cluster/x", "join", map[string]string{"kubeconfig": "{" + secret}, "is not a kubeconfig"},
		{"a join of nothing", "a", "join", map[string]string{"endpoint": "10.0.0.1:6443"}, "need one of token, kubeconfig"},
		{"token", "f", "token", map[string]string{"token": secret}, ""},
		{"opaque", "g", "opaque", map[string]string{"anything": secret}, ""},
		{"no name", "", "bmc", map[string]string{"username": "u", "password": secret}, "name"},
		{"a name with spaces", secret + " x", "bmc", map[string]string{"username": "u", "password": secret}, "name"},
		{"unknown type", "a", "bcm", map[string]string{"username": "u", "password": secret}, "type"},
		{"nothing in it", "a", "opaque", nil, "values"},
		{"no password", "a", "bmc", map[string]string{"username": "u"}, "values[password]: is required"},
		{"a key too many", "a", "bmc", map[string]string{"username": "u", "password": secret, "pin": "1"},
			"values[pin]: is unknown"},
		{"a value for a key", "a", "opaque", map[string]string{secret + " !": "x"}, "values"},
		{"too large", "a", "opaque", map[string]string{"x": strings.Repeat(secret, 1<<14)}, "at most"},
		{"ssh with nothing", "a", "ssh", map[string]string{"username": "u"}, "need one of private_key, password"},
		{"no key", "a", "ssh", map[string]string{"username": "u", "private_key": secret},
			"values[private_key]: is not a private key"},
		{"a key with a passphrase", "a", "ssh",
			map[string]string{"username": "u", "private_key": string(pem.EncodeToMemory(locked))}, "passphrase"},
		{"no certificate", "a", "ssh", map[string]string{"username": "u", "private_key": key, "certificate": secret},
			"values[certificate]: is not an SSH certificate"},
		{"a certificate of another key", "a", "ssh", map[string]string{"username": "u", "private_key": other,
			"certificate": cert}, "of another key"},
		{"a certificate alone", "a", "ssh", map[string]string{"username": "u", "password": secret, "certificate": cert},
			"needs the private_key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.PutSecret(testCtx(t), &holdfastv1.PutSecretRequest{Name: tc.secret, Type: tc.typ, Values: tc.values})
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, codes.InvalidArgument, "INVALID_FIELD")
			all := fmt.Sprint(err, detail[*errdetails.BadRequest](err))
			if !strings.Contains(all, tc.want) {
				t.Errorf("error = %v, want it to say %q", all, tc.want)
			}
			if strings.Contains(all, secret) {
				t.Errorf("the error shows a value: %v", all)
			}
		})
	}
}

// sshFixture returns a private key, a certificate for it, and another private key.
func sshFixture(t *testing.T) (key, cert, other string) {
	t.Helper()
	texts, pubs, privs := make([]string, 2), make([]ssh.PublicKey, 2), make([]ed25519.PrivateKey, 2)
	for i := range texts {
		_, priv, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		block, err := ssh.MarshalPrivateKey(priv, "")
		if err != nil {
			t.Fatal(err)
		}
		if pubs[i], err = ssh.NewPublicKey(priv.Public()); err != nil {
			t.Fatal(err)
		}
		texts[i], privs[i] = string(pem.EncodeToMemory(block)), priv
	}
	ca, err := ssh.NewSignerFromKey(privs[1])
	if err != nil {
		t.Fatal(err)
	}
	c := &ssh.Certificate{Key: pubs[0], CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity,
		ValidPrincipals: []string{"root"}}
	if err := c.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	return texts[0], string(ssh.MarshalAuthorizedKey(c)), texts[1]
}

func TestSecretsWithoutAKey(t *testing.T) {
	n := nodetest.New()
	old, lines := keyring(t, "k1")
	if _, err := secretClient(t, n, old).PutSecret(testCtx(t), &holdfastv1.PutSecretRequest{Name: "a", Type: "token",
		Values: map[string]string{"token": "x"}}); err != nil {
		t.Fatal(err)
	}
	none := secretClient(t, n, nil)
	_, err := none.PutSecret(testCtx(t), &holdfastv1.PutSecretRequest{Name: "b", Type: "token",
		Values: map[string]string{"token": "x"}})
	wantError(t, err, codes.FailedPrecondition, "SECRETS_KEY_MISSING")
	if !strings.Contains(err.Error(), "--secrets-key-file") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	_, err = none.RotateSecrets(testCtx(t), &holdfastv1.RotateSecretsRequest{})
	wantError(t, err, codes.FailedPrecondition, "SECRETS_KEY_MISSING")
	if r, err := none.ListSecrets(testCtx(t), &holdfastv1.ListSecretsRequest{}); err != nil || len(r.GetSecrets()) != 1 {
		t.Errorf("a peer without a key lists %v, %v", r, err)
	}

	// The leader has a new key, and no longer the previous one.
	other, more := keyring(t, "k2")
	_, err = secretClient(t, n, other).RotateSecrets(testCtx(t), &holdfastv1.RotateSecretsRequest{})
	wantError(t, err, codes.FailedPrecondition, "SECRETS_KEY_MISSING")
	for _, want := range []string{"key k1", `"a"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want it to say %q", err, want)
		}
	}
	if r, err := secretClient(t, n, ring(t, more[0], lines[0])).RotateSecrets(testCtx(t),
		&holdfastv1.RotateSecretsRequest{}); err != nil || r.GetResealed() != 1 || r.GetKeyId() != "k2" {
		t.Errorf("rotate: %v, %v", r, err)
	}
}

// Rotation re-encrypts everything, continues after an interruption, and finds nothing to
// do afterwards.
func TestRotateSecrets(t *testing.T) {
	n := nodetest.New()
	old, lines := keyring(t, "k1")
	ctx := testCtx(t)
	const batch, many = 64, 2*64 + 10 // as many as one command reseals, and more than two commands
	c := secretClient(t, n, old)
	for i := range many {
		if _, err := c.PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: fmt.Sprintf("s-%03d", i), Type: "token",
			Values: map[string]string{"token": fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	sealed, err := old.Seal(secrets.SigningKeys, "kid", 0, []byte("pkcs8"))
	if err != nil {
		t.Fatal(err)
	}
	n.Do(t, &internalv1.PutSigningKeys{Keys: []*internalv1.SigningKey{{KeyId: "kid", Sealed: sealed,
		PublicJwk: []byte("{}"), CreatedAt: n.Peer.View().Meta().GetNow()}}})

	_, next := keyring(t, "k2")
	both := ring(t, next[0], lines[0])
	c = secretClient(t, n, both)
	batches := 0
	n.Before = func(cmd *internalv1.Command) error {
		if cmd.GetResealSecrets() != nil {
			if batches++; batches == 2 {
				return context.DeadlineExceeded
			}
		}
		return nil
	}
	if _, err := c.RotateSecrets(ctx, &holdfastv1.RotateSecretsRequest{}); err == nil {
		t.Fatal("rotation went on over a failure")
	}
	r, err := c.RotateSecrets(ctx, &holdfastv1.RotateSecretsRequest{})
	if err != nil || r.GetKeyId() != "k2" || r.GetResealed() != many+1-batch {
		t.Errorf("second try: %v, %v; want %d resealed", r, err, many+1-batch)
	}
	if r, err = c.RotateSecrets(ctx, &holdfastv1.RotateSecretsRequest{}); err != nil || r.GetResealed() != 0 {
		t.Errorf("third try: %v, %v; want nothing to do", r, err)
	}
	only := ring(t, next[0])
	for i := range many {
		s, err := secrets.NewResolver(n.Peer, only).Resolve(ctx, fmt.Sprintf("s-%03d", i))
		if err != nil || s.Version != 1 || s.Values["token"].Reveal() != fmt.Sprint(i) {
			t.Fatalf("after rotation: %v, %v", s, err)
		}
	}
	if plain, err := only.Open(secrets.SigningKeys, "kid", 0, n.Peer.View().SigningKeys()[0].GetSealed()); err != nil ||
		string(plain) != "pkcs8" {
		t.Errorf("signing key: %q, %v", plain, err)
	}
}

func TestReadinessHasTheNote(t *testing.T) {
	n := nodetest.New()
	for note, want := range map[string]string{"": "", "a key is missing": "a key is missing"} {
		s := New(Config{Note: func() string { return note }}, n, n.Peer, testProviders())
		code, body := get(t, s, "GET", "/readyz")
		var r readiness
		if err := json.Unmarshal([]byte(body), &r); err != nil || code != 200 || r.Note != want {
			t.Errorf("got %d %s, %v", code, body, err)
		}
	}
}
