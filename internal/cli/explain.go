package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/explain"
	"github.com/holdfast-metal/holdfast/internal/cli/fields"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// resources returns the messages that can be explained, by noun.
func resources() map[string]protoreflect.MessageDescriptor {
	all := map[string]protoreflect.MessageDescriptor{}
	for noun, m := range map[string]proto.Message{
		"machine": &holdfastv1.Machine{}, "plan": &holdfastv1.Plan{}, "step": &holdfastv1.Step{}, "run": &holdfastv1.Run{},
		"pool":    &holdfastv1.Pool{},
		"service": &holdfastv1.Service{}, "image": &holdfastv1.Image{}, "secret": &holdfastv1.Secret{},
		"session": &holdfastv1.Session{}, "console": &holdfastv1.ConsoleSession{},
		"token": &holdfastv1.Token{}, "wave": &holdfastv1.Wave{}, "webhook": &holdfastv1.Webhook{},
		"install": &holdfastv1.Install{}, "node": &holdfastv1.Machine{}, "event": &holdfastv1.Event{},
		"audit": &holdfastv1.AuditEvent{}, "history": &holdfastv1.HistoryEntry{}, "cluster": &holdfastv1.ClusterStatus{},
	} {
		all[noun] = m.ProtoReflect().Descriptor()
	}
	return all
}

func nouns() []string {
	return slices.Sorted(maps.Keys(resources()))
}

func explainCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "explain RESOURCE[.FIELD...]", Args: app.Exactly("RESOURCE"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nouns(), cobra.ShellCompDirectiveNoFileComp
		},
		Short: "Explain the fields of a resource",
		Long: `Explain the fields of a resource, as used in files (apply -f), -o json and yaml, filters and --sort-by.
No cluster is contacted: the fields are those of this binary.`,
		Example: `  holdfast explain machine
  holdfast explain machine.spec.rack
  holdfast explain plan.steps.repave`,
		RunE: func(cmd *cobra.Command, args []string) error {
			noun, path, _ := strings.Cut(args[0], ".")
			md := cmp.Or(resources()[noun], resources()[strings.TrimSuffix(noun, "s")])
			if md == nil {
				return app.Usagef("%s: %q is not one of %s%s", cmd.CommandPath(), noun, strings.Join(nouns(), ", "),
					app.DidYouMean(noun, nouns()))
			}
			text, err := explanationOf(md, path)
			if err != nil {
				return app.Usagef("%s: %s", cmd.CommandPath(), err)
			}
			_, err = io.WriteString(a.Painted(), text(a.Color(a.Out)))
			return err
		},
	}
}

// explanationOf follows a path from a message, also through lists and maps, and explains its
// end.
func explanationOf(md protoreflect.MessageDescriptor, path string) (func(color bool) string, error) {
	title, about, typ := string(md.Name()), explain.Comment(md), ""
	var values []protoreflect.EnumValueDescriptor
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		fd, err := fields.Field(md, name)
		if err != nil {
			return nil, err
		}
		title, about, typ, values = string(fd.FullName()), explain.Comment(fd), explain.Type(fd), explain.Values(fd)
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if md = fd.Message(); md == nil || strings.HasPrefix(string(md.FullName()), "google.") {
			if md = nil; path != "" {
				return nil, fmt.Errorf("%q has no fields", name)
			}
		}
	}
	return func(color bool) string {
		lines := []render.Line{{render.T(strings.TrimPrefix(title, "holdfast.v1."), render.Bold),
			render.T("  "+typ, render.Cyan)}}
		for _, text := range []string{about, commentOf(md, about)} {
			if text != "" {
				lines = append(lines, render.Line{app.Plain("  " + text)})
			}
		}
		var b strings.Builder
		for _, l := range lines {
			b.WriteString(strings.TrimRight(l.Format(0, color), " ") + "\n")
		}
		for _, t := range []*render.Table{valueTable(values), fieldTable(md)} {
			if t.Len() > 0 {
				b.WriteString("\n" + t.Format(color, true))
			}
		}
		return b.String()
	}, nil
}

// commentOf returns the comment of a message, unless it was printed already.
func commentOf(md protoreflect.MessageDescriptor, said string) string {
	if md == nil || explain.Comment(md) == said {
		return ""
	}
	return explain.Comment(md)
}

func valueTable(values []protoreflect.EnumValueDescriptor) *render.Table {
	t := render.NewTable("VALUE", "MEANING")
	for _, v := range values {
		t.Row(render.State(string(v.Name())), explain.Comment(v))
	}
	return t
}

func fieldTable(md protoreflect.MessageDescriptor) *render.Table {
	t := render.NewTable("FIELD", "TYPE", "MEANING")
	if md == nil {
		return t
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		t.Row(string(fd.Name()), render.T(explain.Type(fd), render.Cyan), explain.Comment(fd))
	}
	return t
}
