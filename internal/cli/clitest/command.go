package clitest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// Command is one run of the command line.
type Command struct {
	Ctx      context.Context
	Env      map[string]string
	In       string
	Terminal bool // output; with Answers, also input
	Answers  bool
	Out, Err buffer
}

// buffer can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Run runs the command against a cluster (nil: without an address), and returns the exit code.
func (c *Command) Run(t *testing.T, f *Cluster, args ...string) int {
	t.Helper()
	env := map[string]string{"HOME": t.TempDir(), "TERM": "xterm"}
	if f != nil {
		env["HOLDFAST_ADDR"] = f.Addr
	}
	maps.Copy(env, c.Env)
	ctx := c.Ctx
	if ctx == nil {
		ctx = t.Context() // as in main: without a deadline, which would replace --timeout
	}
	return cli.Main(ctx, app.Streams{
		In: strings.NewReader(c.In), Out: &c.Out, Err: &c.Err, Now: Now,
		Getenv:      func(k string) string { return env[k] },
		Size:        func(io.Writer) (int, int, bool) { return 100, 30, c.Terminal },
		Interactive: func(io.Reader) bool { return c.Answers },
	}, append([]string{}, args...)) // never nil, because cobra would use the arguments of the test
}

// WantCode checks the exit code.
func (c *Command) WantCode(t *testing.T, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("got exit code %d, want %d; stderr:\n%s", got, want, c.Err.String())
	}
}

// WantIn fails the test for each text that is not in got.
func WantIn(t *testing.T, name, got string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			t.Errorf("%s: got no %q in it:\n%s", name, text, got)
		}
	}
}

// Golden compares a text with testdata/name, or writes the file if UPDATE_GOLDEN is set.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; UPDATE_GOLDEN=1 writes it):\n%s", file, diff)
	}
}

// Eventually blocks until another goroutine makes a condition true.
func Eventually(t *testing.T, name string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("wait for %s: timed out", name)
		}
	}
}
