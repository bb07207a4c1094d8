package providers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
)

// A boot medium is made for one install session. A secret in its URL is all that it takes to get
// it; the token on it is made of that secret, so that any peer can make the medium, and the state
// holds no more than the token's hash. Whoever sees the URL in a virtual drive can tell by that
// hash whether it is the session's.

const (
	mediumPrefix = "/netboot/media/"
	mediumFile   = "/installer.iso" // BMCs look at the end of a URL
	mediumSecret = 43               // characters of 32 bytes
)

// MediumURL returns the URL of the boot medium of a secret below the base URL of a peer. The secret
// has 32 random bytes.
func MediumURL(base string, secret [32]byte) string {
	return strings.TrimSuffix(base, "/") + mediumPrefix + base64.RawURLEncoding.EncodeToString(secret[:]) + mediumFile
}

// MediumSecret returns the secret of the URL, or the path, of a boot medium; false if it is of
// none.
func MediumSecret(u string) (secret [32]byte, ok bool) {
	parsed, err := url.Parse(u)
	if err != nil {
		return secret, false
	}
	_, rest, found := strings.Cut(parsed.Path, mediumPrefix)
	text, is := strings.CutSuffix(rest, mediumFile)
	b, err := base64.RawURLEncoding.DecodeString(text)
	if !found || !is || err != nil || len(b) != len(secret) {
		return secret, false
	}
	return [32]byte(b), true
}

// MediumToken returns the install token on the boot medium of a secret, and its SHA-256, which the
// session knows it by.
func MediumToken(secret [32]byte) (token string, sum []byte) {
	mac := hmac.New(sha256.New, secret[:])
	mac.Write([]byte("holdfast install token"))
	token = base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	hash := sha256.Sum256([]byte(token))
	return token, hash[:]
}

// HideMedium returns a text without the secrets of boot media in it.
func HideMedium(text string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, mediumPrefix)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(mediumPrefix)
		n := 0
		for n < len(after) && (after[n] == '-' || after[n] == '_' || after[n] >= '0' && after[n] <= '9' || after[n] >= 'A' && after[n] <= 'Z' || after[n] >= 'a' && after[n] <= 'z') {
			n++
		}
		if n >= mediumSecret {
			out.WriteString("…")
			after = after[n:]
		}
		text = after
	}
}
