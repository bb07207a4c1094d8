package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
	"github.com/holdfast-metal/holdfast/test/sshd"
)

// startHost starts an sshd on loopback for the test, which is skipped if that is not possible.
func startHost(t *testing.T) *sshd.Server {
	t.Helper()
	if m := sshd.Missing(); m != "" {
		t.Skip("NOT TESTED against a real sshd: " + m)
	}
	port, err := freeport.Claim(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Release() })
	s, err := sshd.Start(t.Context(), t.TempDir(), port.Address("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestCommandOnARealHostSurvivesTwoLeaders kills the leader that started a command, and the one
// that adopted it. The command must be one process from start to end, and its output must be
// recorded in full, each line once. HOLDFAST_SLEEP=60s makes it last longer.
func TestCommandOnARealHostSurvivesTwoLeaders(t *testing.T) {
	long(t)
	lasts := 20 * time.Second
	if s := os.Getenv("HOLDFAST_SLEEP"); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	h := startHost(t)
	key, err := secrets.NewKeyLine("k1")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"keys": key + "\n",
		"peer.yaml": "providers:\n  hosts:\n    kind: ssh\n    host_keys: pinned\n    keepalive: 1s\n    dead_after: " +
			"3s\n    state_dir: " +
			filepath.Join(h.Dir, "state") + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := bench.Cluster(t, harness.Options{RaftMultiplier: 4,
		Args: []string{"--config", filepath.Join(h.Dir, "peer.yaml"), "--secrets-key-file", filepath.Join(h.Dir, "keys")}})
	if _, err := c.Client.Secrets().PutSecret(t.Context(), &holdfastv1.PutSecretRequest{Name: "ssh/host", Type: "ssh",
		Values: map[string]string{"username": h.User, "private_key": h.PrivateKey}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.Machines().RegisterMachine(t.Context(),
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m-real",
			Spec: &holdfastv1.MachineSpec{Provider: "hosts", SshEndpoint: h.Addr, SshCredentialsRef: "ssh/host",
				SshHostKeys: []string{h.HostKey}}}}); err != nil {
		t.Fatal(err)
	}
	const every = 200 * time.Millisecond
	lines, starts := int(lasts/every), filepath.Join(h.Dir, "starts")
	sleep := step("sleep", &holdfastv1.SshCommand{Script: fmt.Sprintf(
		"echo $$ >>%s\ni=0\nwhile [ $i -lt %d ]; do\n  i=$((i + 1))\n  echo \"line $i\"\n  sleep %g\ndone\necho over >&2\n",
		starts, lines, every.Seconds())})
	sleep.TimeoutSeconds = int32((lasts + 2*harness.Patience) / time.Second)
	c.Plan("sleep", sleep)
	began := time.Now()
	id := c.Start("m-real", "sleep").GetRunId()
	printed := func() int { return strings.Count(c.Log(id, "stdout"), "\n") }
	for kill := 1; kill <= 2; kill++ {
		harness.Until(t, "the command to continue", func() (bool, any) { n := printed(); return n >= kill*lines/4, n })
		leader := c.TheLeader()
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Restart(leader)
	}
	run := c.Ended(id)
	if took := time.Since(began); run.GetPhase() != holdfastv1.Run_SUCCEEDED || took < lasts {
		t.Errorf("run: got %s after %s: %v", run.GetPhase(), took, run.GetError())
	}
	attempts := run.GetSteps()[0].GetAttempts()
	if len(attempts) != 1 || len(attempts[0].GetEpochs()) < 3 || attempts[0].GetEvidenceAfter()["exit_code"] != "0" {
		t.Errorf("attempts: got %v, want one, of three leaders, that exited with 0", attempts)
	}
	if b, err := os.ReadFile(starts); err != nil || strings.Count(string(b), "\n") != 1 {
		t.Errorf("processes on the host: got %q (%v), want one", b, err)
	}
	var want strings.Builder
	for i := range lines {
		want.WriteString("line " + strconv.Itoa(i+1) + "\n")
	}
	if diff := cmp.Diff(want.String(), c.Log(id, "stdout")); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
	if got := c.Log(id, "stderr"); got != "over\n" {
		t.Errorf("stderr: got %q", got)
	}
}
