package guard

import (
	"errors"
	"testing"
)

// TestWordsOfCertificates checks that a broken certificate is not taken for broken HTTP: the remedy
// would be the wrong one.
func TestWordsOfCertificates(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"tls: failed to parse certificate from server: x509: malformed serial number",
		"tls: failed to parse certificate from server: x509: SAN dNSName is malformed HTTP name",
		"tls: failed to parse certificate from server: x509: invalid byte in a name",
	} {
		if got := words(errors.New(text)); got != "" {
			t.Errorf("%s: got %q, want the error itself", text, got)
		}
	}
}
