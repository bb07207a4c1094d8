package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the command that applies files.
func Command(a *app.App) *cobra.Command {
	var in output.Inputs
	var dryRun bool
	var o output.Flags
	var prune pruning
	cmd := &cobra.Command{
		Use: "apply -f FILE", DisableFlagsInUseLine: true, Args: app.Exactly(),
		Short: "Apply pools, images, plans and machines from files",
		Long: `Apply pools, images, plans and machines from files and directories. Missing ones are created, and
different ones are updated and shown field by field. Nothing else changes, and nothing is deleted without --prune.

A file is YAML or JSON with the names of the API: documents separated by ---, lists, or the output of a list
command with -o yaml. Of a directory, the files *.yaml, *.yml and *.json are read. The id of a document selects
its kind: pool_id, plan_id, machine_id, or name for an image. Fields that belong to the server, such as status,
are ignored. Pools are applied first, then images, plans and machines.

Pools and machines keep fields and labels that the documents omit. Images and plans are replaced as a whole. A
plan that a run uses never changes: store the new one under another id.

With --dry-run nothing is stored: the server checks plans and images, and the differences are shown.
The exit code is then 1 if something would change. Without --dry-run it is 0 if all documents were applied, else
that of the first document that failed.

With --prune -l key=value all machines and pools of the files get this label, and those with the label that the
files no longer have are deleted, after confirmation. Pools are deleted only if the files have pools, and machines
only if they have machines. Nothing is deleted if a document was not applied.

-o json and -o yaml print each document with its result, also unchanged and failed ones; -o name prints those
that were, or would be, created or updated.`,
		Example: `  holdfast apply -f site.yaml --dry-run
  holdfast apply -f site.yaml -f machines/ -R
  holdfast apply -f site/ --prune -l site=fra1
  holdfast apply -f site.yaml --dry-run -o json | jq -r '.applied[] | select(.action != "unchanged").id'
  holdfast --context eu machine list -o yaml | holdfast apply -f -`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !in.Given() {
				return app.Usagef("%s: -f FILE is missing: usage: %s", cmd.CommandPath(), cmd.UseLine())
			}
			if err := prune.check(cmd.CommandPath()); err != nil {
				return err
			}
			sources, err := in.Sources(a)
			if err != nil {
				return fmt.Errorf("apply: %w", err)
			}
			kinds := applyKinds()
			docs, err := manifest.Mixed(sources, app.Mapped(kinds, func(k applyKind) manifest.Kind { return k.Kind }))
			if err != nil {
				return fmt.Errorf("apply: %w", err)
			}
			if err := checkOwned(docs); err != nil {
				return err
			}
			if err := prune.set(docs); err != nil {
				return err
			}
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := checkReferences(ctx, c, docs); err != nil {
					return fmt.Errorf("apply: %w", err)
				}
				gone, err := prune.find(ctx, c, docs)
				if err != nil {
					return err
				}
				if err := prune.confirm(ctx, a, cmd.CommandPath(), dryRun, gone); err != nil {
					return err
				}
				var all []applied
				for i, k := range kinds {
					done, err := k.all(ctx, c, docs[i], dryRun)
					if err != nil {
						return err
					}
					all = append(all, done...)
				}
				all = prune.run(ctx, a, gone, all, dryRun)
				show := printApplied
				if o.Structured() {
					show = printAppliedAs
				}
				if err := show(a, &o, all, in.String(), dryRun); err != nil || !dryRun {
					return err
				}
				if slices.ContainsFunc(all, func(one applied) bool { return one.action != unchanged }) {
					return app.Exitf(app.ExitError, "") // the differences have been printed
				}
				return nil
			})(cmd, nil)
		},
	}
	o.Register(cmd, output.DocumentShape[appliedDocument]("the result of apply"))
	in.Register(cmd.Flags(), "documents")
	prune.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the changes, and store nothing")
	return cmd
}

// checkReferences returns an error if a machine names a pool that neither exists nor is in the
// documents.
func checkReferences(ctx context.Context, c *client.Client, docs [][]proto.Message) error {
	var machines []*holdfastv1.Machine
	var pools []string
	for _, doc := range slices.Concat(docs...) {
		switch m := doc.(type) {
		case *holdfastv1.Pool:
			pools = append(pools, m.GetPoolId())
		case *holdfastv1.Machine:
			machines = append(machines, m)
		}
	}
	return kinds.CheckPools(ctx, c, machines, pools)
}

