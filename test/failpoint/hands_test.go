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
	handsMachine = "m-hands"
	handsServer  = "http://192.0.2.1:7404" // as the BMC is told; nobody goes there
)

// handsConfig has sessions end a second after they were used, so that each run makes one.
const handsConfig = `providers:
  far:
    kind: cloudbmc
    allow_http: true
    protocol: redfish
    idle: 1s
    media: {servers: ["` + handsServer + `"]}
`

// hands is a cluster with a BMC that speaks Redfish.
type hands struct {
	*lab.Lab
	s     Switches
	board *redfishtest.Service
	run   int
}

// crashHands kills the leader at one point after the other between a BMC and the state: where a
// session was made and is not noted, and where an install is complete and its medium still in the
// drive. What leaders have left there, the next one takes away; a session of somebody else stays.
func crashHands(t *testing.T, binary string, points []string) {
	disc := strings.Repeat("x", 3000) + "@HOLDFAST-BOOT-PARAMETERS@" + strings.Repeat("@", 1024-26) +
		strings.Repeat("y", 3000)
	h := &hands{board: redfishtest.New(redfishtest.Config{})}
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
	if err := os.WriteFile(config, []byte(handsConfig), 0o600); err != nil {
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

// prepare puts a machine, its account and what it is installed with on record.
func (h *hands) prepare(ctx context.Context, url, disc string) error {
	if _, err := h.Client.Secrets().PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: "bmc", Type: "bmc",
		Values: map[string]string{"username": "admin", "password": "secret"}}); err != nil {
		return err
	}
	if _, err := h.Client.Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: handsMachine,
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

// crash kills the leader at a point, and looks at what is left on the BMC.
func (h *hands) crash(t *testing.T, point string) {
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
		t.Fatalf("died = %v: %v, %v", fired, err, derr)
	}
	if err := h.Ended(ctx, run, holdfastv1.Run_SUCCEEDED); err != nil {
		t.Error(err)
	}
	if err := h.Steady(ctx); err != nil {
		t.Fatal(err)
	}
	if n := h.Deaths() - before; n != 1 {
		t.Errorf("%d peers have died, want one", n)
	}
	if err := lab.Until(ctx, "the operator's session to be the only one on the BMC",
		func() bool { return h.board.Sessions() == 1 }); err != nil {
		t.Errorf("%v; there are %d", err, h.board.Sessions())
	}
}

// start starts a run of a plan that has not been started before.
func (h *hands) start(ctx context.Context, t *testing.T, plan string) string {
	t.Helper()
	h.run++
	run, err := h.Client.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{RequestId: fmt.Sprint("hands-", h.run),
		MachineId: handsMachine, PlanId: plan})
	if err != nil {
		t.Fatal(err)
	}
	return run.GetRunId()
}

// logIn looks at the machine until somebody dies on the way, and gives the run that did. It begins
// when no session of ours is open, so that each run has to log in.
func (h *hands) logIn(ctx context.Context, t *testing.T, point string, before int) (run string) {
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
		// A look may have logged in just before: then there is a session, and no need of another
		// one until it has ended.
		if err := lab.Until(ctx, "our session to end", func() bool {
			return h.s.Fired(point) ||
				h.board.Sessions() == 1
		}); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// install installs the machine: this test plays its part, and says that it is complete while the
// medium is in the drive.
func (h *hands) install(ctx context.Context, t *testing.T, point string) string {
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
		strings.TrimPrefix(medium, handsServer), "", ""))
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
		t.Errorf("inserted %v, ejected %v, pressed %v; want in and out once, and off and on", in, out, pressed)
	}
	return run
}

// call asks one peer after the other until one answers, as machines do.
func (h *hands) call(ctx context.Context, t *testing.T, method, path, token, body string) (answer string) {
	t.Helper()
	asked := 0
	if err := lab.Until(ctx, method+" "+path+" to be answered", func() bool {
		asked++
		req, err := http.NewRequestWithContext(ctx, method, h.Peers()[asked%3].URL(path), strings.NewReader(body))
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
		t.Fatalf("%v; last: %s", err, answer)
	}
	return answer
}
