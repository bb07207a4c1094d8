package apply

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/difference"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// editor describes a command that edits one resource as YAML.
type editor[M proto.Message] struct {
	applier[M]
	long string
	// example is an id.
	example string
	whole   bool // the resource is replaced, not only the changed fields
	// check returns an error if an edited resource is to be edited again; nil: none.
	check func(ctx context.Context, c *client.Client, edited M) error
}

// EditMachine returns the command that edits a machine.
func EditMachine(a *app.App) *cobra.Command {
	return editCommand(a, editor[*holdfastv1.Machine]{
		applier: machineApplier(), example: "m-123",
		long: "A field that is removed is cleared.",
		check: func(ctx context.Context, c *client.Client, m *holdfastv1.Machine) error {
			return kinds.CheckPools(ctx, c, []*holdfastv1.Machine{m}, nil)
		},
	})
}

// EditPlan returns the command that edits a plan.
func EditPlan(a *app.App) *cobra.Command {
	return editCommand(a, editor[*holdfastv1.Plan]{
		applier: planApplier(), example: "plan-mine-v1", whole: true,
		long: "A plan that a run refers to never changes.",
	})
}

// EditPool returns the command that edits a pool.
func EditPool(a *app.App) *cobra.Command {
	e := editor[*holdfastv1.Pool]{applier: poolApplier(), example: "gpu", whole: true,
		long: "A field that is removed is cleared."}
	e.declared = func(p *holdfastv1.Pool) *holdfastv1.Pool {
		p = poolApplier().declared(p)
		p.Declared, p.Region = false, "" // they are of the server
		return p
	}
	return editCommand(a, e)
}

func editCommand[M proto.Message](a *app.App, e editor[M]) *cobra.Command {
	var o output.Flags
	arg := e.kind.Usage()
	cmd := &cobra.Command{
		Use: "edit " + arg, Args: app.Exactly(arg), ValidArgsFunction: a.Complete(e.kind.Names),
		Short: "Edit a " + e.kind.Noun + " as YAML",
		Long: "Edit a " + e.kind.Noun + ` as YAML in $VISUAL, $EDITOR or vi. An empty file changes nothing.
If the edited text is invalid or refused, the editor opens again with the error. ` + e.long + `

A change that another client makes meanwhile to the same fields is a conflict (exit code 4).`,
		Example: "  holdfast " + e.kind.Noun + " edit " + e.example,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			changed, err := e.edit(ctx, a, c, args[0])
			switch {
			case err != nil:
				return err
			case !changed:
				a.Note("%s %s is unchanged", e.kind.Noun, args[0])
				return nil
			}
			m, err := e.kind.Get(ctx, c, args[0])
			if err != nil {
				return app.Failed(err, "get %s %s", e.kind.Noun, args[0])
			}
			return output.PrintOne(a, &o, e.kind, m)
		}),
	}
	o.Register(cmd, output.Shapes(e.kind)...)
	return cmd
}

// edit opens the editor until the text can be stored, or is given up. The file is kept if an edit
// was not stored.
func (e editor[M]) edit(ctx context.Context, a *app.App, c *client.Client, id string) (changed bool, err error) {
	live, err := e.kind.Get(ctx, c, id)
	if err != nil {
		return false, app.Failed(err, "get %s %s", e.kind.Noun, id)
	}
	was := e.declared(live)
	raw, err := manifest.Brief(was)
	if err != nil {
		return false, err
	}
	text, err := manifest.YAML(raw)
	if err != nil {
		return false, err
	}
	d, err := newDraft(text)
	if err != nil {
		return false, fmt.Errorf("edit %s %s: %w", e.kind.Noun, id, err)
	}
	for {
		text, err := d.open(ctx, a)
		if err != nil {
			a.Note("the edited text is in %s", d.path)
			return false, fmt.Errorf("edit %s %s: %w", e.kind.Noun, id, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return false, d.remove()
		}
		changed, err := e.store(ctx, c, id, was, text)
		switch {
		case err == nil:
			return changed, d.remove()
		case !correctable(err) || bytes.Equal(text, d.refused):
			a.Note("the edited text is in %s", d.path)
			return false, app.Failed(err, "edit %s %s", e.kind.Noun, id)
		}
		d.refused, d.why = text, err
	}
}

// store writes an edited text. Only fields that were edited change, if the resource is not
// replaced.
func (e editor[M]) store(ctx context.Context, c *client.Client, id string, was M, text []byte) (bool, error) {
	docs, err := manifest.Decode([]manifest.Source{{File: "the text", Data: text}}, e.kind.List, output.NewMessage[M])
	switch {
	case err != nil:
		return false, app.Usagef("%s", err)
	case len(docs) != 1 || e.kind.Name(docs[0]) != id:
		return false, app.Usagef("the text must have one %s with the id %s", e.kind.Noun, id)
	}
	t := &target[M]{doc: e.declared(docs[0]), found: true}
	t.want, t.changes = t.doc, difference.Between(was.ProtoReflect(), e.declared(docs[0]).ProtoReflect())
	if len(t.changes) == 0 {
		return false, nil
	}
	if e.check != nil {
		if err := e.check(ctx, c, t.want); err != nil {
			return false, err
		}
	}
	if t.live, err = e.kind.Get(ctx, c, id); err != nil {
		return false, err
	}
	for _, other := range difference.Between(was.ProtoReflect(), e.declared(t.live).ProtoReflect()) {
		if e.whole || slices.ContainsFunc(t.changes, func(c difference.Change) bool { return c.Path == other.Path }) {
			return false, app.Exitf(app.ExitConflict, "it was changed meanwhile: %s", other)
		}
	}
	return true, e.put(ctx, c, t)
}

// correctable reports whether another edit may help.
func correctable(err error) bool {
	_, usage := errors.AsType[*app.UsageError](err)
	code := status.Code(err)
	return usage || app.ExitCode(err) == app.ExitNotFound || code == codes.InvalidArgument ||
		code == codes.FailedPrecondition || code == codes.AlreadyExists
}

// draft is a text that is edited in a temporary file.
type draft struct {
	path    string
	refused []byte // the text of the last attempt
	why     error
}

func newDraft(text []byte) (*draft, error) {
	f, err := os.CreateTemp("", "holdfast-edit-*.yaml") // 0600
	if err != nil {
		return nil, err
	}
	_, err = f.Write(text)
	return &draft{path: f.Name()}, errors.Join(err, f.Close())
}

func (d *draft) remove() error { return os.Remove(d.path) }

// open runs the editor and returns the text without the error at its start.
func (d *draft) open(ctx context.Context, a *app.App) ([]byte, error) {
	if d.why != nil {
		head := "# " + strings.ReplaceAll(d.why.Error(), "\n", "\n# ") + "\n"
		if err := os.WriteFile(d.path, append([]byte(head), d.refused...), 0o600); err != nil {
			return nil, err
		}
	}
	command := strings.Fields(cmp.Or(a.Getenv("VISUAL"), a.Getenv("EDITOR"), "vi"))
	if len(command) == 0 {
		return nil, app.Usagef("EDITOR has only blanks")
	}
	//nolint:gosec // the operator chooses the editor
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], d.path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, render.Unwrap(a.Out), render.Unwrap(a.Err)
	if err := cmd.Run(); err != nil {
		return nil, app.Exitf(app.ExitError, "run editor %s: %s", command[0], err) // not its exit code
	}
	text, err := os.ReadFile(d.path)
	if err != nil {
		return nil, err
	}
	for bytes.HasPrefix(text, []byte("# ")) { // the error
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text, nil
}
