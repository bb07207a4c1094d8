package golden

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

// patience bounds a test, without the build of the binary.
const patience = 3 * time.Minute

// keyLine returns the key that seals the secrets of all directories. It is public, and used only
// here.
func keyLine() string {
	return "golden:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("golden--"), 4)) + "\n"
}

// alone returns a cluster of one peer that is not started.
func alone(ctx context.Context, t *testing.T, cfg localcluster.Config) *localcluster.Cluster {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "secrets.keys")
	if err := os.WriteFile(keys, []byte(keyLine()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Dir, cfg.Peers, cfg.Insecure, cfg.Args = t.TempDir(), 1, true, append(cfg.Args, "--secrets-key-file", keys)
	c, err := localcluster.New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Peers()[0].LogTail(5000))
		}
		_ = c.Close()
	})
	return c
}

// serve starts the peer, and returns a client for it.
func serve(ctx context.Context, t *testing.T, c *localcluster.Cluster) *client.Client {
	t.Helper()
	if err := c.Peers()[0].Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	cl, err := client.Dial(client.Config{Addrs: c.Addrs(), Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// TestGolden opens the data of every release with this build, compares its responses with those of
// the release, writes, and restarts.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("testdata/*/data.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if len(archives) == 0 {
		t.Skip("NOT TESTED: there is no release yet: make golden-data VERSION=… writes the data of one")
	}
	binary := program.Holdfast(t)
	for _, archive := range archives {
		t.Run(filepath.Base(filepath.Dir(archive)), func(t *testing.T) { opens(t, binary, archive) })
	}
}

// opens opens the data of a release.
func opens(t *testing.T, binary, archive string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	c := alone(ctx, t, localcluster.Config{Binary: binary})
	unpack(t, archive, c.Peers()[0].DataDir)
	if v, err := cluster.Verify(c.Peers()[0].DataDir); err != nil || v.Damaged() != nil {
		t.Errorf("verify the data of the release: got %+v, %v, want no damage", v, err)
	}
	cl := serve(ctx, t, c)
	wanted, err := os.ReadFile(filepath.Join(filepath.Dir(archive), "seen.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal(wanted, &want); err != nil {
		t.Fatal(err)
	}
	prune(want)
	got := readAll(ctx, t, cl)
	for name := range want {
		for _, diff := range lacks(name, want[name], got[name]) {
			t.Error(diff)
		}
	}
	if _, err := cl.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "written-by-head"}}); err != nil {
		t.Fatalf("write: %v", err)
	}
	if err := c.Peers()[0].Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err := cluster.Verify(c.Peers()[0].DataDir); err != nil || v.Damaged() != nil {
		t.Errorf("verify: got %+v, %v, want no damage", v, err)
	}
	cl = serve(ctx, t, c)
	if _, err := cl.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "written-by-head"}); err != nil {
		t.Errorf("read after a restart: %v", err)
	}
	whole(ctx, t, cl)
}

// whole reads the whole state as a snapshot.
func whole(ctx context.Context, t *testing.T, cl *client.Client) {
	t.Helper()
	stream, err := cl.Operator().SaveSnapshot(ctx, &holdfastv1.SaveSnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		file.Write(part.GetData())
	}
	if _, err := fsm.ReadBackup(&file); err != nil {
		t.Error(err)
	}
}

// lacks lists the parts of an earlier answer that a new answer lacks. Additions are allowed.
func lacks(at string, want, got any) (found []string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: got %v, want %v", at, got, want)}
		}
		for k := range w {
			found = append(found, lacks(at+"."+k, w[k], g[k])...)
		}
	case []any:
		g, _ := got.([]any)
		for _, item := range w { // in any order, because a new leader may add items
			if !slices.ContainsFunc(g, func(have any) bool { return len(lacks(at, item, have)) == 0 }) {
				found = append(found, fmt.Sprintf("%s: got %v, want it to contain %v", at, got, item))
			}
		}
	default:
		if got != want {
			found = append(found, fmt.Sprintf("%s: got %v, want %v", at, got, want))
		}
	}
	return found
}

func TestLacks(t *testing.T) {
	for name, tt := range map[string]struct {
		want, got string
		n         int
	}{
		"equal":           {`{"a":[1,{"b":"c"}]}`, `{"a":[1,{"b":"c"}]}`, 0},
		"additions":       {`{"a":[1,{"b":"c"}]}`, `{"a":[0,{"b":"c","d":2},1],"e":1}`, 0},
		"different value": {`{"a":1}`, `{"a":2}`, 1},
		"missing field":   {`{"a":1,"b":2}`, `{"a":1}`, 1},
		"missing item":    {`{"a":[1,2]}`, `{"a":[1]}`, 1},
		"different type":  {`{"a":{"b":1}}`, `{"a":[1]}`, 1},
		"empty":           {`{"a":{"b":1}}`, `{}`, 1},
	} {
		var want, got any
		if err := errors.Join(json.NewDecoder(strings.NewReader(tt.want)).Decode(&want),
			json.NewDecoder(strings.NewReader(tt.got)).Decode(&got)); err != nil {
			t.Fatal(err)
		}
		if found := lacks("x", want, got); len(found) != tt.n {
			t.Errorf("%s: got %q, want %d findings", name, found, tt.n)
		}
	}
}
