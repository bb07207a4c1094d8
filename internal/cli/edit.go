package cli

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
	"github.com/holdfast-metal/holdfast/internal/cli/difference"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
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

func machineEdit(a *app) *cobra.Command {
	return editCommand(a, editor[*holdfastv1.Machine]{
		applier: machineApplier(), example: "m-123",
		long: "A field that is removed is cleared.",
		check: func(ctx context.Context, c *client.Client, m *holdfastv1.Machine) error {
			return checkPools(ctx, c, []*holdfastv1.Machine{m}, nil)
		},
	})
}

func planEdit(a *app) *cobra.Command {
	return editCommand(a, editor[*holdfastv1.Plan]{
		applier: planApplier(), example: "plan-mine-v1", whole: true,
		long: "A plan that a run refers to never changes.",
	})
}

func poolEdit(a *app) *cobra.Command {
	e := editor[*holdfastv1.Pool]{applier: poolApplier(), example: "gpu", whole: true,
		long: "A field that is removed is cleared."}
	e.declared = func(p *holdfastv1.Pool) *holdfastv1.Pool {
		p = poolApplier().declared(p)
		p.Declared, p.Region = false, "" // they are of the server
		return p
	}
	return editCommand(a, e)
}

func editCommand[M proto.Message](a *app, e editor[M]) *cobra.Command {
	var o output
	arg := e.kind.usage()
	cmd := &cobra.Command{
		Use: "edit " + arg, Args: exactly(arg), ValidArgsFunction: a.complete(e.kind.names),
		Short: "Edit a " + e.kind.noun + " as YAML",
		Long: "Edit a " + e.kind.noun + ` as YAML in $VISUAL, $EDITOR or vi. An empty file changes nothing.
If the edited text is invalid or refused, the editor opens again with the error. ` + e.long + `

A change that another client makes meanwhile to the same fields is a conflict (exit code 4).`,
		Example: "  holdfast " + e.kind.noun + " edit " + e.example,
		RunE: a.online(func(ctx context.Context, c *client.Client, args []string) error {
			changed, err := e.edit(ctx, a, c, args[0])
			switch {
			case err != nil:
				return err
			case !changed:
				a.note("%s %s is unchanged", e.kind.noun, args[0])
				return nil
			}
			m, err := e.kind.get(ctx, c, args[0])
			if err != nil {
				return failed(err, "get %s %s", e.kind.noun, args[0])
			}
			return printOne(a, &o, e.kind, m)
		}),
	}
	o.register(cmd, shapes(e.kind)...)
	return cmd
}

// edit opens the editor until the text can be stored, or is given up. The file is kept if an edit
// was not stored.
func (e editor[M]) edit(ctx context.Context, a *app, c *client.Client, id string) (changed bool, err error) {
	live, err := e.kind.get(ctx, c, id)
	if err != nil {
		return false, failed(err, "get %s %s", e.kind.noun, id)
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
		return false, fmt.Errorf("edit %s %s: %w", e.kind.noun, id, err)
	}
	for {
		text, err := d.open(ctx, a)
		if err != nil {
			a.note("the edited text is in %s", d.path)
			return false, fmt.Errorf("edit %s %s: %w", e.kind.noun, id, err)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return false, d.remove()
		}
		changed, err := e.store(ctx, c, id, was, text)
		switch {
		case err == nil:
			return changed, d.remove()
		case !correctable(err) || bytes.Equal(text, d.refused):
			a.note("the edited text is in %s", d.path)
			return false, failed(err, "edit %s %s", e.kind.noun, id)
		}
		d.refused, d.why = text, err
	}
}

// store writes an edited text. Only fields that were edited change, if the resource is not
// replaced.
func (e editor[M]) store(ctx context.Context, c *client.Client, id string, was M, text []byte) (bool, error) {
	docs, err := manifest.Decode([]manifest.Source{{File: "the text", Data: text}}, e.kind.list, empty[M])
	switch {
	case err != nil:
		return false, usagef("%s", err)
	case len(docs) != 1 || e.kind.name(docs[0]) != id:
		return false, usagef("the text must have one %s with the id %s", e.kind.noun, id)
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
	if t.live, err = e.kind.get(ctx, c, id); err != nil {
		return false, err
	}
	for _, other := range difference.Between(was.ProtoReflect(), e.declared(t.live).ProtoReflect()) {
		if e.whole || slices.ContainsFunc(t.changes, func(c difference.Change) bool { return c.Path == other.Path }) {
			return false, exitf(ExitConflict, "it was changed meanwhile: %s", other)
		}
	}
	return true, e.put(ctx, c, t)
}

// correctable reports whether another edit may help.
func correctable(err error) bool {
	_, usage := errors.AsType[*usageError](err)
	code := status.Code(err)
	return usage || ExitCode(err) == ExitNotFound || code == codes.InvalidArgument ||
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
func (d *draft) open(ctx context.Context, a *app) ([]byte, error) {
	if d.why != nil {
		head := "# " + strings.ReplaceAll(d.why.Error(), "\n", "\n# ") + "\n"
		if err := os.WriteFile(d.path, append([]byte(head), d.refused...), 0o600); err != nil {
			return nil, err
		}
	}
	command := strings.Fields(cmp.Or(a.Getenv("VISUAL"), a.Getenv("EDITOR"), "vi"))
	if len(command) == 0 {
		return nil, usagef("EDITOR has only blanks")
	}
	//nolint:gosec // the operator chooses the editor
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], d.path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, render.Unwrap(a.Out), render.Unwrap(a.Err)
	if err := cmd.Run(); err != nil {
		return nil, exitf(ExitError, "run editor %s: %s", command[0], err) // not its exit code
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
