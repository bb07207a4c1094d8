package explain

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

const referencePage = "../../../docs/reference.md"

// reference writes a page about a package: its services, messages and enums, by name.
type reference struct {
	strings.Builder
	comments map[string]string
}

func (r *reference) f(format string, args ...any) { fmt.Fprintf(r, format, args...) }

// short is the name of an element within the package: Image.File.
func short(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), "holdfast.v1.")
}

// cell returns a comment as a cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(s)
}

// link returns the type of a field, as a link to its section of the page.
func link(fd protoreflect.FieldDescriptor) string {
	text, to := Type(fd), protoreflect.Descriptor(nil)
	for _, f := range []protoreflect.FieldDescriptor{fd, fd.MapValue()} {
		switch {
		case f == nil || f.Message() == nil && f.Enum() == nil:
		case f.Message() == nil:
			to = f.Enum()
		case !f.Message().IsMapEntry():
			to = f.Message()
		}
	}
	text = strings.ReplaceAll(text, "[]", "list of ")
	if to == nil || to.ParentFile().Package() != "holdfast.v1" {
		return text
	}
	return fmt.Sprintf("[%s](#%s)", text, anchor(short(to)))
}

// anchor returns GitHub's anchor of a heading.
func anchor(heading string) string {
	return regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(strings.ToLower(heading), "")
}

func (r *reference) service(sd protoreflect.ServiceDescriptor) {
	r.f("### %s\n\n%s\n\n| method | HTTP | request | response | |\n|---|---|---|---|---|\n", sd.Name(),
		wrap(r.comments[string(sd.FullName())]))
	for i := range sd.Methods().Len() {
		m := sd.Methods().Get(i)
		side := func(md protoreflect.MessageDescriptor, stream bool) string {
			s := fmt.Sprintf("[%s](#%s)", short(md), anchor(short(md)))
			if stream {
				s = "stream of " + s
			}
			return s
		}
		about := r.comments[string(m.FullName())]
		if o, ok := m.Options().(*descriptorpb.MethodOptions); ok &&
			o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
			about = "Reads. " + about
		}
		r.f("| `%s` | %s | %s | %s | %s |\n", m.Name(), routeOf(m), side(m.Input(), m.IsStreamingClient()),
			side(m.Output(), m.IsStreamingServer()), cell(about))
	}
	r.f("\n")
}

// routeOf returns the HTTP route of a method, or "".
func routeOf(m protoreflect.MethodDescriptor) string {
	rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return ""
	}
	p := rule.ProtoReflect().WhichOneof(rule.ProtoReflect().Descriptor().Oneofs().ByName("pattern"))
	path := strings.ReplaceAll(rule.ProtoReflect().Get(p).String(), "=**", "")
	return "`" + strings.ToUpper(string(p.Name())) + " " + path + "`"
}

func (r *reference) message(md protoreflect.MessageDescriptor) {
	if md.Fields().Len() > 0 || md.Enums().Len() == 0 { // a message without fields around an enum has no table
		r.f("### %s\n\n", short(md))
		if c := r.comments[string(md.FullName())]; c != "" {
			r.f("%s\n\n", wrap(cell(c)))
		}
		if md.Fields().Len() == 0 {
			r.f("No fields.\n\n")
		} else {
			r.f("| field | type | no. | |\n|---|---|---|---|\n")
		}
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		about := r.comments[string(fd.FullName())]
		if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() {
			about = "One of `" + string(o.Name()) + "`: " + about
		}
		r.f("| `%s` | %s | %d | %s |\n", fd.Name(), link(fd), fd.Number(), cell(about))
	}
	if md.Fields().Len() > 0 {
		r.f("\n")
	}
	for i := range md.Enums().Len() {
		r.enum(md.Enums().Get(i))
	}
	for i := range md.Messages().Len() {
		if nested := md.Messages().Get(i); !nested.IsMapEntry() {
			r.message(nested)
		}
	}
}

func (r *reference) enum(ed protoreflect.EnumDescriptor) {
	r.f("### %s\n\n", short(ed))
	if c := r.comments[string(ed.FullName())]; c != "" {
		r.f("%s\n\n", cell(c))
	}
	r.f("| value | no. | |\n|---|---|---|\n")
	for i := range ed.Values().Len() {
		v := ed.Values().Get(i)
		r.f("| `%s` | %d | %s |\n", v.Name(), v.Number(), cell(r.comments[string(v.FullName())]))
	}
	r.f("\n")
}

