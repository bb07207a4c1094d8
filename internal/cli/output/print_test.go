package output

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Marked fields of a message are not printed in any format, except by commands whose purpose is to
// show them.
func TestPrintingRedacts(t *testing.T) {
	made := &holdfastv1.CreateTokenResponse{Token: &holdfastv1.Token{TokenId: "tok-1"}, Secret: "hunter2"}
	for _, reveal := range []bool{false, true} {
		for _, format := range []string{FormatJSON, FormatYAML} {
			var out strings.Builder
			a := &app.App{Streams: app.Streams{Out: &out, Now: time.Now}}
			k := Kind[*holdfastv1.CreateTokenResponse]{List: "made", Reveal: reveal}
			if err := PrintOne(a, &Flags{Format: format}, k, made); err != nil {
				t.Fatal(err)
			}
			if err := PrintList(a, &Flags{Format: format}, k, []*holdfastv1.CreateTokenResponse{made}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(out.String(), "hunter2"); (got != 0) != reveal {
				t.Errorf("%s, reveal %v: got the secret %d times:\n%s", format, reveal, got, out.String())
			}
		}
	}
}
