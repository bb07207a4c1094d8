package secrets

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// sessionPrefix begins the text of a session, so that it is told apart from a token.
const sessionPrefix = "hfsession."

// Sessions makes sessions of browsers: texts that stand for a token until a time, and open nothing
// where the token itself is asked for. Every peer with the same keys opens them, and none is kept.
type Sessions struct {
	keys *Keyring
	now  func() time.Time
}

// NewSessions returns the sessions of a keyring. Now is the clock.
func NewSessions(keys *Keyring, now func() time.Time) *Sessions {
	return &Sessions{keys: keys, now: now}
}

// Begin returns a session for a token that lasts for a time. Without a key it returns the token
// itself.
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

// Token returns the token that a session stands for, and reports whether the session is good. A
// text that is no session is taken for the token itself: that of a peer without a key.
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
