package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// verbsPage is the page with the table of all verbs, between the markers.
const (
	verbsPage  = "../../docs/cli.md"
	verbsBegin = "<!-- verbs -->\n"
	verbsEnd   = "<!-- end of verbs -->"
)

// TestVerbsInDocs compares the table of verbs in the documentation with the commands.
// UPDATE_GOLDEN=1 writes it.
func TestVerbsInDocs(t *testing.T) {
	data, err := os.ReadFile(verbsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), verbsBegin)
	table, after, ok2 := strings.Cut(rest, verbsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s: got no table between %q and %q", verbsPage, verbsBegin, verbsEnd)
	}
	root := Root(Streams{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
	want := "\n| command | what it does |\n|---|---|\n" + verbRows(root) + "\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(verbsPage, []byte(before+verbsBegin+want+verbsEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("%s (-want +got; UPDATE_GOLDEN=1 writes it):\n%s", verbsPage, diff)
	}
}

// verbRows returns a row for each command with an action, in the order of the help.
func verbRows(cmd *cobra.Command) string {
	var b strings.Builder
	for _, sub := range visible(cmd) {
		if sub.HasAvailableSubCommands() {
			b.WriteString(verbRows(sub))
			continue
		}
		use := strings.TrimSuffix(strings.TrimPrefix(sub.UseLine(), "holdfast "), " [flags]")
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(use, "|", "\\|"), sub.Short)
	}
	return b.String()
}
