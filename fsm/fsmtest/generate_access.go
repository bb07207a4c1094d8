package fsmtest

import (
	"crypto/sha256"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	poolIDs   = 3
	tokenIDs  = 40
	secretIDs = 3
)

// accessGenerator makes the commands about tokens, secrets, signing keys and denials, and the
// origin of every command.
type accessGenerator struct{ draw }

func (g accessGenerator) choices() []choice {
	return []choice{
		{4, "create token", g.createToken},
		{2, "revoke token", g.revokeToken},
		{1, "drop tokens", g.dropTokens},
		{3, "put secret", g.putSecret},
		{2, "delete secret", g.deleteSecret},
		{1, "reseal secrets", g.resealSecrets},
		{2, "put signing keys", g.putSigningKeys},
		{1, "record denials", g.recordDenials},
	}
}

// origin returns the origin of a command: often the cluster itself, mostly a caller with all
// rights, and sometimes one with a scope or an invalid token.
func (g accessGenerator) origin(v *fsm.View, c *internalv1.Command) *internalv1.Origin {
	if internal(c) && !g.rarely("a leader's command that somebody asks for") {
		return nil
	}
	kind := g.Choose("asked by", 12)
	if kind < 4 {
		return nil
	}
	o := &internalv1.Origin{
		Source:    g.id("10.0.0", 3),
		Peer:      g.id("p", 3),
		Method:    g.id("method", 3),
		RequestId: g.id("call", 5),
		Role:      holdfastv1.Role_ADMIN,
	}
	if kind == 8 {
		o.SessionId = g.id("session", sessionIDs)
	}
	switch kind {
	case 4:
		o.Role, o.Pools = holdfastv1.Role_OPERATOR, []string{g.id("pool", poolIDs)}
		if g.Choose("two pools", 2) == 1 {
			o.Pools = append(o.Pools, g.id("pool", poolIDs))
		}
	case 5:
		o.Role, o.MachineId = holdfastv1.Role_AGENT, g.id("m", machineIDs)
	case 6, 7:
		tokens := slices.Collect(v.Tokens(""))
		if len(tokens) == 0 {
			break
		}
		tok := oneOf(g.draw, "caller's token", tokens)
		o.TokenId, o.Role, o.Pools, o.MachineId = tok.GetTokenId(), tok.GetRole(), tok.GetPools(), tok.GetMachineId()
		if g.rarely("an edge that leaves out the scope") {
			o.Pools, o.MachineId = nil, ""
		}
		if g.rarely("unknown token") {
			o.TokenId = "token-none"
		}
	}
	return o
}

// internal reports whether a command comes from the cluster itself.
func internal(c *internalv1.Command) bool {
	switch c.GetOp().(type) {
	case *internalv1.Command_LeaderEstablished, *internalv1.Command_BeginAttempt,
		*internalv1.Command_NoteProgress, *internalv1.Command_NoteReading, *internalv1.Command_EndAttempt,
		*internalv1.Command_AbortRun, *internalv1.Command_AppendRunLogs, *internalv1.Command_CompactRunLog,
		*internalv1.Command_ObserveConditions,
		*internalv1.Command_ArchiveRun, *internalv1.Command_DropArchivedRun,
		*internalv1.Command_DropTokens, *internalv1.Command_PutSigningKeys, *internalv1.Command_RecordDenials,
		*internalv1.Command_CheckpointLeases, *internalv1.Command_ExpireLeases, *internalv1.Command_SweepPools,
		*internalv1.Command_NoteDevice,
		*internalv1.Command_NoteSessions, *internalv1.Command_DropSessions,
		*internalv1.Command_RecordConsole, *internalv1.Command_CloseConsole, *internalv1.Command_DropConsoles,
		*internalv1.Command_OpenInstall, *internalv1.Command_NoteInstall,
		// The last three carry their own credentials.
		*internalv1.Command_BootInstall, *internalv1.Command_ReportInstall, *internalv1.Command_AppendInstallLog:
		return true
	}
	return false
}

func poolID(n int) string { return []string{"pool-0", "pool-1", "pool-2"}[n] }

// TokenValue returns the hash of a token's value, as a Generator makes it.
func TokenValue(id string) []byte {
	sum := sha256.Sum256([]byte("value of " + id))
	return sum[:]
}

