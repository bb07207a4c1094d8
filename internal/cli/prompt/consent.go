package prompt

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// Consent holds the flags of a command that destroys something. It asks for confirmation on a
// terminal; elsewhere it requires --yes.
type Consent struct{ DryRun, Yes bool }

// Register adds the flags. dryRun is the help of --dry-run.
func (k *Consent) Register(cmd *cobra.Command, dryRun string) {
	cmd.Flags().BoolVar(&k.DryRun, "dry-run", false, dryRun)
	cmd.Flags().BoolVar(&k.Yes, "yes", false, "do not ask for confirmation")
}

// Given reports whether nothing is left to ask.
func (k *Consent) Given() bool { return k.Yes && !k.DryRun }

// Precheck returns an error if confirmation is needed but cannot be asked for.
func (k *Consent) Precheck(a *app.App, path, loss string) error {
	if k.DryRun || k.Yes || interactive(a) {
		return nil
	}
	return app.Usagef("%s: %s: there is no terminal to ask for confirmation: check with --dry-run, then pass --yes",
		path, loss)
}

// Obtain blocks until the operator has confirmed a loss by typing a word: the id of one resource,
// or the number of several.
func (k *Consent) Obtain(ctx context.Context, a *app.App, path, loss, word string) error {
	if err := k.Precheck(a, path, loss); err != nil || k.Yes {
		return err
	}
	if _, err := fmt.Fprintf(a.Err, "%s\nType %s to confirm: ", loss, word); err != nil {
		return err
	}
	got, err := ReadLine(ctx, a)
	if err != nil {
		return fmt.Errorf("%s: read the confirmation: %w", path, err)
	}
	if got = strings.TrimSpace(got); got != word {
		return app.Exitf(app.ExitError, "%s: not confirmed: got %q, want %q: nothing was changed", path, got,
			word)
	}
	return nil
}

// Word returns the text that confirms a loss of these resources: the id of one, the number of
// several.
func Word(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprint(len(names))
}

// interactive reports whether somebody can read a question and answer it.
func interactive(a *app.App) bool {
	_, _, ok := a.Size(a.Err)
	return ok && a.Interactive != nil && a.Interactive(a.In)
}
