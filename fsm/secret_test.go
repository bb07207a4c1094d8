package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func putSecret(name string, version uint64) *internalv1.PutSecret {
	return &internalv1.PutSecret{Secret: &internalv1.StoredSecret{
		Secret: &holdfastv1.Secret{Name: name, Type: "bmc", Keys: []string{"username", "password"}, Version: version},
		Sealed: &internalv1.Sealed{KeyId: "key-1", Nonce: []byte("nonce"),
			Ciphertext: fmt.Appendf(nil, "sealed %d", version)},
	}}
}

func TestPutSecret(t *testing.T) {
	const bad, field = fsm.InvalidArgument, "INVALID_FIELD"
	with := func(change func(*internalv1.StoredSecret)) *internalv1.PutSecret {
		c := putSecret("bmc/rack-1", 2)
		change(c.Secret)
		return c
	}
	for _, tt := range []struct {
		name   string
		op     *internalv1.PutSecret
		code   fsm.Code
		reason string
	}{
		{"the next version", putSecret("bmc/rack-1", 2), 0, ""},
		{"another secret", putSecret("other", 1), 0, ""},
		{"the same version again", putSecret("bmc/rack-1", 1), fsm.Aborted, fsm.ReasonSecretVersion},
		{"a version too far", putSecret("bmc/rack-1", 3), fsm.Aborted, fsm.ReasonSecretVersion},
		{"a new one that is not the first", putSecret("other", 2), fsm.Aborted, fsm.ReasonSecretVersion},
		{"another type", with(func(s *internalv1.StoredSecret) { s.Secret.Type = "ssh" }), fsm.FailedPrecondition,
			"SECRET_TYPE"},
		{"no type", with(func(s *internalv1.StoredSecret) { s.Secret.Type = "" }), bad, field},
		{"a type that is none", with(func(s *internalv1.StoredSecret) { s.Secret.Type = "root" }), bad, field},
		{"no name", with(func(s *internalv1.StoredSecret) { s.Secret.Name = "" }), bad, field},
		{"a bad name", with(func(s *internalv1.StoredSecret) { s.Secret.Name = "a b" }), bad, field},
		{"no values", with(func(s *internalv1.StoredSecret) { s.Secret.Keys = nil }), bad, field},
		{"a bad key", with(func(s *internalv1.StoredSecret) { s.Secret.Keys = []string{"a b"} }), bad, field},
		{"not sealed", with(func(s *internalv1.StoredSecret) { s.Sealed = nil }), bad, field},
		{"sealed under nothing", with(func(s *internalv1.StoredSecret) { s.Sealed.KeyId = "" }), bad, field},
		{"too large", with(func(s *internalv1.StoredSecret) { s.Sealed.Ciphertext = make([]byte, 128<<10+1) }), bad, field},
		{"nothing at all", &internalv1.PutSecret{}, bad, field},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			first := do(t, p, putSecret("bmc/rack-1", 1)).(*holdfastv1.Secret)
			if tt.code != 0 {
				refused(t, p, tt.op, tt.code, tt.reason)
				return
			}
			got := do(t, p, tt.op).(*holdfastv1.Secret)
			want := proto.CloneOf(tt.op.GetSecret().GetSecret())
			want.Keys, want.KeyId, want.UpdatedBy = []string{"password", "username"}, "key-1", "tester"
			want.CreatedAt, want.UpdatedAt = timestamppb.New(p.Now), timestamppb.New(p.Now)
			if want.GetName() == first.GetName() {
				want.CreatedAt = first.GetCreatedAt()
			}
			same(t, "secret", want, got)
			kept, _ := p.View().Secret(got.GetName())
			same(t, "sealed", tt.op.GetSecret().GetSealed(), kept.GetSealed())
		})
	}
}

// TestNoRefusalRepeatsASecret uses values as names. No error may contain them.
func TestNoRefusalRepeatsASecret(t *testing.T) {
	const planted = "hunter2 is the password"
	p := fsmtest.NewPeer()
	register(t, p, "m-1", ready)
	name, key, kind := putSecret(planted, 1), putSecret("s", 1), putSecret("s", 1)
	key.Secret.Secret.Keys = []string{planted}
	kind.Secret.Secret.Type = planted
	token := strings.Repeat("dG9rZW4", 13)[:86] // as long and as plain as a token's value
	for _, op := range []proto.Message{name, key, kind, &internalv1.DeleteSecret{Name: planted},
		&internalv1.DeleteSecret{Name: token},
		&internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
			Spec: &holdfastv1.MachineSpec{BmcCredentialsRef: planted}}}} {
		r := from(p, admin(), op)
		if r.Err == nil || strings.Contains(fmt.Sprint(r.Err, r.Err.Fields, r.Err.Meta), planted) {
			t.Errorf("%v: got %v", op, r.Err)
		}
	}
	from(p, admin(), &internalv1.RevokeToken{TokenId: token})
	from(p, &internalv1.Origin{TokenId: token}, &internalv1.RevokeToken{TokenId: token})
	b := string(snapshotBytes(t, p.FSM))
	for _, s := range []string{planted, token} {
		if strings.Contains(b, s) {
			t.Errorf("%q is in the state", s)
		}
	}
}