func (g accessGenerator) createToken(v *fsm.View) proto.Message {
	id := g.id("token", tokenIDs)
	tok := &holdfastv1.Token{TokenId: id, Name: g.id("name", 5), Role: holdfastv1.Role_ADMIN}
	switch g.Choose("token's role", 7) {
	case 0:
		tok.Role, tok.Pools = holdfastv1.Role_OPERATOR, []string{g.id("pool", poolIDs)}
	case 1:
		tok.Role = holdfastv1.Role_VIEWER
	case 2:
		tok.Role, tok.MachineId = holdfastv1.Role_AGENT, g.id("m", machineIDs)
	case 3:
		tok.Role, tok.Pools = holdfastv1.Role_POOL_AGENT, []string{g.id("pool", poolIDs)}
		if g.Choose("enrolls only", 2) == 0 {
			tok.Role = holdfastv1.Role_ENROLLER
		}
	case 4:
		tok.Role = holdfastv1.Role_SERVICE
	case 5:
		tok.Role = holdfastv1.Role_OPERATOR
	}
	if g.rarely("bad token") {
		tok.Role = holdfastv1.Role_POOL_AGENT
	}
	if g.Choose("bootstrap", 4) == 0 {
		tok.Role, tok.Pools, tok.MachineId, tok.Bootstrap = holdfastv1.Role_ADMIN, nil, "", true
	}
	if g.Choose("expires", 3) == 0 {
		life := time.Duration(g.Choose("seconds", 60)) * time.Second
		tok.ExpiresAt = timestamppb.New(v.Meta().GetNow().AsTime().Add(life))
	}
	return &internalv1.CreateToken{Token: &internalv1.StoredToken{Token: tok, Sha256: TokenValue(id)}}
}

func (g accessGenerator) someToken(v *fsm.View) string {
	if tok := oneOf(g.draw, "token", slices.Collect(v.Tokens(""))); tok != nil {
		return tok.GetTokenId()
	}
	return g.id("token", tokenIDs)
}

func (g accessGenerator) revokeToken(v *fsm.View) proto.Message {
	return &internalv1.RevokeToken{TokenId: g.someToken(v)}
}

func (g accessGenerator) dropTokens(v *fsm.View) proto.Message {
	return &internalv1.DropTokens{TokenIds: []string{g.someToken(v), g.someToken(v)}}
}

func (g accessGenerator) sealed() *internalv1.Sealed {
	return &internalv1.Sealed{KeyId: g.id("key", 2), Nonce: []byte("nonce"), Ciphertext: []byte(g.id("sealed", 9))}
}

func (g accessGenerator) putSecret(v *fsm.View) proto.Message {
	name, kind := g.id("secret", secretIDs), oneOf(g.draw, "type", []string{"bmc", "bmc", "bmc", "bmc", "ssh"})
	old, _ := v.Secret(name)
	s := &holdfastv1.Secret{
		Name:    name,
		Type:    kind,
		Keys:    []string{"username", "password"},
		Version: old.GetSecret().GetVersion() + 1,
	}
	if g.rarely("made from an older version") {
		s.Version--
	}
	c := &internalv1.PutSecret{Secret: &internalv1.StoredSecret{Secret: s, Sealed: g.sealed()}}
	switch g.Choose("secret's pools", 5) {
	case 0, 1:
		s.Pools = []string{g.id("pool", poolIDs)}
	case 2:
		s.Pools = []string{g.id("pool", poolIDs), g.id("pool", poolIDs)}
	case 3:
		c.AllPools = true
	}
	return c
}

func (g accessGenerator) deleteSecret(*fsm.View) proto.Message {
	return &internalv1.DeleteSecret{Name: g.id("secret", secretIDs), Force: g.rarely("force")}
}

func (g accessGenerator) resealSecrets(v *fsm.View) proto.Message {
	c := &internalv1.ResealSecrets{}
	for s := range v.Secrets("") {
		s.Sealed = g.sealed()
		if g.rarely("of an older version") {
			s.Secret.Version--
		}
		c.Secrets = append(c.Secrets, s)
	}
	for _, k := range v.SigningKeys() {
		k = proto.CloneOf(k)
		k.Sealed = g.sealed()
		c.Keys = append(c.Keys, k)
	}
	return c
}

func (g accessGenerator) putSigningKeys(v *fsm.View) proto.Message {
	keys := v.SigningKeys()
	c := &internalv1.PutSigningKeys{}
	if n := len(keys); n > 0 {
		c.AfterKeyId = keys[n-1].GetKeyId()
		c.Keys = keys[max(0, n-2):]
	}
	if g.rarely("made after another key") {
		c.AfterKeyId = "key-other"
	}
	at := v.Meta().GetNow()
	id := "k-" + at.AsTime().Format("150405")
	if slices.ContainsFunc(keys, func(k *internalv1.SigningKey) bool { return k.GetKeyId() == id }) {
		return c // no new keys in this second
	}
	c.Keys = append(c.Keys, &internalv1.SigningKey{
		KeyId: id, Sealed: g.sealed(), PublicJwk: []byte("{}"), CreatedAt: at, SignsFrom: at,
	})
	return c
}

func (g accessGenerator) recordDenials(*fsm.View) proto.Message {
	c := &internalv1.RecordDenials{}
	for range 1 + g.Choose("denials", 3) {
		c.Events = append(c.Events, &holdfastv1.AuditEvent{
			Principal: g.id("user", 3),
			Source:    g.id("10.0.0", 3),
			Method:    g.id("method", 3),
			Outcome:   "PERMISSION_DENIED",
			Reason:    "ROLE",
			Count:     uint32(g.Choose("count", 4)),
		})
	}
	if g.rarely("a denial that is none") {
		c.Events[0].Outcome = "OK"
	}
	return c
}
