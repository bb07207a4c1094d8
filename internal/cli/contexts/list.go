package contexts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/profile"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// listedContext is a context in JSON. It never has the token.
type listedContext struct {
	Name    string   `json:"name"`
	Current bool     `json:"current"`
	Addrs   []string `json:"addrs"`
	Token   bool     `json:"token_set"`
	CA      string   `json:"ca"`
	Cert    string   `json:"cert"`
	Key     string   `json:"key"`
}

// listContexts returns all contexts by name, and the path of their file.
func listContexts(a *app.App) ([]listedContext, string, error) {
	path, err := profile.Path(a.Getenv)
	if err != nil {
		return nil, "", err
	}
	f, err := profile.Load(path)
	if err != nil {
		return nil, "", err
	}
	all := []listedContext{}
	for _, name := range slices.Sorted(maps.Keys(f.Contexts)) {
		c := f.Contexts[name]
		all = append(all, listedContext{Name: name, Current: name == f.Current, Addrs: c.Addrs, Token: c.Token != "",
			CA: c.CA, Cert: c.Cert, Key: c.Key})
	}
	return all, path, nil
}

// listedContexts is the result of context list, for scripts.
type listedContexts struct {
	Contexts []listedContext `json:"contexts"`
}

func contextList(a *app.App) *cobra.Command {
	var o output.Flags
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Args: app.Exactly(),
		Short: "List the contexts; the current one has a star",
		Example: `  holdfast context list
  holdfast context list -o name`,
		RunE: func(*cobra.Command, []string) error {
			all, path, err := listContexts(a)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				a.Note("note: %s has no contexts: see: holdfast context set --help", path)
			}
			return printContexts(a, &o, all)
		},
	}
	o.Register(cmd, output.DocumentShape[listedContexts]("a list of contexts"))
	return cmd
}

func printContexts(a *app.App, o *output.Flags, all []listedContext) error {
	switch {
	case o.Format == output.FormatName:
		for _, c := range all {
			if _, err := fmt.Fprintln(a.Out, c.Name); err != nil {
				return err
			}
		}
		return nil
	case !o.Table():
		raw, err := json.Marshal(listedContexts{all})
		if err != nil {
			return fmt.Errorf("write contexts: %w", err)
		}
		return output.PrintDocument(a, o, raw)
	}
	t := render.NewTable("CURRENT", "CONTEXT", "ADDRESSES", "TOKEN", "CA")
	for _, c := range all {
		star := map[bool]string{true: "*"}[c.Current]
		token := map[bool]string{true: "set"}[c.Token]
		t.Row(star, c.Name, strings.Join(c.Addrs, ","), token, c.CA)
	}
	return output.PrintTable(a, o, t)
}

func contextCurrent(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "current", Args: app.Exactly(),
		Short:   "Show the name of the current context",
		Example: "  holdfast context current",
		RunE: func(*cobra.Command, []string) error {
			all, _, err := listContexts(a)
			if err != nil {
				return err
			}
			for _, c := range all {
				if c.Current {
					_, err := fmt.Fprintln(a.Out, c.Name)
					return err
				}
			}
			return app.Exitf(app.ExitNotFound, "no context is selected: see: holdfast context use --help")
		},
	}
}
