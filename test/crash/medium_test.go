package crash

import (
	"crypto/sha256"
	"encoding/hex"
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

// drive waits until the machine boots a medium, and returns its URL.
func drive(t *testing.T, board *redfishtest.Service, after int) (u string) {
	t.Helper()
	harness.Until(t, "the machine to boot the medium", func() (bool, any) {
		media, presses := board.Effects("media_insert"), board.Effects("reset")
		if len(media) > 0 {
			u = media[len(media)-1].Detail
		}
		return len(media) > after && len(presses) > 0 && presses[len(presses)-1].Detail == "On" &&
			presses[len(presses)-1].At.After(media[len(media)-1].At), []any{media, presses}
	})
	return u
}

// TestMediumSurvivesLeaderCrashes installs a machine by virtual media, and kills the leader while
// the medium is inserted and after the installer has started. Then an installer fails: the retry
// boots another medium, and nothing of the first one remains in the drive or in the record.
func TestMediumSurvivesLeaderCrashes(t *testing.T) {
	long(t)
	t.Parallel()
	blank := "@HOLDFAST-BOOT-PARAMETERS@"
	blank += strings.Repeat("@", 1024-len(blank))
	disc := strings.Repeat("x", 5000) + blank + strings.Repeat("y", 3000)
	board := redfishtest.New(redfishtest.Config{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/disc" {
			_, _ = io.WriteString(w, disc)
			return
		}
		board.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() { board.Close(); web.Close() })
	dir := t.TempDir()
	key, err := secrets.NewKeyLine("k1")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"keys": key + "\n",
		"peer.yaml": "providers:\n  far:\n    kind: cloudbmc\n    allow_http: true\n    protocol: redfish\n    media: " +
			"{servers: [\"http://192.0.2.1:7404\"], installers: [\"http://192.0.2.9:7404\"]}\n"} {
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
			Spec: &holdfastv1.MachineSpec{Provider: "far", BmcEndpoint: web.URL, BmcCredentialsRef: "bmc",
				MacAddresses: []string{bootMAC}}}}); err != nil {
		t.Fatal(err)
	}
	images := holdfastv1.NewImageServiceClient(c.Conn(c.TheLeader()))
	for _, i := range []*holdfastv1.Image{
		{Name: "installer-iso", Disk: &holdfastv1.Image_File{Url: web.URL + "/disc", Sha256: sumOf(disc),
			SizeBytes: int64(len(disc))}},
		{Name: "installer", Kernel: &holdfastv1.Image_File{Url: web.URL + "/a", Sha256: strings.Repeat("a", 64),
			SizeBytes: 1},
			Initrd: &holdfastv1.Image_File{Url: web.URL + "/b", Sha256: strings.Repeat("b", 64),
				SizeBytes: 1}, Cmdline: "quiet"},
		{Name: "debian", Disk: &holdfastv1.Image_File{Url: web.URL + "/c", Sha256: strings.Repeat("c", 64), SizeBytes: 1}}} {
		if _, err := images.AddImage(ctx, &holdfastv1.AddImageRequest{Image: i}); err != nil {
			t.Fatal(err)
		}
	}
	c.Plan("install", &holdfastv1.Step{Name: "repave", TimeoutSeconds: 300, MaxRetries: proto.Int32(2),
		Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian"}}})

	// boot reads the medium from a peer, as the BMC does, and takes the token from it.
	boot := func(u string) {
		t.Helper()
		m.token = ""
		path, ok := strings.CutPrefix(u, "http://192.0.2.1:7404")
		found := regexp.MustCompile(
			`^x+holdfast\.url=http://192\.0\.2\.9:7404 holdfast\.token=(\S+) holdfast\.macs=` +
				bootMAC + ` quiet *y+$`).FindStringSubmatch(
			m.must(http.MethodGet, path, ""))
		if !ok || found == nil {
			t.Fatalf("medium at %s: got no command line in its reserved space", u)
		}
		m.token = found[1]
	}
	run := c.Start("m-1", "install").GetRunId()
	first := drive(t, board, 0)
	m.lose()
	boot(first)
	m.must(http.MethodPost, "/api/v1/install/report", `{"status":"started"}`)
	harness.Until(t, "the medium to be ejected",
		func() (bool, any) { n := len(board.Effects("media_eject")); return n == 1, n })
	m.lose()
	m.must(http.MethodPost, "/api/v1/install/report", `{"status":"failed","error":"two disks match"}`)
	second := drive(t, board, 1)
	if first == second {
		t.Error("got the medium of the first attempt for the retry, want another one")
	}
	if status, answer := m.call(http.MethodGet, strings.TrimPrefix(first, "http://192.0.2.1:7404"),
		""); status != http.StatusNotFound {
		t.Errorf("medium of an ended attempt: got %d with %d bytes, want 404", status, len(answer))
	}
	boot(second)
	m.must(http.MethodPost, "/api/v1/install/report", `{"status":"complete"}`)
	r := c.Ended(run)
	if r.GetPhase() != holdfastv1.Run_SUCCEEDED || len(r.GetSteps()[0].GetAttempts()) != 2 {
		t.Errorf("run: got %s, want SUCCEEDED: %v\n%s", r.GetPhase(), r.GetSteps(), c.Log(run))
	}
	in, out := board.Effects("media_insert"), board.Effects("media_eject")
	if len(in) != 2 || len(out) != 2 || out[1].At.Before(in[1].At) {
		t.Errorf("got inserts %v and ejects %v, want two media, each once", in, out)
	}
	if n := len(board.Effects("reset")); n > 5 { // the press in progress when a leader died may be repeated
		t.Errorf("got %d presses, want off and on twice: %v", n, board.Effects("reset"))
	}

	// A canceled run leaves the drive empty.
	again, err := c.Client.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: "again", MachineId: "m-1",
		PlanId: "install"})
	if err != nil {
		t.Fatal(err)
	}
	third := drive(t, board, 2)
	if _, err := c.Client.Runs().CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: again.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	if r := c.Ended(again.GetRunId()); r.GetPhase() != holdfastv1.Run_CANCELED || len(board.Effects("media_eject")) != 3 {
		t.Errorf("after cancel: got a run in %s and %d ejects, want 3", r.GetPhase(),
			len(board.Effects("media_eject")))
	}
	log := c.Log(run) + c.Log(again.GetRunId()) + r.String()
	for _, u := range []string{first, second, third} {
		secret := strings.Split(strings.TrimPrefix(u, "http://192.0.2.1:7404/"), "/")[2]
		if strings.Contains(log, secret) {
			t.Errorf("got the secret of %s in the log or the record", u)
		}
	}
	if strings.Contains(log, m.token) {
		t.Error("got a token in the log or the record")
	}
}

func sumOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
