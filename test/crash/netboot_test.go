package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

const bootMAC = "52:54:00:12:34:56"

// installing is a machine that the test plays, using a cluster's peers in turn.
type installing struct {
	*harness.Cluster
	t     *testing.T
	asked int
	token string
}

// call sends a request to the next peer, and to others until one answers.
func (m *installing) call(method, path, body string) (status int, answer string) {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), harness.Patience)
	defer stop()
	var last error
	for ctx.Err() == nil {
		peer := m.Peers()[m.asked%3]
		m.asked++
		if !peer.Running() {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, method, peer.URL(path), strings.NewReader(body))
		if err != nil {
			m.t.Fatal(err)
		}
		if m.token != "" {
			req.Header.Set("Authorization", "Bearer "+m.token)
		}
		resp, err := m.HTTP().Do(req)
		if err != nil {
			last = err
			continue
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil && resp.StatusCode < 500 {
			return resp.StatusCode, string(b)
		}
		last = errors.Join(err, fmt.Errorf("%s: %s", resp.Status, b))
	}
	m.t.Fatalf("%s %s: no peer answered: %v", method, path, last)
	return 0, ""
}

func (m *installing) boot() string {
	_, script := m.call(http.MethodGet, "/api/v1/boot?mac="+bootMAC, "")
	if !strings.HasPrefix(script, "#!ipxe\n") {
		m.t.Fatalf("got no boot script: %s", script)
	}
	return script
}

// installer boots until the machine gets the installer, and stores its token.
func (m *installing) installer() {
	harness.Until(m.t, "the machine to get the installer", func() (bool, any) {
		script := m.boot()
		found := regexp.MustCompile(`holdfast\.token=(\S+)`).FindStringSubmatch(script)
		if found == nil {
			return false, script
		}
		m.token = found[1]
		return true, nil
	})
}

