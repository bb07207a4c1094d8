package failpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/test/lab"
)

const (
	bmcMachine = "m-bmc"
	bmcServer  = "http://192.0.2.1:7404" // the address that the BMC gets; nothing connects to it
)

// bmcConfig ends idle sessions after a second, so that each run creates one.
const bmcConfig = `providers:
  far:
    kind: cloudbmc
    allow_http: true
    protocol: redfish
    idle: 1s
    media: {servers: ["` + bmcServer + `"]}
`

// bmcCluster is a cluster with a BMC that speaks Redfish.
type bmcCluster struct {
	*lab.Lab
	s     Switches
	board *redfishtest.Service
	run   int
}

// crashBMC kills the leader at each point between a BMC and the state: after a session was
// created and before it is recorded, and after an install is complete and before its medium is
// ejected. The next leader must clean up after it, without touching the sessions of others.
func crashBMC(t *testing.T, binary string, points []string) {
	disc := strings.Repeat("x", 3000) + "@HOLDFAST-BOOT-PARAMETERS@" + strings.Repeat("@", 1024-26) +
		strings.Repeat("y", 3000)
	h := &bmcCluster{board: redfishtest.New(redfishtest.Config{})}
	h.board.OpenSession("operator")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/disc" {
			_, _ = io.WriteString(w, disc)
			return
		}
		h.board.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() { h.board.Close(); web.Close() })
	config := filepath.Join(t.TempDir(), "peer.yaml")
	if err := os.WriteFile(config, []byte(bmcConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Lab, h.s = open(t, binary, []string{"--config", config}, points...)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := h.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := h.prepare(ctx, web.URL, disc); err != nil {
		t.Fatal(err)
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) { h.crash(t, point) })
	}
}

// prepare creates a machine, its credentials, and its images and plan.
func (h *bmcCluster) prepare(ctx context.Context, url, disc string) error {
	if _, err := h.Client.Secrets().PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: "bmc", Type: "bmc",
		Values: map[string]string{"username": "admin", "password": "secret"}}); err != nil {
		return err
	}
	if _, err := h.Client.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: bmcMachine,
			Spec: &holdfastv1.MachineSpec{Provider: "far", BmcEndpoint: url, BmcCredentialsRef: "bmc",
				MacAddresses: []string{"52:54:00:12:34:56"}}}}); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(disc))
	file := func(c string) *holdfastv1.Image_File {
		return &holdfastv1.Image_File{Url: url + "/" + c, Sha256: strings.Repeat(c, 64), SizeBytes: 1}
	}
	for _, i := range []*holdfastv1.Image{
		{Name: "installer-iso", Disk: &holdfastv1.Image_File{Url: url + "/disc", Sha256: hex.EncodeToString(sum[:]),
			SizeBytes: int64(len(disc))}},
		{Name: "installer", Kernel: file("a"), Initrd: file("b"), Cmdline: "quiet"}, {Name: "debian", Disk: file("c")}} {
		if _, err := h.Client.Images().AddImage(ctx, &holdfastv1.AddImageRequest{Image: i}); err != nil {
			return err
		}
	}
	return h.Plan(ctx, "fp-install", lab.Step("repave", &holdfastv1.RepaveImage{Image: "debian"}))
}

// crash kills the leader at a point, and checks what is left on the BMC.
func (h *bmcCluster) crash(t *testing.T, point string) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	before := h.Deaths()
	var run string
	if strings.HasPrefix(point, "medium-") {
		run = h.install(ctx, t, point)
	} else {
		run = h.logIn(ctx, t, point, before)
	}
	err := lab.Until(ctx, "a peer to die at "+point, func() bool { return h.s.Fired(point) && h.Deaths() > before })
	if fired, derr := h.s.Disarm(point); err != nil || derr != nil || !fired {
		t.Fatalf("die at %s: got %v, %v, %v", point, fired, err, derr)
	}
	if err := h.Ended(ctx, run, holdfastv1.Run_SUCCEEDED); err != nil {
		t.Error(err)
	}
	if err := h.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if n := h.Deaths() - before; n != 1 {
		t.Errorf("got %d dead peers, want 1", n)
	}
	if err := lab.Until(ctx, "the operator's session to be the only one on the BMC",
		func() bool { return h.board.Sessions() == 1 }); err != nil {
		t.Errorf("%v; got %d sessions", err, h.board.Sessions())
	}
}

