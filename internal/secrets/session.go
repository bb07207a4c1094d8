package secrets

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// sessionPrefix begins an encrypted text.
const sessionPrefix = "hfsession."

// plainPrefix begins a text of Seal that is not encrypted.
const plainPrefix = "hfplain."

// Sessions seals data for a limited time, such as the cookies of browser sessions. Every peer with
// the same keys can open the texts, and none are stored.
type Sessions struct {
	keys *Keyring
	now  func() time.Time
}

// NewSessions returns the sessions of a keyring. now is the clock.
func NewSessions(keys *Keyring, now func() time.Time) *Sessions {
	return &Sessions{keys: keys, now: now}
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
