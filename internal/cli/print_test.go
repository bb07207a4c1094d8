package cli

import (
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Marked fields of a message are not printed in any format, except by commands whose purpose is to
// show them.
func TestPrintingRedacts(t *testing.T) {
	made := &holdfastv1.CreateTokenResponse{Token: &holdfastv1.Token{TokenId: "tok-1"}, Secret: "hunter2"}
	for _, reveal := range []bool{false, true} {
		for _, format := range []string{formatJSON, formatYAML} {
			var out strings.Builder
			a := &app{Streams: Streams{Out: &out, Now: time.Now}}
			k := kind[*holdfastv1.CreateTokenResponse]{list: "made", reveal: reveal}
			if err := printOne(a, &output{format: format}, k, made); err != nil {
				t.Fatal(err)
			}
			if err := printList(a, &output{format: format}, k, []*holdfastv1.CreateTokenResponse{made}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(out.String(), "hunter2"); (got != 0) != reveal {
				t.Errorf("%s, reveal %v: got the secret %d times:\n%s", format, reveal, got, out.String())
			}
		}
	}
}
