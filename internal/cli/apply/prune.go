package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// pruning deletes machines and pools that an earlier apply made and that the files no longer have.
// A label marks them: apply sets it, and only resources with it are deleted.
type pruning struct {
	on         bool
	mark       string // key=value
	yes        bool
	key, value string
}

func (p *pruning) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&p.on, "prune", false, "delete machines and pools with the label of -l that are not in the files")
	f.StringVarP(&p.mark, "labels", "l", "", "with --prune: label `key=value`, which all machines and pools of the files get")
	f.BoolVar(&p.yes, "yes", false, "with --prune: do not ask for confirmation")
}

// check returns an error if the flags do not belong together.
func (p *pruning) check(path string) error {
	switch {
	case !p.on && (p.mark != "" || p.yes):
		return app.Usagef("%s: -l and --yes go with --prune", path)
	case !p.on:
		return nil
	}
	var ok bool
	if p.key, p.value, ok = strings.Cut(p.mark, "="); !ok || p.key == "" || p.value == "" ||
		strings.ContainsAny(p.mark, "!, ()") || strings.Contains(p.value, "=") {
		return app.Usagef("%s: --prune needs a label to delete by: -l key=value, got %q", path, p.mark)
	}
	return nil
}

// set adds the label to the documents that can have one.
func (p *pruning) set(docs [][]proto.Message) error {
	if !p.on {
		return nil
	}
	for _, doc := range slices.Concat(docs...) {
		var id string
		var labels *map[string]string
		switch m := doc.(type) {
		case *holdfastv1.Machine:
			id, labels = "machine "+m.GetMachineId(), &m.Labels
		case *holdfastv1.Pool:
			id, labels = "pool "+m.GetPoolId(), &m.Labels
		default:
			continue
		}
		if *labels == nil {
			*labels = map[string]string{}
		}
		if other, ok := (*labels)[p.key]; ok && other != p.value {
			return app.Usagef("%s has the label %s=%s in its file, and -l is %s", id, p.key, other, p.mark)
		}
		(*labels)[p.key] = p.value
	}
	return nil
}

// doomed is a resource that is to be deleted.
type doomed struct {
	noun, id string
	remove   func(ctx context.Context) error
}

// find returns what the files no longer have, of the kinds that they have. Machines are first,
// because a pool with machines is not deleted.
func (p *pruning) find(ctx context.Context, c *client.Client, docs [][]proto.Message) ([]doomed, error) {
	if !p.on {
		return nil, nil
	}
	owned := filter.Equals("labels."+filter.Quote(p.key), p.value)
	var machines, pools []string
	for _, doc := range slices.Concat(docs...) {
		switch m := doc.(type) {
		case *holdfastv1.Machine:
			machines = append(machines, m.GetMachineId())
		case *holdfastv1.Pool:
			pools = append(pools, m.GetPoolId())
		}
	}
	gone, err := missing(ctx, c, kinds.Machine(), owned, machines, func(ctx context.Context, id string) error {
		_, err := c.Machines().DeleteMachine(ctx, &holdfastv1.DeleteMachineRequest{MachineId: id})
		return err
	})
	if err != nil {
		return nil, err
	}
	more, err := missing(ctx, c, kinds.Pool(), owned, pools, func(ctx context.Context, id string) error {
		_, err := c.Pools().DeletePool(ctx, &holdfastv1.DeletePoolRequest{PoolId: id})
		return err
	})
	return append(gone, more...), err
}

// missing returns the resources that match a filter and are not kept. It returns none if nothing is
// kept: the files are not about this kind.
func missing[M proto.Message](ctx context.Context, c *client.Client, k output.Kind[M], filter string, kept []string,
	remove func(ctx context.Context, id string) error) ([]doomed, error) {
	if len(kept) == 0 {
		return nil, nil
	}
	live, err := k.All(ctx, c, filter, 0)
	if err != nil {
		return nil, app.Failed(err, "list %s", k.List)
	}
	keep := map[string]bool{}
	for _, id := range kept {
		keep[id] = true
	}
	var gone []doomed
	for _, id := range app.Mapped(live, k.Name) {
		if !keep[id] {
			gone = append(gone, doomed{k.Noun, id, func(ctx context.Context) error { return remove(ctx, id) }})
		}
	}
	return gone, nil
}

// confirm blocks until the operator has confirmed the deletions.
func (p *pruning) confirm(ctx context.Context, a *app.App, path string, dryRun bool, gone []doomed) error {
	if dryRun || len(gone) == 0 {
		return nil
	}
	names := app.Mapped(gone, func(d doomed) string { return d.id })
	const shown = 10
	list := strings.Join(names[:min(shown, len(names))], " ")
	if n := len(names) - shown; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	ok := prompt.Consent{Yes: p.yes}
	return ok.Obtain(ctx, a, path, fmt.Sprintf("delete what the files no longer have (%d): %s", len(names), list),
		prompt.Word(names))
}

// run deletes, unless it is a dry run or a document was not applied.
func (p *pruning) run(ctx context.Context, a *app.App, gone []doomed, all []applied, dryRun bool) []applied {
	if len(gone) > 0 && slices.ContainsFunc(all, func(one applied) bool { return one.err != nil }) {
		a.Note("nothing is pruned, because not all documents were applied")
		return all
	}
	for _, d := range gone {
		one := applied{noun: d.noun, id: d.id, action: deleted}
		if !dryRun {
			one.err = app.Failed(d.remove(ctx), "delete %s %s", d.noun, d.id)
		}
		all = append(all, one)
	}
	return all
}
