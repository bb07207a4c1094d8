package explain

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// scan reads the comments of a .proto file in our layout: one element per line, with its comment
// above or behind. It returns the comments by full name, "" if there is none. An option of a field
// may have several lines; the comment is above the first or behind the last one.
func scan(source string) map[string]string {
	source = regexp.MustCompile(`(?s)\[\(\w+\) = \{\n.*?\n\s*\}\];`).ReplaceAllStringFunc(source, func(option string) string {
		return strings.Join(strings.Fields(option), " ")
	})
	opens := regexp.MustCompile(`^(message|enum|oneof|service|rpc)\s+(\w+)`)
	value := regexp.MustCompile(`^(?:(?:optional|repeated)\s+)?(?:[\w.]+(?:<.*>)?\s+)?(\w+)\s*=\s*-?\d+\s*(?:\[.*\])?;`)
	found := map[string]string{}
	type scope struct {
		kind, name string
	}
	path := []scope{{"package", "holdfast.v1"}}
	var above []string
	for line := range strings.Lines(source) {
		code, behind, _ := strings.Cut(strings.TrimSpace(line), "//")
		code, behind = strings.TrimSpace(code), strings.TrimSpace(behind)
		if code == "" {
			if behind == "" {
				above = nil
			} else {
				above = append(above, behind)
			}
			continue
		}
		if behind != "" {
			above = append(above, behind)
		}
		here := path[len(path)-1]
		switch m := opens.FindStringSubmatch(code); {
		case m != nil:
			name := here.name + "." + m[2]
			found[name] = strings.Join(above, " ")
			if m[1] == "oneof" {
				name = here.name // its fields belong to the message
			}
			if strings.HasSuffix(code, "{") {
				path = append(path, scope{m[1], name})
			}
		case code == "}", code == "};":
			path = path[:len(path)-1]
		case strings.HasSuffix(code, "{"): // an extension, or an option of several lines
			path = append(path, scope{"option", here.name})
		default:
			if m := value.FindStringSubmatch(code); m != nil && here.kind != "package" && here.kind != "option" {
				name := here.name + "." + m[1]
				if here.kind == "enum" {
					name = here.name[:strings.LastIndex(here.name, ".")] + "." + m[1] // values are siblings of their enum
				}
				found[name] = strings.Join(above, " ")
			}
		}
		above = nil
	}
	return found
}

func sources(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../../proto/holdfast/v1/*.proto")
	if err != nil || len(files) == 0 {
		t.Fatalf("list .proto files: got none (%v)", err)
	}
	all := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, scan(string(data)))
	}
	return all
}

func TestCommentsAreThoseOfTheProtos(t *testing.T) {
	all := sources(t)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			fmt.Fprintf(&b, "%s\t%s\n", name, all[name])
		}
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile("comments.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), comments); diff != "" {
		t.Errorf("comments.txt (-want +got; UPDATE_GOLDEN=1 writes it):\n%s", diff)
	}
}

// TestAllElementsAreFound checks that scan finds every element of the compiled protos.
func TestAllElementsAreFound(t *testing.T) {
	all := sources(t)
	want := func(d protoreflect.Descriptor) {
		if _, ok := all[string(d.FullName())]; !ok {
			t.Errorf("%s: not found in the .proto files", d.FullName())
		}
	}
	var message func(md protoreflect.MessageDescriptor)
	enum := func(ed protoreflect.EnumDescriptor) {
		want(ed)
		for i := range ed.Values().Len() {
			want(ed.Values().Get(i))
		}
	}
	message = func(md protoreflect.MessageDescriptor) {
		if md.IsMapEntry() {
			return
		}
		want(md)
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
	protoregistry.GlobalFiles.RangeFilesByPackage("holdfast.v1", func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Messages().Len() {
			message(fd.Messages().Get(i))
		}
		for i := range fd.Enums().Len() {
			enum(fd.Enums().Get(i))
		}
		return true
	})
}

func TestExplain(t *testing.T) {
	md := (&holdfastv1.Machine{}).ProtoReflect().Descriptor()
	for name, want := range map[string]string{
		"revision": "Raft index of the last change (uint64)",
		"labels":   "free labels of operators, for filters (map[string]string)", "created_at": "creation time (time)",
		"spec": "declared by operators (MachineSpec)",
	} {
		fd := md.Fields().ByName(protoreflect.Name(name))
		if got := Comment(fd) + " (" + Type(fd) + ")"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	phase := (&holdfastv1.MachineStatus{}).ProtoReflect().Descriptor().Fields().ByName("phase")
	if got := Values(phase); len(got) != 7 || got[0].Name() != "FACTORY_READY" {
		t.Errorf("values of phase: got %v, want seven from FACTORY_READY on", got)
	}
}
