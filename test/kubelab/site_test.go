//go:build linux

package kubelab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/lab"
)

// site is three peers, and a client of them.
type site struct {
	*localcluster.Cluster
	t      *testing.T
	dir    string
	binary string
	client *client.Client
}

func openSite(t *testing.T, dir string) *site {
	t.Helper()
	s := &site{t: t, dir: dir, binary: filepath.Join(dir, "holdfast")}
	if b := os.Getenv("HOLDFAST_TEST_BINARY"); b != "" {
		s.binary = b
	} else if err := own(t.Context(), s.binary, "./cmd/holdfast"); err != nil {
		t.Fatal(err)
	}
	key, err := secrets.NewKeyLine("k1")
	if err != nil {
		t.Fatal(err)
	}
	config, keys := filepath.Join(dir, "peer.yaml"), filepath.Join(dir, "secrets.keys")
	for file, text := range map[string]string{
		keys: key + "\n",
		config: "providers:\n  hosts:\n    kind: ssh\n    keepalive: 1s\n    dead_after: 5s\n    state_dir: " +
			filepath.Join(dir, "state") + "\nreconcile_interval_seconds: 1\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if s.Cluster, err = localcluster.Start(ctx, localcluster.Config{Binary: s.binary, Dir: filepath.Join(dir, "peers"),
		RaftMultiplier: 4,
		Args:           []string{"--config", config, "--secrets-key-file", keys}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
		for _, found := range lab.Trouble(filepath.Join(dir, "peers")) {
			t.Error(found)
		}
	})
	if s.client, err = client.Dial(client.Config{Addrs: s.Addrs(), TLS: s.TLS(), Timeout: patience}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

// cli runs the command line as an administrator.
func (s *site) cli(args ...string) string {
	s.t.Helper()
	f := s.Files()
	cmd := exec.CommandContext(s.t.Context(), s.binary, append(args, "--addr", strings.Join(s.Addrs(), ","), "--ca",
		f.CA, "--cert", f.AdminCert, "--key", f.AdminKey)...)
	var output bytes.Buffer
	cmd.Stderr = &output
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("holdfast %v: %v: %s", args, err, output.Bytes())
	}
	return string(out)
}

func (s *site) until(name string, cond func() error) {
	s.t.Helper()
	(&Plane{t: s.t, dir: s.dir}).Until(name, cond)
}

func (s *site) machine(id string) *holdfastv1.Machine {
	s.t.Helper()
	m, err := s.client.Machines().GetMachine(s.t.Context(), &holdfastv1.GetMachineRequest{MachineId: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// inCluster blocks until the condition InCustomerCluster has a status (true, false or unknown) and
// a reason.
func (s *site) inCluster(id, status, reason string) {
	s.t.Helper()
	s.until("InCustomerCluster of "+id+" is "+status+" ("+reason+")", func() error {
		for _, c := range s.machine(id).GetStatus().GetConditions() {
			if c.GetType() != "InCustomerCluster" {
				continue
			}
			is := fmt.Sprint(c.GetStatus())
			if c.GetUnknown() {
				is = "unknown"
			}
			if is != status || !strings.Contains(c.GetReason(), reason) {
				return fmt.Errorf("condition is %s (%s): %s", is, c.GetReason(), c.GetMessage())
			}
			return nil
		}
		return fmt.Errorf("no condition")
	})
}

func (s *site) start(id, plan string, params map[string]string) string {
	s.t.Helper()
	run, err := s.client.Runs().StartRun(s.t.Context(),
		&holdfastv1.StartRunRequest{RequestId: fmt.Sprint(id, plan, time.Now().UnixNano()), MachineId: id, PlanId: plan,
			Params: params})
	if err != nil {
		s.t.Fatal(err)
	}
	return run.GetRunId()
}

func (s *site) run(id string) *holdfastv1.Run {
	s.t.Helper()
	r, err := s.client.Runs().GetRun(s.t.Context(), &holdfastv1.GetRunRequest{RunId: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// waits blocks until a run waits for something that contains the words.
func (s *site) waits(id string, words ...string) {
	s.t.Helper()
	s.until(fmt.Sprint("run ", id, " waits for ", words), func() error {
		r := s.run(id)
		for _, w := range words {
			if !strings.Contains(r.GetWait().GetSentence(), w) {
				return fmt.Errorf("run is %s and waits for %q\n%s", r.GetPhase(), r.GetWait().GetSentence(), s.log(id))
			}
		}
		return nil
	})
}

// ended waits until a run has ended.
func (s *site) ended(id string, want holdfastv1.Run_Phase) *holdfastv1.Run {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience)
	defer cancel()
	r, err := s.client.WaitRun(ctx, id)
	if err != nil || r.GetPhase() != want {
		s.t.Fatalf("run %s: %v, %s, want %s:\n%s\n%s", id, err, r.GetPhase(), want, prototext.Format(r.GetError()), s.log(id))
	}
	return r
}

// log returns the log of a run.
func (s *site) log(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var b bytes.Buffer
	if err := s.client.ReadLogs(ctx, id, 0, func(l *holdfastv1.LogChunk) error {
		fmt.Fprintf(&b, "%s %s", l.GetTs().AsTime().Format("05.000"), l.GetData())
		return nil
	}); err != nil {
		fmt.Fprintf(&b, "(%v)", err)
	}
	return b.String()
}

// holds lists the files of the peers that contain a text: logs and replicated data.
func (s *site) holds(text string) []string {
	var found []string
	_ = filepath.WalkDir(filepath.Join(s.dir, "peers"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(text)) {
			found = append(found, path)
		}
		return nil
	})
	return found
}
