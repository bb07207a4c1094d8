package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// consent holds the flags of a command that destroys something. It asks for confirmation on a
// terminal; elsewhere it requires --yes.
type consent struct{ dryRun, yes bool }

// register adds the flags. dryRun is the help of --dry-run.
func (k *consent) register(cmd *cobra.Command, dryRun string) {
	cmd.Flags().BoolVar(&k.dryRun, "dry-run", false, dryRun)
	cmd.Flags().BoolVar(&k.yes, "yes", false, "do not ask for confirmation")
}

// given reports whether nothing is left to ask.
func (k *consent) given() bool { return k.yes && !k.dryRun }

// precheck returns an error if confirmation is needed but cannot be asked for.
func (k *consent) precheck(a *app, path, loss string) error {
	if k.dryRun || k.yes || interactive(a) {
		return nil
	}
	return usagef("%s: %s: there is no terminal to ask for confirmation: check with --dry-run, then pass --yes",
		path, loss)
}

// obtain blocks until the operator has confirmed a loss by typing a word: the id of one resource,
// or the number of several.
func (k *consent) obtain(ctx context.Context, a *app, path, loss, word string) error {
	if err := k.precheck(a, path, loss); err != nil || k.yes {
		return err
	}
	if _, err := fmt.Fprintf(a.Err, "%s\nType %s to confirm: ", loss, word); err != nil {
		return err
	}
	got, err := readLine(ctx, a)
	if err != nil {
		return fmt.Errorf("%s: read the confirmation: %w", path, err)
	}
	if got = strings.TrimSpace(got); got != word {
		return exitf(ExitError, "%s: not confirmed: got %q, want %q: nothing was changed", path, got,
			word)
	}
	return nil
}

// word returns the text that confirms a loss of these resources: the id of one, the number of
// several.
func word(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprint(len(names))
}

// interactive reports whether somebody can read a question and answer it.
func interactive(a *app) bool {
	_, _, ok := a.Size(a.Err)
	return ok && a.Interactive != nil && a.Interactive(a.In)
}

// readLine reads a line of the input, or "" at its end. It returns when the context ends, although
// a read of a terminal cannot be interrupted: the process then ends, and with it the read.
func readLine(ctx context.Context, a *app) (string, error) {
	line := make(chan string, 1)
	go func() {
		var b strings.Builder
		for one := make([]byte, 1); ; { // byte by byte: what comes after the line is for the next question
			n, err := a.In.Read(one)
			if n == 0 && err != nil || n > 0 && one[0] == '\n' {
				break
			}
			b.Write(one[:n])
		}
		line <- strings.TrimSuffix(b.String(), "\r")
	}()
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
