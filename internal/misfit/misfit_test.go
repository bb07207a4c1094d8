package misfit_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/internal/misfit"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// goWords are words of Go's packages, which no sentence may have.
var goWords = regexp.MustCompile(`strconv\.|json:|yaml:|proto:|reflect|\*url\.Error|!!|unmarshal|protoreflect|\[\]interface|` +
	`map\[string|struct \{|looking for beginning of`)

func TestJSON(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"machine_id":5}`, `machine_id: 5 is not a text in quotes`},
		{`{"machineId":"a"}`, ``},
		{`{"machine_id":null}`, ``},
		{`{"spec":{"provder":"x"}}`, `spec.provder: there is no such field: did you mean provider?`},
		{`{"spec":[]}`, `spec: a list is not an object in { } with fields such as`},
		{`{"spec":{"mac_addresses":["a",5]}}`, `spec.mac_addresses[1]: 5 is not a text in quotes`},
		{`{"labels":[]}`, `labels: a list is not an object in { } of keys and values`},
		{`{"labels":{"a":true}}`, `labels.a: true is not a text in quotes`},
		{`{"status":{"phase":"REDY"}}`, `status.phase: "REDY" is not one of FACTORY_READY, READY,`},
		{`{"status":{"phase":true}}`, `status.phase: true is not a name in quotes`},
		{`{"status":{"conditions":[{"status":"true"}]}}`, `status.conditions[0].status: "true" is not true or false, without`},
		{`{"created_at":"yesterday"}`, `created_at: "yesterday" is not a time such as 2026-01-29T15:20:00Z`},
		{`{"created_at":5}`, `created_at: 5 is not a text`},
		{`{"revision":-1}`, `revision: "-1" is not a whole number of 0 to`},
		{`{"revision":{}}`, `revision: an object is not a number`},
		{`{"a":1,`, `it is not JSON`},
		{`{"machine_id":"a"`, `it is not JSON: it ends in the middle of a value`},
		{``, `it is empty`},
		{"{\n \"x\" 1}", `it is not JSON: unexpected '1' at line 2, column 6`},
		{`"a"`, `it is "a", not an object`},
		{`null`, `it is`},
		{`{} {}`, `there is more text behind the value`},
		{`{"machine_id":"a","machine_id":"b"}`, `machine_id: it is there twice`},
		{`{"machine_id":"a","machineId":"b"}`, `machineId: it is there twice, as machine_id and as machineId: give it once, as mac`},
		{`{"spec":{"macAddresses":[],"mac_addresses":null}}`, `spec.mac_addresses: it is there twice, as macAddresses and as`},
		{"{\"machine_id\":\"\xff\"}", `it is not UTF-8`},
		{strings.Repeat(`{"spec":`, 200), ``}, // any reason
	} {
		got := misfit.JSON([]byte(tt.in), (&holdfastv1.Machine{}).ProtoReflect().Descriptor())
		switch {
		case tt.want == "" && got != nil && len(tt.in) < 100:
			t.Errorf("%s: got %v, want no problem", tt.in, got)
		case tt.want != "" && (got == nil || !strings.HasPrefix(got.Error(), tt.want)):
			if tt.in != `{"a":1,` {
				t.Errorf("%s: got %v, want %s", tt.in, got, tt.want)
			}
		}
	}
}

// messages are requests that people write by hand.
func messages() []proto.Message {
	return []proto.Message{&holdfastv1.RegisterMachineRequest{}, &holdfastv1.StartRunRequest{}, &holdfastv1.Plan{},
		&holdfastv1.Pool{}, &holdfastv1.Image{}, &holdfastv1.PutWebhookRequest{}, &holdfastv1.CreateTokenRequest{},
		&timestamppb.Timestamp{}, &durationpb.Duration{}}
}

// value draws any JSON value. Some objects have keys of a message.
func value(t *rapid.T, keys []string, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "word")
	case 1:
		return rapid.SampledFrom([]any{0, -1, 1.5, 1e30, json.Number("99999999999999999999"), json.Number("1e3"),
			7.0}).Draw(t, "n")
	case 2:
		return rapid.String().Filter(func(s string) bool { return !goWords.MatchString(s) }).Draw(t, "text")
	case 3:
		return rapid.SampledFrom([]string{"true", "5", "READY", "5m", "90s", "2026-01-29T15:20:00Z", "AA==",
			"a.b"}).Draw(t, "word")
	case 4:
		all := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "n") {
			all = append(all, value(t, keys, depth-1))
		}
		return all
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "n") {
		object[rapid.SampledFrom(keys).Draw(t, "key")] = value(t, keys, depth-1)
	}
	return object
}

// allKeys returns the names of the fields of a message and of those in it.
func allKeys(md protoreflect.MessageDescriptor, depth int) []string {
	names := append(misfit.FieldNames(md), "x")
	for i := range md.Fields().Len() {
		if inner := md.Fields().Get(i).Message(); inner != nil && depth > 0 {
			names = append(names, allKeys(inner, depth-1)...)
		}
	}
	return names
}

// TestEveryRefusalIsExplained checks that whatever the decoder refuses has a reason, without the
// words of Go's packages.
func TestEveryRefusalIsExplained(t *testing.T) {
	for _, m := range messages() {
		md := m.ProtoReflect().Descriptor()
		keys := allKeys(md, 2)
		rapid.Check(t, func(t *rapid.T) {
			text, err := json.Marshal(value(t, keys, 3))
			if err != nil {
				t.Skip("a number that JSON has not")
			}
			if cut := rapid.IntRange(0, 30).Draw(t, "cut"); cut < len(text) && cut < 5 {
				text = text[:len(text)-cut]
			}
			refusal := protojson.Unmarshal(text, m.ProtoReflect().New().Interface())
			got := misfit.JSON(text, md)
			if refusal != nil && got == nil {
				t.Fatalf("%s: %s: got no reason for %v", md.Name(), text, refusal)
			}
			if got != nil && goWords.MatchString(strings.ReplaceAll(got.Msg, string(text), "")) {
				t.Fatalf("%s: got %q, want no words of Go", text, got)
			}
		})
	}
}

// FuzzJSON checks that any text which the decoder refuses has a reason.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"spec":{"bmc_endpoint":5}}`, `{"a":[}`, `[`, `{"spec":{}}}`, "\x00", `{"labels":{"a":"\ud800"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m := &holdfastv1.Machine{}
		refusal := protojson.Unmarshal(text, m)
		got := misfit.JSON(text, m.ProtoReflect().Descriptor())
		if refusal != nil && got == nil {
			t.Fatalf("%q: got no reason for %v", text, refusal)
		}
	})
}

func TestText(t *testing.T) {
	md := (&holdfastv1.Machine{}).ProtoReflect().Descriptor()
	field := func(name string) protoreflect.FieldDescriptor { return md.Fields().ByName(protoreflect.Name(name)) }
	duration := (&holdfastv1.VerifyInCluster{}).ProtoReflect().Descriptor().Fields().ByName("timeout")
	step := (&holdfastv1.Step{}).ProtoReflect().Descriptor().Fields().ByName("timeout_seconds")
	for _, tt := range []struct {
		fd         protoreflect.FieldDescriptor
		text, want string
	}{
		{field("revision"), "5", ""},
		{field("revision"), "abc", `"abc" is not a whole number`},
		{field("revision"), "99999999999999999999", `is not a whole number of 0 to 18446744073709551615`},
		{field("revision"), "010", `"010" is not written as a decimal number: write 10`},
		{field("revision"), "0", ""},
		{step, "+5", `"+5" is not written as a decimal number: write 5`},
		{step, "-007", `"-007" is not written as a decimal number: write -7`},
		{step, "5m", `"5m" is not a whole number: write 300`},
		{field("machine_id"), "\xff", `is not UTF-8`},
		{field("created_at"), "x", `is not a time such as`},
		{duration, "90s", ""},
		{duration, "5m", `"5m" is not a number of seconds: write "300s"`},
		{duration, "soon", `"soon" is not a number of seconds such as "90s"`},
	} {
		if got := misfit.Text(tt.fd, tt.text); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s %q: got %q, want %q", tt.fd.Name(), tt.text, got, tt.want)
		}
	}
	if got := misfit.Text(field("revision"), strings.Repeat("x", 5000)); len(got) > 200 {
		t.Errorf("got %d bytes for a long value", len(got))
	}
}

// TestStruct checks the reasons of refusals of package encoding/json.
func TestStruct(t *testing.T) {
	type inner struct {
		Endpoint string `json:"endpoint"`
	}
	type config struct {
		inner
		Timeout int            `json:"timeout"`
		Names   []string       `json:"names"`
		Sites   map[string]int `json:"sites"`
		On      bool           `json:"on"`
	}
	for in, want := range map[string]string{
		`{"endpont":"x"}`:     `unknown key "endpont": did you mean endpoint?`,
		`{"zzz":"x"}`:         `unknown key "zzz": want one of endpoint, timeout, names, sites, on`,
		`{"timeout":"soon"}`:  `key "timeout" is a text, not a whole number`,
		`{"timeout":1.5}`:     `key "timeout" is 1.5, not a whole number`,
		`{"names":"x"}`:       `key "names" is a text, not a list`,
		`{"sites":[]}`:        `key "sites" is a list, not keys and values`,
		`{"sites":{"a":"b"}}`: `is a text, not a whole number`,
		`{"on":"yes"}`:        `key "on" is a text, not true or false`,
		`[]`:                  `is a list, not keys and values`,
		`{"timeout"`:          `it ends in the middle of a value`,
		`{"timeout":}`:        `it is not JSON: character 12 does not fit`,
	} {
		dec := json.NewDecoder(strings.NewReader(in))
		dec.DisallowUnknownFields()
		var c config
		err := dec.Decode(&c)
		if err == nil {
			t.Errorf("%s: got no error", in)
			continue
		}
		if got := misfit.Struct(err, &c); !strings.Contains(got, want) || goWords.MatchString(got) {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// TestYAML checks that bytes which are no YAML have a sentence without the words of the parser.
func TestYAML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := append(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"),
			rapid.SampledFrom([]string{"", "a: [", "\n\t- x", "a: b: c", "\"", "\x00", "{a: *b}"}).Draw(t, "end")...)
		var n yaml.Node
		err := yaml.Unmarshal(text, &n)
		if err == nil {
			return
		}
		line, got, ok := misfit.YAML(err)
		if !ok || line < 1 || got == "" || goWords.MatchString(got) {
			t.Fatalf("%q: got line %d, %q, %v for %v", text, line, got, ok, err)
		}
	})
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) error {
		_, err := os.ReadFile(name)
		return err
	}
	missing := filepath.Join(dir, "no", ".x.1234")
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{filepath.Join(dir, "a.yaml"), open(filepath.Join(dir, "a.yaml")), "a.yaml: there is no such file"},
		{filepath.Join(dir, "no", "x"), open(missing), "x: there is no such directory"},
		{dir, open(dir), "it is a directory"},
		{"http://e.example/a", open("http://e.example/a"), "http://e.example/a: it is a URL, and a file is wanted"},
		{"x", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, "x: this user may not"},
	} {
		got := misfit.File(tt.name, tt.err)
		if !strings.Contains(got.Error(), tt.want) || strings.Contains(got.Error(), "1234") ||
			!errors.Is(got, errors.Unwrap(tt.err)) {
			t.Errorf("%s: got %v, want %s", tt.name, got, tt.want)
		}
	}
	if got := misfit.File("f", errors.New("x")).Error(); got != "x" {
		t.Error("another error was changed")
	}
}

func TestFiles(t *testing.T) {
	for in, want := range map[string]string{
		"read CA: open a.pem: no such file or directory: see": "read CA: a.pem: there is no such file: see",
		"read /tmp: is a directory":                           "/tmp: it is a directory",
		"open a: permission denied":                           "a: this user may not: check the owner and the mode",
		"open the door":                                       "open the door",
		"reopen a: no such thing":                             "reopen a: no such thing",
	} {
		if got := misfit.Files(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}