func TestSecretsInUse(t *testing.T) {
	p := fsmtest.NewPeer()
	// Inventory may come first.
	do(t, p, &internalv1.RegisterMachine{Machine: inPool("m-1", "", "bmc")})
	do(t, p, putSecret("bmc", 1))
	do(t, p, putSecret("bmc-2", 1))
	for i := 2; i < 14; i++ {
		m := inPool(fmt.Sprintf("m-%d", i), "", "bmc")
		m.Spec.SshCredentialsRef = "bmc" // one reference counts once
		do(t, p, &internalv1.RegisterMachine{Machine: m})
	}
	s, _ := p.View().Secret("bmc")
	if got := s.GetSecret(); got.GetUses() != 13 || len(got.GetUsedBy()) != 10 || got.GetUsedBy()[0] != "m-1" {
		t.Errorf("got %d uses by %v, want 13 and ten names", got.GetUses(), got.GetUsedBy())
	}
	if s, _ := p.View().Secret("bmc-2"); s.GetSecret().GetUses() != 0 || s.GetSecret().GetUsedBy() != nil {
		t.Errorf("a secret with a longer name has the uses of another one: %v", s.GetSecret())
	}
	err := refused(t, p, &internalv1.DeleteSecret{Name: "bmc"}, fsm.FailedPrecondition, fsm.ReasonSecretInUse)
	if !strings.Contains(err.Message, "13 machines, such as m-1") {
		t.Errorf("got %q", err.Message)
	}
	refused(t, p, &internalv1.DeleteSecret{Name: "none"}, fsm.NotFound, "SECRET_NOT_FOUND")
	do(t, p, &internalv1.DeleteSecret{Name: "bmc-2"})
	do(t, p, &internalv1.DeleteSecret{Name: "bmc", Force: true})
	do(t, p, putSecret("bmc", 1)) // the name can be used again
	for i := 1; i < 14; i++ {
		do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%d", i)},
			Paths: []string{"spec.bmc_credentials_ref", "spec.ssh_credentials_ref"}})
	}
	do(t, p, &internalv1.DeleteSecret{Name: "bmc"})
}

func TestResealSkipsChangedSecrets(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, putSecret("a", 1))
	do(t, p, putSecret("b", 1))
	do(t, p, putSecret("c", 1))
	do(t, p, &internalv1.PutSigningKeys{Keys: []*internalv1.SigningKey{signingKey(p, "k-1")}})
	before := p.View()
	again := func(name string, version uint64) *internalv1.StoredSecret {
		s, _ := before.Secret(name)
		return &internalv1.StoredSecret{Secret: &holdfastv1.Secret{Name: name, Version: version,
			CreatedAt: s.GetSecret().GetCreatedAt()},
			Sealed: &internalv1.Sealed{KeyId: "key-2", Ciphertext: []byte("anew")}}
	}
	do(t, p, putSecret("b", 2))
	do(t, p, &internalv1.DeleteSecret{Name: "c"})
	do(t, p, putSecret("c", 1)) // another secret under that name: the resealed value is not its own
	do(t, p, &internalv1.ResealSecrets{
		Secrets: []*internalv1.StoredSecret{again("a", 1), again("b", 1), again("c", 1), again("gone", 1)},
		Keys: []*internalv1.SigningKey{{KeyId: "k-1", Sealed: &internalv1.Sealed{KeyId: "key-2",
			Ciphertext: []byte("anew")}}, {KeyId: "k-gone", Sealed: &internalv1.Sealed{KeyId: "key-2"}}},
	})
	var got []string
	for s := range p.View().Secrets("") {
		got = append(got, fmt.Sprintf("%s %d %s %s", s.GetSecret().GetName(), s.GetSecret().GetVersion(),
			s.GetSecret().GetKeyId(), s.GetSealed().GetCiphertext()))
	}
	for _, k := range p.View().SigningKeys() {
		got = append(got, fmt.Sprintf("%s %s %s", k.GetKeyId(), k.GetSealed().GetKeyId(), k.GetPublicJwk()))
	}
	same(t, "resealed", []string{"a 1 key-2 anew", "b 2 key-1 sealed 2", "c 1 key-1 sealed 1", "k-1 key-2 {}"}, got)
}

func signingKey(p *fsmtest.Peer, id string) *internalv1.SigningKey {
	return &internalv1.SigningKey{KeyId: id, Sealed: &internalv1.Sealed{KeyId: "key-1", Ciphertext: []byte("sealed")},
		PublicJwk: []byte("{}"), CreatedAt: timestamppb.New(p.Now)}
}

func TestPutSigningKeys(t *testing.T) {
	p := fsmtest.NewPeer()
	put := func(after string, ids ...string) *internalv1.PutSigningKeys {
		c := &internalv1.PutSigningKeys{AfterKeyId: after}
		for i, id := range ids {
			k := signingKey(p, id)
			k.CreatedAt.Seconds += int64(i)
			c.Keys = append(c.Keys, k)
		}
		return c
	}
	refused(t, p, put(""), fsm.InvalidArgument, "INVALID_FIELD")
	refused(t, p, put("", "a", "a"), fsm.InvalidArgument, "INVALID_FIELD")
	refused(t, p, put("", strings.Split("a b c d e f g h i j k l m n o p q", " ")...), fsm.InvalidArgument,
		"INVALID_FIELD")
	refused(t, p, put("z", "z-1"), fsm.Aborted, fsm.ReasonSigningKeyMoved)
	do(t, p, put("", "z-1"))
	refused(t, p, put("", "a-2"), fsm.Aborted, fsm.ReasonSigningKeyMoved)
	do(t, p, put("z-1", "z-1", "a-2")) // the newest is the last by time, not by name
	var ids []string
	for _, k := range p.View().SigningKeys() {
		ids = append(ids, k.GetKeyId())
	}
	same(t, "keys", []string{"z-1", "a-2"}, ids)
	do(t, p, put("a-2", "a-2", "b-3"))
	if got := len(p.View().SigningKeys()); got != 2 {
		t.Errorf("%d keys, want 2: z-1 was left out", got)
	}
	stale := fsmtest.Command(put("b-3", "b-3", "c-4"))
	stale.Epoch = 7
	wantAnswer(t, "of an old leader", p.Propose(stale)[0], fsm.Aborted, fsm.ReasonStaleEpoch)
}
