package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/login"
	"github.com/holdfast-metal/holdfast/internal/cli/profile"
)

func (a *app) contextCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use: "context", Aliases: []string{"ctx"},
		Short: "Manage named clusters in the config file",
		Long: `Manage named clusters in ~/.config/holdfast/config.yaml (or HOLDFAST_CONTEXTS). The file may contain tokens: it
is written with mode 0600, and refused if other users can read it.

Flags take precedence over the environment, and the environment over the context. --addr or HOLDFAST_ADDR
without --context ignores the context, because its token belongs to its own cluster. With --context the
variables HOLDFAST_ADDR, HOLDFAST_TOKEN, HOLDFAST_CA, HOLDFAST_CERT and HOLDFAST_KEY are ignored.`,
		Example: `  holdfast context set prod --addr 10.0.0.1:7400,10.0.0.2:7400,10.0.0.3:7400 --ca /etc/holdfast/ca.pem
  holdfast context use prod
  holdfast --context lab machine list`,
	}, a.contextList(), a.contextCurrent(), a.contextUse(), a.contextSet(), a.contextDelete())
}

// edit changes the config file.
func (a *app) edit(change func(*profile.File) error) error {
	path, err := profile.Path(a.Getenv)
	if err != nil {
		return err
	}
	f, err := profile.Load(path)
	if err != nil {
		return err
	}
	if err := change(&f); err != nil {
		return err
	}
	return profile.Save(path, f)
}

func (a *app) contextUse() *cobra.Command {
	return &cobra.Command{
		Use: "use CONTEXT", Args: exactly("CONTEXT"), ValidArgsFunction: a.completeContexts,
		Short:   "Select the current context",
		Example: "  holdfast context use prod",
		RunE: func(_ *cobra.Command, args []string) error {
			err := a.edit(func(f *profile.File) error {
				if _, err := f.Context(args[0]); err != nil {
					return err
				}
				f.Current = args[0]
				return nil
			})
			if err == nil {
				a.note("context %s is the current one", args[0])
			}
			return err
		},
	}
}

func (a *app) contextSet() *cobra.Command {
	return &cobra.Command{
		Use:                   "set CONTEXT [--addr …] [--token …] [--ca …] [--cert …] [--key …]",
		DisableFlagsInUseLine: true,
		Args:                  exactly("CONTEXT"),
		ValidArgsFunction:     a.completeContexts,
		Short:                 "Add a context, or change one",
		Long: `Add a context, or change one; omitted flags keep their value. The first context becomes the current one.
"--token -" reads the token from standard input, which keeps it out of the process list and the shell history.`,
		Example: `  holdfast context set lab --addr 127.0.0.1:7400
  holdfast context set prod --addr 10.0.0.1:7400,10.0.0.2:7400 --ca /etc/holdfast/ca.pem --token - < token`,
		RunE: func(cmd *cobra.Command, args []string) error {
			token := a.globals.token
			if token == "-" {
				line, err := bufio.NewReader(a.In).ReadString('\n')
				if token = strings.TrimSpace(line); token == "" {
					return fmt.Errorf("read the token from standard input: it is empty: %w", err)
				}
			}
			return a.edit(func(f *profile.File) error {
				c, known := f.Contexts[args[0]]
				set := func(flag string, to *string, value string) {
					if cmd.Flags().Changed(flag) {
						*to = value
					}
				}
				set("token", &c.Token, token)
				set("ca", &c.CA, a.globals.ca)
				set("cert", &c.Cert, a.globals.cert)
				set("key", &c.Key, a.globals.key)
				if cmd.Flags().Changed("addr") {
					c.Addrs = splitAddrs(a.globals.addr)
				}
				if !known && len(c.Addrs) == 0 {
					return usagef("%s: --addr is missing: a new context needs the addresses of its peers",
						cmd.CommandPath())
				}
				if f.Contexts == nil {
					f.Contexts = map[string]profile.Context{}
				}
				f.Contexts[args[0]] = c
				f.Current = cmp.Or(f.Current, args[0])
				return nil
			})
		},
	}
}

func (a *app) contextDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete CONTEXT", Args: exactly("CONTEXT"), ValidArgsFunction: a.completeContexts,
		Short:   "Delete a context",
		Example: "  holdfast context delete lab",
		RunE: func(_ *cobra.Command, args []string) error {
			err := a.edit(func(f *profile.File) error {
				if _, err := f.Context(args[0]); err != nil {
					return err
				}
				delete(f.Contexts, args[0])
				if f.Current == args[0] {
					f.Current = ""
				}
				return nil
			})
			if err != nil {
				return err
			}
			path, err := profile.Path(a.Getenv)
			if err != nil {
				return err
			}
			return login.At(path, args[0]).Delete()
		},
	}
}

func (a *app) completeContexts(
	_ *cobra.Command, given []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	path, err := profile.Path(a.Getenv)
	if err != nil || len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f, err := profile.Load(path)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(f.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
