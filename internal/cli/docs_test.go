package cli_test

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
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
	root := cli.Root(app.Streams{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
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

// TestCommandsInHelp checks that the commands that a help text names exist.
func TestCommandsInHelp(t *testing.T) {
	root := cli.Root(app.Streams{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		text := cmd.Long + "\n" + cmd.Example
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { text += "\n" + f.Usage })
		for _, part := range strings.Split(text, "holdfast ")[1:] {
			for at, words := root, strings.Fields(part); len(words) > 0 && at.HasSubCommands(); words = words[1:] {
				word := strings.TrimRight(words[0], ").,;:`'")
				next, _, _ := at.Find([]string{word})
				if next == at && at != root && verbLike.MatchString(word) {
					t.Errorf("%s names %q, which does not exist", cmd.CommandPath(), at.CommandPath()+" "+word)
				}
				if next == at {
					break
				}
				at = next
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// verbLike matches a word that is a verb if it follows a group.
var verbLike = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// verbRows returns a row for each command with an action, in the order of the help.
func verbRows(cmd *cobra.Command) string {
	var b strings.Builder
	for _, sub := range cli.Visible(cmd) {
		if sub.HasAvailableSubCommands() {
			b.WriteString(verbRows(sub))
			continue
		}
		use := strings.TrimSuffix(strings.TrimPrefix(sub.UseLine(), "holdfast "), " [flags]")
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(use, "|", "\\|"), sub.Short)
	}
	return b.String()
}