// files returns the files of the API, by path.
func files() []protoreflect.FileDescriptor {
	var all []protoreflect.FileDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("holdfast.v1", func(fd protoreflect.FileDescriptor) bool {
		all = append(all, fd)
		return true
	})
	slices.SortFunc(all, func(x, y protoreflect.FileDescriptor) int { return strings.Compare(x.Path(), y.Path()) })
	return all
}

func TestReferenceIsCurrent(t *testing.T) {
	r := &reference{comments: sources(t)}
	r.f("# API reference\n\n" +
		"The package `holdfast.v1`, from the comments of [proto/holdfast/v1](../proto/holdfast/v1). A test writes this page\n" +
		"(`UPDATE_GOLDEN=1 go test ./internal/cli/explain`); `holdfast explain` prints the same on a terminal.\n" +
		"[api.md](api.md) has the rules for all methods: errors, consistency, filters, pages, streams that resume.\n" +
		"[http.md](http.md) has those of the HTTP routes. [permissions.md](permissions.md) lists the roles that may call " +
		"each method.\n\n## Services\n\n")
	for _, fd := range files() {
		for i := range fd.Services().Len() {
			r.service(fd.Services().Get(i))
		}
	}
	r.f("## Messages\n\n`time` is google.protobuf.Timestamp, `duration` google.protobuf.Duration. Fields that are " +
		"not set are empty, zero or false.\n\n")
	for _, fd := range files() {
		for i := range fd.Messages().Len() {
			r.message(fd.Messages().Get(i))
		}
		for i := range fd.Enums().Len() {
			r.enum(fd.Enums().Get(i))
		}
	}
	want := strings.TrimSuffix(r.String(), "\n")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(referencePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/reference.md (-want +got; UPDATE_GOLDEN=1 writes it):\n%s", diff)
	}
	headings := map[string]int{}
	for _, h := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(want, -1) {
		headings[anchor(h[1])]++
	}
	for _, l := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(want, -1) {
		if headings[l[1]] != 1 {
			t.Errorf("docs/reference.md links to #%s, which %d headings have", l[1], headings[l[1]])
		}
	}
}

// Everything in explain and the reference has a comment, except messages of a single method, whose
// name is sufficient.
func TestEverythingHasAComment(t *testing.T) {
	all := sources(t)
	want := func(d protoreflect.Descriptor) {
		if all[string(d.FullName())] == "" {
			t.Errorf("%s (%s): got no comment", d.FullName(), d.ParentFile().Path())
		}
	}
	enum := func(ed protoreflect.EnumDescriptor) {
		want(ed)
		for i := range ed.Values().Len() {
			if v := ed.Values().Get(i); !strings.HasSuffix(string(v.Name()), "_UNSPECIFIED") {
				want(v)
			}
		}
	}
	var message func(md protoreflect.MessageDescriptor)
	message = func(md protoreflect.MessageDescriptor) {
		if md.IsMapEntry() {
			return
		}
		if !strings.HasSuffix(string(md.Name()), "Request") && !strings.HasSuffix(string(md.Name()), "Response") {
			want(md)
		}
		for i := range md.Fields().Len() {
			want(md.Fields().Get(i))
		}
		for i := range md.Enums().Len() {
			enum(md.Enums().Get(i))
		}
		for i := range md.Messages().Len() {
			message(md.Messages().Get(i))
		}
	}
	for _, fd := range files() {
		for i := range fd.Messages().Len() {
			message(fd.Messages().Get(i))
		}
		for i := range fd.Enums().Len() {
			enum(fd.Enums().Get(i))
		}
		for i := range fd.Services().Len() {
			sd := fd.Services().Get(i)
			want(sd)
			for j := range sd.Methods().Len() {
				want(sd.Methods().Get(j))
			}
		}
	}
}

// wrap breaks a paragraph into lines of at most 120 columns.
func wrap(s string) string {
	var b strings.Builder
	width := 0
	for word := range strings.FieldsSeq(s) {
		n := len([]rune(word))
		switch {
		case width == 0:
		case width+1+n > 120:
			b.WriteString("\n")
			width = 0
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}
