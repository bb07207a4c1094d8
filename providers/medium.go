package providers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
)

// A boot medium belongs to one install session. Its URL contains a secret, which is enough to
// download it. The install token on the medium is derived from that secret, so any peer can build
// the medium, and the state only holds the hash of the token. If a virtual drive shows a medium's
// URL, the hash shows whether it belongs to the session.

const (
	mediumPrefix = "/netboot/media/"
	mediumFile   = "/installer.iso" // BMCs check the suffix of a URL
	mediumSecret = 43               // characters of 32 bytes
)

// MediumURL returns the URL of the boot medium for a secret of 32 random bytes. base is the base
// URL of a peer.
func MediumURL(base string, secret [32]byte) string {
	return strings.TrimSuffix(base, "/") + mediumPrefix + base64.RawURLEncoding.EncodeToString(secret[:]) + mediumFile
}

// MediumSecret returns the secret in the URL or path of a boot medium. ok is false if u is not one.
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

// MediumToken returns the install token on the boot medium of a secret, and the token's SHA-256,
// which the session stores.
func MediumToken(secret [32]byte) (token string, sum []byte) {
	mac := hmac.New(sha256.New, secret[:])
	mac.Write([]byte("holdfast install token"))
	token = base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	hash := sha256.Sum256([]byte(token))
	return token, hash[:]
}

// HideMedium replaces the secrets of boot media in text by "…".
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
		for n < len(after) && inSecret(after[n]) {
			n++
		}
		if n >= mediumSecret {
			out.WriteString("…")
			after = after[n:]
		}
		text = after
	}
}

// inSecret reports whether c can occur in an encoded secret.
func inSecret(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// SameMedium reports whether two URLs of virtual media name the same image, or are both empty.
// BMCs may respell a URL: scheme or host in another case, the default port added or dropped,
// other escapes, or surrounding blanks. The path is compared exactly.
func SameMedium(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := url.Parse(strings.TrimSpace(a))
	y, errY := url.Parse(strings.TrimSpace(b))
	if errX != nil || errY != nil || a == "" || b == "" {
		return false
	}
	return strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(x.Hostname(), y.Hostname()) &&
		portOf(x) == portOf(y) && x.Path == y.Path && x.RawQuery == y.RawQuery
}

// portOf returns the port of a URL, or the default port of its scheme.
func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
}
