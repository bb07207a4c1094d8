package secrets

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// sessionPrefix begins the text of a session, to distinguish it from a token.
const sessionPrefix = "hfsession."

// Sessions creates browser sessions: texts that stand for a token for a limited time. They
// are not accepted in place of the token itself. Every peer with the same keys can open
// them, and none are stored.
type Sessions struct {
	keys *Keyring
	now  func() time.Time
}

// NewSessions returns the sessions of a keyring. now is the clock.
func NewSessions(keys *Keyring, now func() time.Time) *Sessions {
	return &Sessions{keys: keys, now: now}
}

// Begin returns a session for a token. Without a key it returns the token itself.
func (s *Sessions) Begin(token string, lasts time.Duration) (string, error) {
	if s.keys.primary() == nil {
		return token, nil
	}
	plain := binary.BigEndian.AppendUint64(nil, uint64(s.now().Add(lasts).Unix()))
	sealed, err := s.keys.Seal(BrowserSessions, "", 0, append(plain, token...))
	if err != nil {
		return "", err
	}
	b, err := proto.Marshal(sealed)
	if err != nil {
		return "", err
	}
	return sessionPrefix + base64.RawURLEncoding.EncodeToString(b), nil
}

// Token returns the token of a session and whether the session is valid. A text without the
// prefix is returned as the token itself, as issued by a peer without a key.
func (s *Sessions) Token(session string) (string, bool) {
	text, ok := strings.CutPrefix(session, sessionPrefix)
	if !ok {
		return session, true
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", false
	}
	sealed := &internalv1.Sealed{}
	if err := proto.Unmarshal(b, sealed); err != nil {
		return "", false
	}
	plain, err := s.keys.Open(BrowserSessions, "", 0, sealed)
	if err != nil || len(plain) < 8 || s.now().Unix() >= int64(binary.BigEndian.Uint64(plain)) {
		return "", false
	}
	return string(plain[8:]), true
}
