package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxValue is the maximum size of a value in bytes, the limit of the peers.
const maxValue = 64 << 10

// secretInput names the sources of a secret's values. None is an argument, because other users
// can see arguments.
type secretInput struct {
	kind, username, stdin string
	files                 []string
	pools                 []string
	allPools              bool
}

func secretPut(a *app.App) *cobra.Command {
	var o output.Flags
	var in secretInput
	cmd := &cobra.Command{
		Use: "put SECRET --type TYPE", DisableFlagsInUseLine: true,
		Short: "Store a secret, or a new version of it",
		Long: `Store a secret, or a new version of it, with all its values. A value is read from a file, from standard input or from a
terminal. It is never an argument: other users of the machine and the shell history would see it.

Types: bmc (username, password), ssh (username, default root; private_key or password; certificate), join (token or kubeconfig,
ca_hash, endpoint, certificate_key), token (token), opaque (anything). A line break at the end of a single line is removed.

With --pool only machines of these pools may refer to it. Users who are restricted to pools can only use secrets that are
restricted to their pools. A new version without --pool keeps the pools; --all-pools removes the restriction.`,
		Example: `  holdfast secret put bmc/r7 --type bmc --username root
  holdfast secret put bmc/r7 --type bmc --username root --from-file password=/run/bmc-password
  holdfast secret put bmc/gpu --type bmc --username root --pool gpu,gpu-eu
  pass show ssh/r7 | holdfast secret put ssh/r7 --type ssh --username root --from-stdin private_key`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return app.Usagef("%s: one name only: values are read with --from-file KEY=PATH or --from-stdin KEY, never "+
					"from arguments, which other users see", cmd.CommandPath())
			}
			return app.Exactly("SECRET")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.kind == "" {
				return app.Usagef("%s: --type is missing: give bmc, ssh, join, token or opaque", cmd.CommandPath())
			}
			if !slices.Contains(secretTypes(), in.kind) {
				return app.Usagef("--type: %q is not one of %s", in.kind, strings.Join(secretTypes(), ", "))
			}
			if in.allPools && len(in.pools) > 0 {
				return app.Usagef("%s: give --pool or --all-pools, not both", cmd.CommandPath())
			}
			values, err := secretValues(cmd.Context(), a, &in)
			if err != nil {
				return err
			}
			return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
				s, err := c.Secrets().PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: args[0], Type: in.kind,
					Values: values,
					Pools:  in.pools, AllPools: in.allPools})
				if err != nil {
					return app.Failed(err, "put secret %s", args[0])
				}
				return output.PrintOne(a, &o, kinds.Secret(), s)
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(kinds.Secret())...)
	f := cmd.Flags()
	f.StringVar(&in.kind, "type", "", "bmc, ssh, join, token or opaque")
	f.StringVar(&in.username, "username", "", "user name, which is not encrypted")
	f.StringArrayVar(&in.files, "from-file", nil, "`KEY=PATH` of a file with a value; repeatable")
	f.StringVar(&in.stdin, "from-stdin", "", "`KEY` of the value on standard input")
	f.StringSliceVar(&in.pools, "pool", nil, "restrict it to machines of these pools, comma-separated")
	f.BoolVar(&in.allPools, "all-pools", false, "allow it for machines of any pool again")
	app.Choices(cmd, "type", "bmc", "ssh", "join", "token", "opaque")
	return cmd
}

// secretValues reads the values, and prompts on a terminal for missing required ones.
func secretValues(ctx context.Context, a *app.App, in *secretInput) (map[string]string, error) {
	values := map[string]string{}
	set := func(key, text string) error {
		if _, twice := values[key]; twice {
			return app.Usagef("value %q is given twice", key)
		}
		values[key] = text
		return nil
	}
	if in.username != "" {
		values["username"] = in.username
	}
	for _, f := range in.files {
		key, path, ok := strings.Cut(f, "=")
		if !ok || key == "" || path == "" {
			return nil, app.Usagef("--from-file: want KEY=PATH, such as password=/run/bmc-password")
		}
		text, err := readSecretFile(a, path)
		if err != nil {
			return nil, fmt.Errorf("read value %s from %s: %w", key, path, err)
		}
		if err := set(key, text); err != nil {
			return nil, err
		}
	}
	if in.stdin != "" {
		if strings.Contains(in.stdin, "=") {
			return nil, app.Usagef("--from-stdin: want the KEY alone: the value is read from standard input")
		}
		text, err := readValue(a.In)
		if err != nil {
			return nil, fmt.Errorf("read value %s from standard input: %w", in.stdin, err)
		}
		if err := set(in.stdin, text); err != nil {
			return nil, err
		}
	}
	for _, key := range missingValues(in.kind, values) {
		text, err := ask(ctx, a, key, key != "username")
		if err != nil {
			return nil, err
		}
		values[key] = text
	}
	return values, nil
}

// readSecretFile reads a value from a file, or from standard input if the name is "-".
func readSecretFile(a *app.App, path string) (string, error) {
	if path == "-" {
		return readValue(a.In)
	}
	file, err := output.OpenFile(a, path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it is only read
	return readValue(file)
}

// readValue reads a value without the line break that editors add to a single line.
func readValue(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxValue+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxValue {
		return "", fmt.Errorf("more than %d bytes", maxValue)
	}
	text := string(b)
	if line := strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"); !strings.Contains(line, "\n") {
		text = line
	}
	return text, nil
}

// missingValues lists the values that a type still needs.
func missingValues(kind string, values map[string]string) []string {
	var want []string
	switch kind {
	case "bmc":
		want = []string{"username", "password"}
	case "ssh":
		if values["private_key"] == "" {
			want = []string{"password"}
		}
	case "join", "token":
		want = []string{"token"}
		if kind == "join" && values["kubeconfig"] != "" {
			want = nil
		}
	}
	return slices.DeleteFunc(want, func(key string) bool { return values[key] != "" })
}

// ask prompts for a value on the terminal, without echo if it is secret.
func ask(ctx context.Context, a *app.App, key string, secretly bool) (string, error) {
	f := app.TerminalFile(a.In)
	if f == nil {
		return "", app.Usagef("value %q is missing, and there is no terminal to ask for it: give --from-file %s=PATH or "+
			"--from-stdin %s", key, key, key)
	}
	if _, err := fmt.Fprintf(a.Err, "%s: ", key); err != nil {
		return "", err
	}
	if !secretly {
		return prompt.ReadLine(ctx, a)
	}
	text, err := readPassword(ctx, int(f.Fd()))
	_, _ = fmt.Fprintln(a.Err) // the line break was not echoed either
	if err != nil {
		return "", fmt.Errorf("read value %s from the terminal: %w", key, err)
	}
	return text, nil
}

// readPassword reads a line from a terminal without echo. If the context ends first, the terminal
// echoes again, although the read cannot be interrupted: see ReadLine.
func readPassword(ctx context.Context, fd int) (string, error) {
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	var text []byte
	done := make(chan error, 1)
	go func() {
		var err error
		text, err = term.ReadPassword(fd)
		done <- err
	}()
	select {
	case err := <-done:
		return string(text), err
	case <-ctx.Done():
		return "", errors.Join(context.Cause(ctx), term.Restore(fd, before))
	}
}

// secretTypes returns the types of secrets.
func secretTypes() []string { return []string{"bmc", "ssh", "join", "token", "opaque"} }
