package registry

import (
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// validUUID reports whether a text is a UUID of 36 characters, as the ids of the discovery
// API are.
func validUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range []byte(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if r != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdefABCDEF", rune(r)) {
			return false
		}
	}
	return true
}

// CheckTarget returns the violations of a target. An empty id is valid: the server generates
// one.
func CheckTarget(s *holdfastv1.ServiceTarget) []refusal.FieldViolation {
	bad := refusal.Violations{Prefix: "target."}
	if s.GetId() != "" && !validUUID(s.GetId()) {
		bad.Add("id", "is not a UUID of 36 characters")
	}
	if s.GetServiceName() == "" {
		bad.Add("service_name", "is required")
	}
	if s.GetPort() < 0 || s.GetPort() > 65535 {
		bad.Add("port", "%d is not 0 to 65535", s.GetPort())
	}
	for _, f := range []struct{ name, value string }{
		{"service_name", s.GetServiceName()}, {"host", s.GetHost()},
		{"service_type", s.GetServiceType()}, {"service_sub_type", s.GetServiceSubType()},
		{"language_name", s.GetLanguageName()}, {"language_type", s.GetLanguageType()},
		{"language_sub_type", s.GetLanguageSubType()},
	} {
		if len(f.value) > maxServiceText || strings.ContainsAny(f.value, "\x00\n\r") {
			bad.Add(f.name, "must be one line of at most %d bytes", maxServiceText)
		}
	}
	return bad.Fields
}
