package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// manCommand writes the manual pages. It is hidden, because packages use it and operators do not.
func manCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Args: app.Exactly("DIR"), Hidden: true,
		Short:   "Write one manual page per command",
		Example: "  holdfast man bin/man",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are for everybody
				return fmt.Errorf("make the directory of the manual pages: %w", err)
			}
			return writePages(a.Root, args[0])
		},
	}
}

func writePages(cmd *cobra.Command, dir string) error {
	file := filepath.Join(dir, pageName(cmd)+".1")
	if err := os.WriteFile(file, []byte(manPage(cmd)), 0o644); err != nil { //nolint:gosec // the same
		return fmt.Errorf("write a manual page: %w", err)
	}
	for _, sub := range visible(cmd) {
		if err := writePages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// visible lists the subcommands that are not hidden.
func visible(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, sub)
		}
	}
	return all
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns a command's page in macros of man(7). It has no date, so the same binary
// writes the same page.
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n%s\n", name, text)
		}
	}
	fmt.Fprintf(&b, ".TH %s 1 \"\" Holdfast \"Holdfast manual\"\n", roff(strings.ToUpper(pageName(cmd))))
	section("NAME", roff(pageName(cmd))+` \- `+roff(cmd.Short))
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " COMMAND"
	}
	section("SYNOPSIS", `\fB`+roff(use)+`\fP`)
	section("DESCRIPTION", paragraphs(cmp.Or(cmd.Long, cmd.Short+".")))
	section("OPTIONS", options(cmd.NonInheritedFlags()))
	section("GLOBAL OPTIONS", options(cmd.InheritedFlags()))
	if cmd.Example != "" {
		section("EXAMPLES", ".nf\n"+roff(cmd.Example)+"\n.fi")
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, `\fB`+roff(pageName(cmd.Parent()))+`\fP(1)`)
	}
	for _, sub := range visible(cmd) {
		also = append(also, `\fB`+roff(pageName(sub))+`\fP(1)`)
	}
	section("SEE ALSO", strings.Join(also, ",\n"))
	return b.String()
}

func options(f *pflag.FlagSet) string {
	var items []string
	f.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value, text := pflag.UnquoteUsage(f)
		item := ".TP\n\\fB" + roff(name) + `\fP`
		if value != "" {
			item += ` \fI` + roff(value) + `\fP`
		}
		items = append(items, item+"\n"+roff(text))
	})
	return strings.Join(items, "\n")
}

// paragraphs keeps indented lines, and fills the others.
func paragraphs(text string) string {
	var out []string
	for p := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n  ") {
			out = append(out, ".nf\n"+roff(p)+"\n.fi")
			continue
		}
		out = append(out, roff(p))
	}
	return strings.Join(out, "\n.PP\n")
}

// roff escapes text: a leading dot or quote would start a macro, and a bare hyphen would allow
// a line break.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
