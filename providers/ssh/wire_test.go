package sshexec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/providers"
)

// parseStatus parses one answer of hf_status.
func parseStatus(b []byte, offset int64) (s providers.CommandStatus, why string, err error) {
	r := bufio.NewReaderSize(bytes.NewReader(b), maxLine)
	err = readReply(r, func(words []string) error {
		var perr error
		s, why, perr = readStatus(r, words, offset)
		return perr
	})
	return s, why, err
}

func TestReplies(t *testing.T) {
	for _, c := range []struct {
		name, reply, want string // want is in the error; empty: no error
		class             providers.Class
	}{
		{"status", "status running 0 0 0\nend\n", "", ""},
		{"error", "err unsupported 5\nwords" + "end\n", "words", providers.Unsupported},
		{"error of an agent that ended", "err transient 5\nwords", "words", providers.Transient},
		{"error with an unknown outcome", "err timeout 5\nwords" + "end\n", "words", providers.Timeout},
		{"error of an unknown class", "err wild 5\nwordsend\n", "words", providers.Transient},
		{"late", "late 123\nend\n", "too late", ""},
		{"empty", "", "EOF", ""},
		{"empty line", "\n", "it is empty", ""},
		{"no end", "status running 0 0 0\nfoo\n", "missing end line", ""},
		{"cut off in the middle", "status running 0 0 1\nout 5\nab", "unexpected EOF", ""},
		{"unknown state", "status walking 0 0 0\nend\n", "walking", ""},
		{"unknown stream", "status running 0 0 1\nlog 0\nend\n", "log 0", ""},
		{"negative size", "status running 0 -1 0\nend\n", "not a number", ""},
		{"huge size", "status running 0 0 1\nout 99999999999\n", "not a number", ""},
		{"long line", strings.Repeat("x", 5000) + "\n", "too long", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := parseStatus([]byte(c.reply), 0)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			var he *hostError
			if c.class != "" && (!errors.As(err, &he) || he.class != c.class) {
				t.Errorf("got %v, want class %s", err, c.class)
			}
		})
	}
}

// TestStatusComesThrough checks that the output of a command is returned unchanged.
func TestStatusComesThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(0, 1<<40).Draw(t, "offset")
		want := providers.CommandStatus{State: providers.WorkDone, ExitCode: rapid.IntRange(-1, 255).Draw(t, "code"),
			Next: offset}
		reason := rapid.StringMatching(`[a-z]{0,20}`).Draw(t, "reason")
		var b bytes.Buffer
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 100), 0, 5).Draw(t, "pieces")
		fmt.Fprintf(&b, "status done %d %d %d\n%s", want.ExitCode, len(reason), len(pieces), reason)
		for i, p := range pieces {
			stream := []string{"out", "err"}[i%2]
			fmt.Fprintf(&b, "%s %d\n%s", stream, len(p), p)
			want.Output = append(want.Output, providers.Output{Stream: "std" + stream, Data: p})
			want.Next += int64(len(p))
		}
		b.WriteString("end\n")
		got, why, err := parseStatus(b.Bytes(), offset)
		if err != nil || why != reason {
			t.Fatalf("got %v and %q", err, why)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add([]byte("status running 0 0 1\nout 2\nabend\n"))
	f.Add([]byte("err transient 3\nabcend\n"))
	f.Add([]byte("facts 1-2 3\nabcend\n"))
	f.Add([]byte("late 7\nend\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _, err := parseStatus(b, 10)
		if err == nil && strings.HasPrefix(string(b), "status") {
			n := int64(0)
			for _, o := range s.Output {
				n += int64(len(o.Data))
			}
			if s.Next != 10+n || n > int64(len(b)) {
				t.Errorf("got %d bytes from 10, next %d", n, s.Next)
			}
		}
		r := bufio.NewReaderSize(bytes.NewReader(b), maxLine)
		_ = readReply(r, func(words []string) error { _, _, err := readFacts(r, words); return err })
	})
}

func TestParseEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1": "10.0.0.1:22", "10.0.0.1:2222": "10.0.0.1:2222", "host.example": "host.example:22",
		"fd77::1": "[fd77::1]:22", "[fd77::1]": "[fd77::1]:22", "[fd77::1]:23": "[fd77::1]:23",
		"": "", "root@host": "", "host:0": "", "host:99999": "", "host:ssh": "", ":22": "", "ssh://host": "", "a b": "",
		"a:b:c": "",
	} {
		got, err := parseEndpoint(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	if _, err := parseEndpoint("root:hunter2@host"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want an error without the password", err)
	}
}

func TestParseConfig(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", ``, ""},
		{"all", `{"credentials_ref":"a","jump":[{"endpoint":"b:22","credentials_ref":"c"}],"host_keys":"pinned","keepalive":"1s","dead_after":"2s","idle":"3s","max_age":"1h","call_timeout":"4s","kill_grace":"5s","state_dir":"/var/x","keep_days":3,"output_cap":9}`, ""},
		{"unknown key", `{"keep_alive":"1s"}`, "keep_alive"},
		{"duration without a unit", `{"idle":"3"}`, `"3"`},
		{"duration as a number", `{"idle":3}`, "with a unit"},
		{"zero duration", `{"idle":"0s"}`, "above zero"},
		{"policy", `{"host_keys":"never"}`, "want first-sight or pinned"},
		{"state dir", `{"state_dir":"/a b"}`, "state_dir"},
		{"jump", `{"jump":[{"endpoint":"x@y"}]}`, "jump[0]"},
		{"negative", `{"keep_days":-1}`, "keep_days"},
		{"two values", `{} {}`, "more than one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseConfig([]byte(c.in))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}
