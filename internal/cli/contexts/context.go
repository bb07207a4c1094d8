package contexts

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/login"
	"github.com/holdfast-metal/holdfast/internal/cli/profile"
)

// Command returns the commands of the contexts.
func Command(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
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
	}, contextList(a), contextCurrent(a), contextUse(a), contextSet(a), contextDelete(a))
}

// changeContexts changes the config file.
func changeContexts(a *app.App, change func(*profile.File) error) error {
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

func contextUse(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "use CONTEXT", Args: app.Exactly("CONTEXT"), ValidArgsFunction: Complete(a),
		Short:   "Select the current context",
		Example: "  holdfast context use prod",
		RunE: func(_ *cobra.Command, args []string) error {
			err := changeContexts(a, func(f *profile.File) error {
				if _, err := f.Context(args[0]); err != nil {
					return err
				}
				f.Current = args[0]
				return nil
			})
			if err == nil {
				a.Note("context %s is the current one", args[0])
			}
			return err
		},
	}
}

func contextSet(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:                   "set CONTEXT [--addr …] [--token …] [--ca …] [--cert …] [--key …]",
		DisableFlagsInUseLine: true,
		Args:                  app.Exactly("CONTEXT"),
		ValidArgsFunction:     Complete(a),
		Short:                 "Add a context, or change one",
		Long: `Add a context, or change one; omitted flags keep their value. The first context becomes the current one.
"--token -" reads the token from standard input, which keeps it out of the process list and the shell history.`,
		Example: `  holdfast context set lab --addr 127.0.0.1:7400
  holdfast context set prod --addr 10.0.0.1:7400,10.0.0.2:7400 --ca /etc/holdfast/ca.pem --token - < token`,
		RunE: func(cmd *cobra.Command, args []string) error {
			token := a.Globals.Token
			if token == "-" {
				line, err := bufio.NewReader(a.In).ReadString('\n')
				if token = strings.TrimSpace(line); token == "" {
					return fmt.Errorf("read the token from standard input: it is empty: %w", err)
				}
			}
			var c profile.Context
			err := changeContexts(a, func(f *profile.File) (err error) {
				if c, err = changedContext(a, cmd, f, args[0], token); err != nil {
					return err
				}
				if f.Contexts == nil {
					f.Contexts = map[string]profile.Context{}
				}
				f.Contexts[args[0]] = c
				f.Current = cmp.Or(f.Current, args[0])
				return nil
			})
			if err == nil {
				noteUnusable(a, args[0], c)
			}
			return err
		},
	}
}

// changedContext returns a context with the flags of a command.
func changedContext(a *app.App, cmd *cobra.Command, f *profile.File, name, token string) (profile.Context, error) {
	if err := profile.CheckName(name); err != nil {
		return profile.Context{}, app.Usagef("%s: %s", cmd.CommandPath(), err)
	}
	c, known := f.Contexts[name]
	if cmd.Flags().Changed("token") {
		if err := app.CheckToken(token); err != nil {
			return c, err
		}
		c.Token = token
	}
	for flag, to := range map[string]*string{"ca": &c.CA, "cert": &c.Cert, "key": &c.Key} {
		if !cmd.Flags().Changed(flag) {
			continue
		}
		path, err := cmd.Flags().GetString(flag)
		if err == nil && path != "" {
			path, err = filepath.Abs(path) // the context is used in any directory
		}
		if err != nil {
			return c, fmt.Errorf("--%s: %w", flag, err)
		}
		*to = path
	}
	if cmd.Flags().Changed("addr") {
		c.Addrs = nil
		addrs, err := app.SplitAddrs(a.Globals.Addr)
		if err != nil {
			return c, err
		}
		for _, text := range addrs {
			addr, err := client.ParseAddr(text)
			if err != nil {
				return c, app.Usagef("--addr: %s", err)
			}
			c.Addrs = append(c.Addrs, addr)
		}
	}
	if !known && len(c.Addrs) == 0 {
		return c, app.Usagef("%s: --addr is missing: a new context needs the addresses of its peers", cmd.CommandPath())
	}
	return c, nil
}

// noteUnusable shows a context that was set, and why it cannot be used yet.
func noteUnusable(a *app.App, name string, c profile.Context) {
	a.Note("context %s: %s", name, strings.Join(c.Addrs, ","))
	settings, err := app.LoadTLS(c)
	if err == nil {
		var conn *client.Client // it connects at the first call
		if conn, err = client.Dial(client.Config{Addrs: c.Addrs, Token: c.Token, TLS: settings}); err == nil {
			err = conn.Close()
		}
	}
	if err != nil {
		a.Note("note: context %s cannot be used yet: %s", name, err)
	}
}

func contextDelete(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "delete CONTEXT", Args: app.Exactly("CONTEXT"), ValidArgsFunction: Complete(a),
		Short:   "Delete a context",
		Example: "  holdfast context delete lab",
		RunE: func(_ *cobra.Command, args []string) error {
			err := changeContexts(a, func(f *profile.File) error {
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

// Complete completes the name of a context.
func Complete(a *app.App) cobra.CompletionFunc {
	return func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
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
}
