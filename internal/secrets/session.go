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

// plainPrefix begins a text of Seal that is not encrypted.
const plainPrefix = "hfplain."

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
	return s.Seal("", []byte(token), lasts)
}

// Token returns the token of a session and whether the session is valid. A text without the
// prefix is returned as the token itself, as issued by a peer without a key.
func (s *Sessions) Token(session string) (string, bool) {
	if !strings.HasPrefix(session, sessionPrefix) {
		return session, true
	}
	plain, ok := s.Unseal("", session)
	return string(plain), ok
}

// Seal returns a text from which every peer can read data for a limited time. Without a key
// the data is encoded, but not encrypted. Unseal needs the same use.
func (s *Sessions) Seal(use string, data []byte, lasts time.Duration) (string, error) {
	plain := binary.BigEndian.AppendUint64(nil, uint64(s.now().Add(lasts).Unix()))
	plain = append(plain, data...)
	if s.keys.primary() == nil {
		return plainPrefix + base64.RawURLEncoding.EncodeToString(plain), nil
	}
	sealed, err := s.keys.Seal(BrowserSessions, use, 0, plain)
	if err != nil {
		return "", err
	}
	b, err := proto.Marshal(sealed)
	if err != nil {
		return "", err
	}
	return sessionPrefix + base64.RawURLEncoding.EncodeToString(b), nil
}

// Unseal returns the data of a text that Seal returned, and whether the text is valid. A peer
// with a key accepts encrypted texts only.
func (s *Sessions) Unseal(use, text string) ([]byte, bool) {
	prefix := sessionPrefix
	if s.keys.primary() == nil {
		prefix = plainPrefix
	}
	text, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, false
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, false
	}
	if prefix == sessionPrefix {
		sealed := &internalv1.Sealed{}
		if err := proto.Unmarshal(plain, sealed); err != nil {
			return nil, false
		}
		if plain, err = s.keys.Open(BrowserSessions, use, 0, sealed); err != nil {
			return nil, false
		}
	}
	if len(plain) < 8 || s.now().Unix() >= int64(binary.BigEndian.Uint64(plain)) {
		return nil, false
	}
	return plain[8:], true
}
