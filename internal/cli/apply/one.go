package apply

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/difference"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/secrets"
)

// action is the change of a document: done, or planned with --dry-run.
type action string

const (
	created   action = "created"
	updated   action = "updated"
	unchanged action = "unchanged"
	deleted   action = "deleted"
)

func (a action) style() render.Style {
	switch a {
	case created:
		return render.Green
	case deleted:
		return render.Red
	}
	return render.Yellow
}

// applied is the result of one document.
type applied struct {
	noun, id string
	action   action
	changes  []difference.Change // of one that was there
	err      error
}

// applyKind is a kind of documents and the way to apply them.
type applyKind struct {
	manifest.Kind
	one func(ctx context.Context, c *client.Client, doc proto.Message, dryRun bool) applied
}

// target is the resource that a document describes.
type target[M proto.Message] struct {
	doc, live M // live is empty if it is not there
	found     bool
	want      M // what is to be there, of what people declare
	changes   []difference.Change
}

// applier reads, compares and writes documents of one kind.
type applier[M proto.Message] struct {
	kind output.Kind[M]
	// declared returns the fields that users set; the others belong to the server.
	declared func(M) M
	// plan returns the resource to store.
	plan func(ctx context.Context, c *client.Client, t *target[M]) (M, error)
	put  func(ctx context.Context, c *client.Client, t *target[M]) error
	// check returns the violations for which the server would refuse the document, for a dry run;
	// nil: plan asks the server.
	check func(M) []fsm.FieldViolation
}

// documents returns the kind of documents that have their id in a field.
func (k applier[M]) documents(id string) applyKind {
	return applyKind{manifest.Kind{List: k.kind.List, ID: id,
		Empty: func() proto.Message { return output.NewMessage[M]() }}, k.one}
}

// one applies a document. Another client may write between the read and the write, so the write
// names the fields that it changes, and its answer is the result.
func (k applier[M]) one(ctx context.Context, c *client.Client, doc proto.Message, dryRun bool) applied {
	t := &target[M]{doc: doc.(M)} //nolint:forcetypeassert // manifest.Mixed makes what applyKinds says
	out := applied{noun: k.kind.Noun, id: k.kind.Name(t.doc), action: created}
	fail := func(err error) applied {
		out.err = app.Failed(err, "apply %s %s", out.noun, out.id)
		return out
	}
	live, err := k.kind.Get(ctx, c, out.id)
	switch {
	case err == nil:
		t.live, t.found, out.action = live, true, updated
	case status.Code(err) != codes.NotFound:
		return fail(err)
	}
	if t.want, err = k.plan(ctx, c, t); err != nil {
		return fail(err)
	}
	if t.found {
		was, now := k.declared(t.live), k.declared(t.want)
		t.changes = difference.Between(was.ProtoReflect(), now.ProtoReflect())
		out.changes = shown(t.changes, difference.Between(secrets.Redact(was).ProtoReflect(),
			secrets.Redact(now).ProtoReflect()))
		if len(t.changes) == 0 {
			out.action = unchanged
		}
	}
	if out.action == unchanged {
		return out
	}
	if dryRun {
		if k.check != nil {
			if err := invalid(k.check(proto.CloneOf(t.doc))); err != nil {
				return fail(err)
			}
		}
		return out
	}
	if err := k.put(ctx, c, t); err != nil {
		return fail(err)
	}
	return out
}

// invalid returns violations as an error, like that of the server.
func invalid(bad []fsm.FieldViolation) error {
	if len(bad) == 0 {
		return nil
	}
	text := bad[0].Field + ": " + bad[0].Description
	if n := len(bad) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return status.Error(codes.InvalidArgument, text)
}

// shown removes secret and unchanged values.
func shown(all, open []difference.Change) []difference.Change {
	may := map[difference.Change]bool{}
	for _, c := range open {
		may[c] = true
	}
	out := make([]difference.Change, len(all))
	for i, c := range all {
		if !may[c] {
			c.Was, c.Now = "(secret)", "(secret)"
		}
		out[i] = c
	}
	return out
}