func (m *installing) must(method, path, body string) string {
	m.t.Helper()
	status, answer := m.call(method, path, body)
	if status != http.StatusOK {
		m.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// lose kills and restarts the leader, so that another one leads the next stage.
func (m *installing) lose() {
	p := m.TheLeader()
	if err := p.Kill(); err != nil {
		m.t.Fatal(err)
	}
	m.Restart(p)
}

// TestInstallSurvivesLeaderCrashes installs a machine behind a BMC and kills the leader at each
// stage; each button is pressed once. Then an installer fails, and the retry boots the machine
// again.
func TestInstallSurvivesLeaderCrashes(t *testing.T) {
	long(t)
	t.Parallel()
	board := redfishtest.New(redfishtest.Config{})
	web := httptest.NewServer(board.Handler())
	t.Cleanup(func() { board.Close(); web.Close() })
	dir := t.TempDir()
	key, err := secrets.NewKeyLine("k1")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"keys": key + "\n",
		"peer.yaml": "providers:\n  dc:\n    kind: datacenter\n    bmc: {allow_http: true, protocol: redfish}\n    " +
			"ssh: {host_keys: pinned}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := bench.Cluster(t, harness.Options{RaftMultiplier: 2, Args: []string{"--config", filepath.Join(dir, "peer.yaml"),
		"--secrets-key-file", filepath.Join(dir, "keys")}})
	m := &installing{Cluster: c, t: t}
	ctx := t.Context()
	if _, err := c.Client.Secrets().PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: "bmc", Type: "bmc",
		Values: map[string]string{"username": "admin", "password": "secret"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m-1",
			Spec: &holdfastv1.MachineSpec{Provider: "dc", BmcEndpoint: web.URL, BmcCredentialsRef: "bmc",
				MacAddresses: []string{bootMAC}}}}); err != nil {
		t.Fatal(err)
	}
	file := func(b string) *holdfastv1.Image_File {
		return &holdfastv1.Image_File{Url: web.URL + "/" + b, Sha256: strings.Repeat(b, 64), SizeBytes: 1}
	}
	images := holdfastv1.NewImageServiceClient(c.Conn(c.TheLeader()))
	for _, i := range []*holdfastv1.Image{{Name: "installer", Kernel: file("a"), Initrd: file("b"),
		Cmdline: "quiet console=ttyS0"}, {Name: "debian", Disk: file("c")}} {
		if _, err := images.AddImage(ctx, &holdfastv1.AddImageRequest{Image: i}); err != nil {
			t.Fatal(err)
		}
	}
	step := func(name string, s *holdfastv1.Step) *holdfastv1.Step {
		s.Name, s.TimeoutSeconds, s.MaxRetries = name, 300, proto.Int32(2)
		return s
	}
	c.Plan("install", step("set-netboot",
		&holdfastv1.Step{Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "PXE"}}}),
		step("reboot", &holdfastv1.Step{Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "bmc", Force: true}}}),
		step("repave", &holdfastv1.Step{Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian",
			Disk: "by=smallest", CloudInit: "#cloud-config\n"}}}))

	if script := m.boot(); !strings.Contains(script, "\nexit\n") {
		t.Errorf("machine without an install: got a script that does not boot its disk:\n%s", script)
	}
	run := c.Start("m-1", "install").GetRunId()
	m.installer()
	if script := m.boot(); !strings.Contains(script, " quiet console=ttyS0") {
		t.Errorf("script without the command line of the image:\n%s", script)
	}
	m.lose()
	if order := m.must(http.MethodGet, "/api/v1/install", ""); !strings.Contains(order, `"disk":"by=smallest"`) ||
		!strings.Contains(order, strings.Repeat("c", 64)) || strings.Count(order, "https://") < 3 {
		t.Errorf("got work order %s", order)
	}
	m.must(http.MethodPost, "/api/v1/install/report", `{"status":"started"}`)
	m.lose()
	m.must(http.MethodPost, "/api/v1/install/report", `{"status":"progress","stage":"writing","progress":40}`)
	m.must(http.MethodPost, "/api/v1/install/log?offset=0", "hello\n")
	m.lose()
	m.must(http.MethodPost, "/api/v1/install/log?offset=0", "hello\nworld\n")
	m.must(http.MethodPost, "/api/v1/install/report",
		`{"status":"complete","progress":100,"host_keys":["ssh-ed25519 AAAA"]}`)
	if r := c.Ended(run); r.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("run: got %s, want SUCCEEDED: %v\n%s", r.GetPhase(), r.GetError(), c.Log(run))
	}
	if got := c.Log(run, "installer"); got != "hello\nworld\n" {
		t.Errorf("log of the installer: got %q", got)
	}
	if status, _ := m.call(http.MethodPost, "/api/v1/install/report", `{"status":"started"}`); status != http.StatusGone {
		t.Errorf("report after the end: got %d, want 410", status)
	}
	if script := m.boot(); !strings.Contains(script, "\nexit\n") {
		t.Errorf("installed machine: got a script that does not boot its disk:\n%s", script)
	}
	resets := len(board.Effects("reset"))
	if resets > 2 {
		t.Errorf("got %d presses, want at most off and on: %v", resets, board.Effects("reset"))
	}

	old := m.token
	again, err := c.Client.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "again", MachineId: "m-1",
		PlanId: "install"})
	if err != nil {
		t.Fatal(err)
	}
	m.token = ""
	m.installer()
	m.must(http.MethodPost, "/api/v1/install/report", `{"status":"failed","error":"two disks match"}`)
	m.lose()
	failed := m.token
	harness.Until(t, "the power cycle of the retry", func() (bool, any) {
		presses := len(board.Effects("reset")) - resets
		return presses >= 4, presses
	})
	m.installer()
	for _, tok := range []string{old, failed} {
		fresh := m.token
		m.token = tok
		if status, answer := m.call(http.MethodGet, "/api/v1/install", ""); status != http.StatusGone {
			t.Errorf("token of an ended attempt: got %d %s, want 410", status, answer)
		}
		m.token = fresh
	}
	m.must(http.MethodPost, "/api/v1/install/report", `{"status":"complete"}`)
	if r := c.Ended(again.GetRunId()); r.GetPhase() != holdfastv1.Run_SUCCEEDED ||
		len(r.GetSteps()[2].GetAttempts()) != 2 || !strings.Contains(r.GetSteps()[2].GetAttempts()[0].GetError(),
		"two disks match") {
		t.Errorf("run: got %s: %v\n%s", r.GetPhase(), r.GetSteps(), c.Log(again.GetRunId()))
	}
	// The press in progress when the leader died may be repeated.
	if presses := len(board.Effects("reset")) - resets; presses > 5 {
		t.Errorf("got %d more presses, want off and on twice: %v", presses, board.Effects("reset"))
	}
}