// start starts a run, each with a new request id.
func (h *bmcCluster) start(ctx context.Context, t *testing.T, plan string) string {
	t.Helper()
	h.run++
	run, err := h.Client.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: fmt.Sprint("bmc-", h.run),
		MachineId: bmcMachine, PlanId: plan})
	if err != nil {
		t.Fatal(err)
	}
	return run.GetRunId()
}

// logIn inspects the machine until a peer dies meanwhile, and returns the run. It waits until our
// sessions have ended, so that each run must log in.
func (h *bmcCluster) logIn(ctx context.Context, t *testing.T, point string, before int) (run string) {
	t.Helper()
	if err := lab.Until(ctx, "our session to end", func() bool { return h.board.Sessions() == 1 }); err != nil {
		t.Fatal(err)
	}
	if err := h.s.Arm(point); err != nil {
		t.Fatal(err)
	}
	for h.Deaths() == before {
		if run = h.start(ctx, t, "plan/inspect"); h.s.Fired(point) {
			return run
		}
		if err := h.Ended(ctx, run, holdfastv1.Run_SUCCEEDED); err != nil {
			t.Fatal(err)
		}
		// A poll may have logged in just before the run. Then no login follows until its session
		// has ended.
		if err := lab.Until(ctx, "our session to end", func() bool {
			return h.s.Fired(point) ||
				h.board.Sessions() == 1
		}); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// install installs the machine. The test acts as the installer, and reports that it is complete
// while the medium is inserted.
func (h *bmcCluster) install(ctx context.Context, t *testing.T, point string) string {
	t.Helper()
	ins, outs, presses := len(h.board.Effects("media_insert")), len(h.board.Effects("media_eject")),
		len(h.board.Effects("reset"))
	run := h.start(ctx, t, "fp-install")
	var medium string
	if err := lab.Until(ctx, "the machine to boot the medium", func() bool {
		in, pressed := h.board.Effects("media_insert"), h.board.Effects("reset")
		if len(in) == ins || len(pressed) == presses {
			return false
		}
		medium = in[len(in)-1].Detail
		last := pressed[len(pressed)-1]
		return last.Detail == "On" && last.At.After(in[len(in)-1].At)
	}); err != nil {
		t.Fatal(err)
	}
	token := regexp.MustCompile(`holdfast\.token=(\S+)`).FindStringSubmatch(h.call(ctx, t, http.MethodGet,
		strings.TrimPrefix(medium, bmcServer), "", ""))
	if token == nil {
		t.Fatal("the medium has no token")
	}
	if err := h.s.Arm(point); err != nil {
		t.Fatal(err)
	}
	h.call(ctx, t, http.MethodPost, "/api/v1/install/report", token[1], `{"status":"complete"}`)
	if err := h.Ended(ctx, run, holdfastv1.Run_SUCCEEDED); err != nil {
		t.Fatal(err)
	}
	in, out, pressed := h.board.Effects("media_insert")[ins:], h.board.Effects("media_eject")[outs:],
		h.board.Effects("reset")[presses:]
	if len(in) != 1 || len(out) != 1 || out[0].At.Before(in[0].At) || len(pressed) != 2 {
		t.Errorf("effects: got inserts %v, ejects %v, presses %v, want one insert, one eject, off and on", in, out, pressed)
	}
	return run
}

// call sends a request to one peer after the other until one answers, as machines do.
func (h *bmcCluster) call(ctx context.Context, t *testing.T, method, path, token, body string) (answer string) {
	t.Helper()
	tries := 0
	if err := lab.Until(ctx, method+" "+path+" to be answered", func() bool {
		tries++
		req, err := http.NewRequestWithContext(ctx, method, h.Peers()[tries%3].URL(path), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := h.HTTP().Do(req)
		if err != nil {
			return false
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		answer = string(b)
		return err == nil && resp.StatusCode == http.StatusOK
	}); err != nil {
		t.Fatalf("%v; last answer: %s", err, answer)
	}
	return answer
}