// all applies the documents of one kind, some in parallel. Failures are in the result; the
// error reports an interruption.
func (k applyKind) all(ctx context.Context, c *client.Client, docs []proto.Message, dryRun bool) ([]applied, error) {
	done := make([]applied, len(docs))
	var g errgroup.Group
	g.SetLimit(output.Parallel)
	for i, doc := range docs {
		g.Go(func() error {
			if ctx.Err() == nil {
				done[i] = k.one(ctx, c, doc, dryRun)
			}
			return ctx.Err()
		})
	}
	return done, app.Failed(g.Wait(), "apply %s: some may be done: apply again", k.List)
}

// printApplied prints the differences and the counts.
func printApplied(a *app.App, o *output.Flags, all []applied, files string, dryRun bool) error {
	var b strings.Builder
	var bad []error
	counts := map[action]int{}
	would := ""
	if dryRun {
		would = "would be "
	}
	color := a.Color(a.Out)
	for _, one := range all {
		if one.err != nil {
			bad = append(bad, one.err)
			continue
		}
		counts[one.action]++
		if one.action == unchanged || one.action == deleted && o.Format == output.FormatName {
			continue
		}
		if o.Format == output.FormatName {
			b.WriteString(one.id + "\n")
			continue
		}
		line := render.Line{app.Plain(one.noun + " " + one.id + " "),
			render.T(would+string(one.action), one.action.style())}
		b.WriteString(line.Format(0, color) + "\n")
		for _, c := range one.changes {
			b.WriteString("  " + render.Clean(c.String()) + "\n")
		}
	}
	if o.Format == output.FormatName {
		if _, err := fmt.Fprint(a.Out, b.String()); err != nil {
			return err
		}
		return app.Several(bad, len(all), "apply "+files)
	}
	counted := "%d created, %d updated, %d unchanged"
	if dryRun {
		counted = "dry run: %d to create, %d to update, %d unchanged"
	}
	fmt.Fprintf(&b, counted, counts[created], counts[updated], counts[unchanged])
	if n := counts[deleted]; n > 0 {
		fmt.Fprintf(&b, map[bool]string{true: ", %d to delete", false: ", %d deleted"}[dryRun], n)
	}
	if len(bad) > 0 {
		fmt.Fprintf(&b, ", %d failed", len(bad))
	}
	if _, err := fmt.Fprintln(a.Painted(), b.String()); err != nil {
		return err
	}
	return app.Several(bad, len(all), "apply "+files)
}

// appliedDocument is the result of a file's documents, for scripts.
type appliedDocument struct {
	DryRun  bool              `json:"dry_run"`
	Applied []appliedResource `json:"applied"` // in the order of their kinds, then of the file
}

type appliedResource struct {
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Action  action          `json:"action"` // created, updated, unchanged, deleted, failed
	Changes []appliedChange `json:"changes,omitempty"`
	Error   string          `json:"error,omitempty"`
}

type appliedChange struct {
	Field string `json:"field"`
	Was   string `json:"was,omitempty"` // as the table shows it; nothing: it was not set
	Now   string `json:"now,omitempty"`
}

// printAppliedAs prints the results as JSON, YAML or through an expression. It returns the
// error of the table.
func printAppliedAs(a *app.App, o *output.Flags, all []applied, files string, dryRun bool) error {
	doc := appliedDocument{DryRun: dryRun, Applied: make([]appliedResource, len(all))}
	var bad []error
	for i, one := range all {
		r := appliedResource{Kind: one.noun, ID: one.id, Action: one.action}
		if one.err != nil {
			r.Action, r.Error = "failed", one.err.Error()
			bad = append(bad, one.err)
		} else {
			for _, c := range one.changes {
				r.Changes = append(r.Changes, appliedChange{Field: c.Path, Was: c.Was, Now: c.Now})
			}
		}
		doc.Applied[i] = r
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if err := output.PrintDocument(a, o, raw); err != nil {
		return err
	}
	return app.Several(bad, len(all), "apply "+files)
}
