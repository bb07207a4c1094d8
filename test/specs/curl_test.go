package specs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// fenced matches a command of a document, and its answer if there is one, in which "..." matches
// anything.
var fenced = regexp.MustCompile("(?s)```bash\n(.*?)```")

// curl runs the commands of a document as they are, each against the next peer. It replaces the
// address and the token of specs/000, and sets the variables of our documents.
func (w *world) curl(t *testing.T, file string) {
	t.Helper()
	program, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("NOT TESTED: curl not found: ", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks := fenced.FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatalf("%s: got no commands", file)
	}
	dir := t.TempDir()
	w.writeCurlFiles(t, dir)
	for i, b := range blocks {
		command, want, _ := strings.Cut(b[1], "# Response:")
		p := w.Peers()[w.next%len(w.Peers())]
		w.next++
		status, body := w.shell(t, program, dir, p, command)
		if status < 200 || status > 299 {
			t.Errorf("command %d of %s: got %d %s:\n%s", i+1, file, status, body, command)
		} else if !promised(strings.TrimSpace(want), body) {
			t.Errorf("command %d of %s:\n got %s\nwant %s", i+1, file, body, want)
		}
	}
}

// writeCurlFiles writes ca.pem for the commands, and a .curlrc that trusts it and prints the status
// at the end.
func (w *world) writeCurlFiles(t *testing.T, dir string) {
	t.Helper()
	ca, err := os.ReadFile(w.Files().CA)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"ca.pem": string(ca),
		".curlrc": fmt.Sprintf("cacert = %q\nsilent\nshow-error\nmax-time = 20\nwrite-out = %q\n",
			filepath.Join(dir, "ca.pem"), `\n%{http_code}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shell runs one command, and returns the status and the body of the answer.
func (w *world) shell(t *testing.T, curl, dir string, p *localcluster.Peer, command string) (status int, body string) {
	t.Helper()
	command = strings.NewReplacer("http://localhost:1994", p.URL(""), "abc123...", w.tokens["machine"]).Replace(command)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-c", command)
	sh.Dir = dir
	sh.Env = []string{"PATH=" + filepath.Dir(curl) + ":" + os.Getenv("PATH"), "CURL_HOME=" + dir, "HOME=" + dir,
		"PEER=" + p.URL(""), "MACHINE=" + w.tokens["machine"],
		"POOL=" + w.tokens["pool"], "SERVICE=" + w.tokens["service"], "SERVICE_ID=" + w.tokens["service-id"], "OPERATOR=" +
			w.tokens["operator"]}
	out, err := sh.CombinedOutput()
	at := strings.LastIndexByte(string(out), '\n')
	if err != nil || at < 0 {
		t.Fatalf("%v: %s\n%s", err, out, command)
	}
	if _, err := fmt.Sscan(string(out[at+1:]), &status); err != nil {
		t.Fatalf("got no status in the last line: %s", out)
	}
	return status, strings.TrimSpace(string(out[:at]))
}

// promised reports whether a body matches the answer in a document: the parts between the dots, in
// order, from beginning to end.
func promised(want, body string) bool {
	parts := strings.Split(want, "...")
	rest, ok := strings.CutPrefix(body, parts[0])
	for i, part := range parts[1:] {
		if !ok {
			return false
		}
		if i == len(parts)-2 {
			return strings.HasSuffix(rest, part)
		}
		_, rest, ok = strings.Cut(rest, part)
	}
	return ok && rest == ""
}

func TestPromised(t *testing.T) {
	for _, tt := range []struct {
		want, body string
		ok         bool
	}{
		{"", "", true}, {"", "x", false}, {"{a}", "{a}", true}, {"{a}", "{ab}", false}, {"{a...}", "{a}", true}, {"{a...}",
			"{a,b}", true},
		{"{a...c}", "{a,b,c}", true}, {"{a...c...e}", "{a,c,d}", false}, {"{a...c...}", "{a,b,c,d}", true}, {"{a...}",
			"{b}", false}, {"[...x...]", "[]", false},
	} {
		if got := promised(tt.want, tt.body); got != tt.ok {
			t.Errorf("%s for %s: got %v, want %v", tt.body, tt.want, got, tt.ok)
		}
	}
}
