package secrets

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// peer has a real state without Raft.
type peer struct {
	*fsm.FSM
	t     testing.TB
	index uint64
}

func newPeer(t testing.TB) *peer {
	p := &peer{FSM: fsm.New(), t: t}
	p.do(&internalv1.Command{
		Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "p1", Term: 1}}})
	return p
}

func (p *peer) do(c *internalv1.Command) {
	p.t.Helper()
	c.FeatureLevel, c.Epoch, c.Principal = 1, 1, "tester"
	p.index++
	c.Time = timestamppb.New(time.Unix(1_769_699_400+int64(p.index), 0))
	b, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{c}})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, r := range p.Apply(p.index, 1, b) {
		if r.Err != nil {
			p.t.Fatal(r.Err)
		}
	}
	if err := p.HaltError(); err != nil {
		p.t.Fatal(err)
	}
}

// put stores a version of a secret, sealed under the primary key of a keyring.
func (p *peer) put(k *Keyring, name string, version uint64, values map[string]string) {
	p.t.Helper()
	s, err := k.Put(&holdfastv1.Secret{Name: name, Type: "opaque", Version: version}, values)
	if err != nil {
		p.t.Fatal(err)
	}
	p.do(&internalv1.Command{Op: &internalv1.Command_PutSecret{PutSecret: &internalv1.PutSecret{Secret: s}}})
}

// sign stores a signing key sealed by a keyring.
func (p *peer) sign(k *Keyring, id string) *internalv1.SigningKey {
	p.t.Helper()
	sealed, err := k.Seal(SigningKeys, id, 0, []byte("pkcs8"))
	if err != nil {
		p.t.Fatal(err)
	}
	key := &internalv1.SigningKey{KeyId: id, Sealed: sealed, PublicJwk: []byte("{}"),
		CreatedAt: timestamppb.New(time.Unix(1, 0))}
	p.do(&internalv1.Command{
		Op: &internalv1.Command_PutSigningKeys{
			PutSigningKeys: &internalv1.PutSigningKeys{Keys: []*internalv1.SigningKey{key}}}})
	return key
}

func (p *peer) stored(name string) *internalv1.StoredSecret {
	p.t.Helper()
	s, ok := p.View().Secret(name)
	if !ok {
		p.t.Fatal(fmt.Errorf("secret %s not found", name))
	}
	return s
}
