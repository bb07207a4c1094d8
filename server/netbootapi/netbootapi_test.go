package netbootapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson/apitest"
	"github.com/holdfast-metal/holdfast/server/netbootapi"
)

const (
	mac  = "52:54:00:12:34:56"
	boot = "/api/v1/boot?mac=" + mac
	work = "/api/v1/install"
)

// site is a peer with a machine m-1, and the recorded effects of its requests.
type site struct {
	*apitest.Lab
	t *testing.T
}

func routes(dir string) func(*auth.Mux, grpc.ClientConnInterface, *server.Server) {
	return routesWith(netbootapi.Config{Dir: dir, Port: "7404", Routed: everyone()})
}

func routesWith(cfg netbootapi.Config) func(*auth.Mux, grpc.ClientConnInterface, *server.Server) {
	return func(m *auth.Mux, rpc grpc.ClientConnInterface, _ *server.Server) {
		netbootapi.Register(m, rpc, cfg, slog.New(slog.DiscardHandler))
	}
}

func newSite(t *testing.T) *site {
	return newSiteWith(t, netbootapi.Config{Port: "7404", Routed: everyone()})
}

// everyone has the networks of all callers of a test.
func everyone() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }

func newSiteWith(t *testing.T, cfg netbootapi.Config) *site {
	set := providers.SetOf(map[string]providers.Provider{"fake": fake.New(fake.NewFleet(fake.Config{}))})
	s := &site{Lab: apitest.Driving(t, set, routesWith(cfg)), t: t}
	s.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec:   &holdfastv1.MachineSpec{MacAddresses: []string{mac}},
		Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_FACTORY_READY}}})
	s.Do(&internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "install", Steps: []*holdfastv1.Step{
		{Name: "pxe", TimeoutSeconds: 60, Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "PXE"}}},
		{Name: "repave", TimeoutSeconds: 600, MaxRetries: proto.Int32(1),
			Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian"}}},
		{Name: "after", TimeoutSeconds: 60, Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Script: "true"}}},
	}}})
	return s
}

func (s *site) image(name string, kernel, disk bool) {
	file := func(b string) *holdfastv1.Image_File {
		return &holdfastv1.Image_File{Url: "http://images.example/" + b, Sha256: strings.Repeat(b, 64), SizeBytes: 7}
	}
	i := &holdfastv1.Image{Name: name}
	if kernel {
		i.Cmdline = "quiet ds=nocloud;s=http://10.0.0.9/ a||b"
		i.Kernel, i.Initrd = file("a"), file("b")
	}
	if disk {
		i.Disk, i.Compression = file("c"), holdfastv1.Image_ZSTD
	}
	s.Do(&internalv1.PutImage{Image: i})
}

func (s *site) start() {
	s.Do(&internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "1", PlanId: "install", Type: "REPAVE",
		DefaultTimeoutSeconds: 600, DefaultMaxRetries: 2,
		Params: map[string]string{"authorized_keys": "ssh-ed25519 AAAA ops\n"}})
}

func (s *site) attempt(step string) {
	s.Do(&internalv1.BeginAttempt{RunId: "run-1", Step: step, Attempt: 1})
}

func (s *site) ends(step string, outcome holdfastv1.Attempt_Outcome) {
	s.Do(&internalv1.EndAttempt{RunId: "run-1", Step: step, Attempt: 1, Outcome: outcome, Error: "two disks match"})
}

// opens starts a run and its install session.
func (s *site) opens() {
	s.start()
	s.attempt("pxe")
	s.ends("pxe", holdfastv1.Attempt_SUCCEEDED)
	s.attempt("repave")
	s.Do(&internalv1.OpenInstall{RunId: "run-1", Step: "repave", Attempt: 1, Image: "debian", Disk: "by=smallest",
		CloudInit: "#cloud-config\n"})
}

func (s *site) get(path string) string {
	s.t.Helper()
	a := s.Send(apitest.Expect("", "", "GET", path, "", 0, ""))
	if a.Status != 200 || !strings.HasPrefix(a.Body, "#!ipxe\n") ||
		a.Header["Content-Type"][0] != "text/plain; charset=utf-8" || a.Header["Cache-Control"][0] != "no-store" {
		s.t.Fatalf("GET %s: %d %v\n%s", path, a.Status, a.Header, a.Body)
	}
	return a.Body
}

// token boots the machine and returns the token in its boot script.
func (s *site) token() string {
	s.t.Helper()
	script := s.get(boot)
	found := regexp.MustCompile(`holdfast\.token=(\S+)`).FindStringSubmatch(script)
	if found == nil {
		s.t.Fatalf("got no token in\n%s", script)
	}
	return found[1]
}

func (s *site) stage() string {
	i, _ := s.State().Install("m-1")
	return i.GetStage().String()
}

func is(t *testing.T, script string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(script, w) {
			t.Errorf("got no %q in\n%s", w, script)
		}
	}
}

// The boot actions of a machine before, during and after its run.
func TestBootScripts(t *testing.T) {
	s := newSite(t)
	is(t, s.get(boot), "m-1 boots its disk: no run is installing it", "\nexit")
	is(t, s.get("/api/v1/boot?mac=02:00:00:00:00:09"), "the machine is unknown", "\nexit")
	is(t, s.get("/api/v1/boot"),
		"chain --replace http://example.com/api/v1/boot?mac=${mac}&arch=${buildarch} || goto wait")
	s.start()
	is(t, s.get(boot), "m-1 waits: run run-1 is about to install it", "sleep 3",
		"chain --replace http://example.com/api/v1/boot?mac=52%3A54%3A00%3A12%3A34%3A56&arch=${buildarch} || goto again")
	s.attempt("pxe")
	s.ends("pxe", holdfastv1.Attempt_SUCCEEDED)
	is(t, s.get(boot), "waits")
	s.attempt("repave")
	s.Do(&internalv1.OpenInstall{RunId: "run-1", Step: "repave", Attempt: 1, Image: "debian"})
	is(t, s.get(boot), "there is no image named installer")
	if i, _ := s.State().Install("m-1"); !strings.Contains(i.GetNote(), "no image named installer") || i.GetBoots() != 0 {
		t.Errorf("reason why it waits: got none recorded: %v", i)
	}
	s.image("installer", true, false)
	before := s.Dump()
	a := s.Send(apitest.Expect("", "", "HEAD", boot, "", 0, ""))
	if a.Status != 200 || s.stage() != "WAITING_FOR_PXE" || s.Dump() != before {
		t.Errorf("HEAD: got %d, stage %s, want no change", a.Status, s.stage())
	}
	script := s.get(boot)
	is(t, script, "kernel http://example.com/images/installer/kernel initrd=initrd holdfast.url=http://example.com "+
		"holdfast.token=", " ip=dhcp BOOTIF=01-52-54-00-12-34-56 console=tty0 console=ttyS0 quiet "+
		"ds=nocloud;s=http://10.0.0.9/ a||b || goto again\n",
		"initrd --name initrd http://example.com/images/installer/initrd || goto again")
	if strings.Contains(script, "evil") {
		t.Errorf("got an unescaped command line of the image\n%s", script)
	}
	if s.stage() != "BOOTED_IPXE" {
		t.Errorf("got stage %s", s.stage())
	}
	s.LoseLeader(true)
	is(t, s.get(boot), "waits: the cluster is not available", "|| goto again")
	is(t, s.get("/api/v1/boot?mac=02:00:00:00:00:09"), "\nexit")
	s.LoseLeader(false)
	tok := s.token()
	if a := s.report(tok, `{"status":"complete"}`); a.Status != 200 {
		t.Fatalf("report complete: got %d %s", a.Status, a.Body)
	}
	is(t, s.get(boot), "its image is installed", "\nexit")
	s.ends("repave", holdfastv1.Attempt_SUCCEEDED)
	is(t, s.get(boot), "no run is installing it", "\nexit")
	s.attempt("after")
	s.ends("after", holdfastv1.Attempt_SUCCEEDED)
	is(t, s.get(boot), "\nexit")
	s.Do(&internalv1.SetMachinePhase{MachineId: "m-1", Phase: holdfastv1.MachineStatus_RETIRED})
	is(t, s.get(boot), "it is retired", "\nexit")
}

// TestArchitectures: a machine boots the installer of the architecture that it reports, and
// gets no image of another one.
func TestArchitectures(t *testing.T) {
	s := newSite(t)
	s.image("installer", true, false)
	s.image("debian", false, true)
	s.opens()
	is(t, s.get(boot+"&arch=arm64"), "there is no image named installer-arm64", "--arch arm64")
	if i, _ := s.State().Install("m-1"); !strings.Contains(i.GetNote(), "installer-arm64") {
		t.Errorf("note of the session: got %q", i.GetNote())
	}
	file := &holdfastv1.Image_File{Url: "http://images.example/x", Sha256: strings.Repeat("d", 64), SizeBytes: 7}
	s.Do(&internalv1.PutImage{Image: &holdfastv1.Image{Name: "installer-arm64", Arch: "arm64", Kernel: file,
		Initrd: file}})
	is(t, s.get(boot+"&arch=arm64"), "/images/installer-arm64/kernel")
	for _, pc := range []string{"", "&arch=i386", "&arch=x86_64", "&arch=riscv64"} { // BIOS iPXE reports i386
		is(t, s.get(boot+pc), "/images/installer/kernel")
	}
	s.Do(&internalv1.UpdateNode{Id: "m-1", Node: &holdfastv1.NodeRecord{Arch: "aarch64"}, Paths: []string{"arch"}})
	is(t, s.get(boot), "/images/installer-arm64/kernel")
	tok := "=Bearer " + s.token()
	if a := s.Send(apitest.Expect("", tok, "GET", work, "", 0, "")); a.Status < 400 ||
		!strings.Contains(a.Body, "is for amd64") {
		t.Errorf("work order with an amd64 image: got %d %s", a.Status, a.Body)
	}
}

// TestApprovedNode: a machine that an admin approves with a workflow is installed when it
// boots, once per approval.
func TestApprovedNode(t *testing.T) {
	s := newSite(t)
	s.Do(&internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "look",
		Steps: []*holdfastv1.Step{{Name: "look", TimeoutSeconds: 60,
			Kind: &holdfastv1.Step_Inspect{Inspect: &holdfastv1.Inspect{}}}}}})
	other := "/api/v1/boot?mac=02:00:00:00:00:02"
	s.Do(&internalv1.CreateNode{MachineId: "m-2", MacAddress: "02:00:00:00:00:02",
		Node: &holdfastv1.NodeRecord{WorkflowId: "look"}})
	workflow := func(id string) {
		t.Helper()
		s.Do(&internalv1.UpdateNode{Id: "m-2", Node: &holdfastv1.NodeRecord{WorkflowId: id}, Paths: []string{"workflow_id"}})
	}
	runs := func() (all []*holdfastv1.Run) {
		for _, r := range s.State().MachineRuns("m-2", "") {
			all = append(all, r)
		}
		return all
	}
	is(t, s.get(other), "no run is installing it", "\nexit") // not approved
	s.Do(&internalv1.TransitionNode{Id: "m-2", State: holdfastv1.Node_PENDING})
	is(t, s.get(other), "its workflow look installs nothing", "\nexit")
	workflow("install")
	is(t, s.get(other+"&preview"), "its workflow install starts now")
	if len(runs()) != 0 {
		t.Errorf("preview: got runs %v", runs())
	}
	is(t, s.get(other), "is about to install it", "|| goto again")
	is(t, s.get(other), "is about to install it", "|| goto again")
	if all := runs(); len(all) != 1 || all[0].GetPlanId() != "install" || all[0].GetType() != "REPAVE" ||
		all[0].GetPrincipal() != "netboot" {
		t.Fatalf("got runs %v, want one of the workflow", all)
	}
	run := runs()[0].GetRunId()
	s.Do(&internalv1.AbortRun{RunId: run, Phase: holdfastv1.Run_FAILED, Error: &holdfastv1.RunError{Message: "no link"}})
	is(t, s.get(other), "no run is installing it", "\nexit") // an operator must check it first
	s.Do(&internalv1.TransitionNode{Id: "m-2", State: holdfastv1.Node_PENDING, Force: true})
	is(t, s.get(other), "is about to install it", "|| goto again")
	if all := runs(); len(all) != 2 {
		t.Errorf("got %d runs after another approval, want 2", len(all))
	}
	// A workflow that cannot start leaves the machine on its disk.
	s.Do(&internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "net", Steps: []*holdfastv1.Step{
		{Name: "repave", TimeoutSeconds: 600,
			Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian"}}},
		{Name: "net", TimeoutSeconds: 60, Kind: &holdfastv1.Step_Net{Net: &holdfastv1.NetReconfig{}}}}}})
	s.Do(&internalv1.CreateNode{MachineId: "m-3", MacAddress: "02:00:00:00:00:03",
		Node: &holdfastv1.NodeRecord{WorkflowId: "net"}})
	s.Do(&internalv1.TransitionNode{Id: "m-3", State: holdfastv1.Node_PENDING})
	is(t, s.get("/api/v1/boot?mac=02:00:00:00:00:03"), "its workflow net cannot start: ", "net_config", "\nexit")
}

// A machine requests its script from the other peers if the first one is down. The port is
// that of --netboot-addr, the same on all peers.
func TestScriptsNameAllPeers(t *testing.T) {
	s := newSite(t)
	for i, addr := range []string{"10.0.0.1:7401", "example.com", "10.0.0.3:7401"} {
		s.Do(&internalv1.PutPeer{Peer: &internalv1.PeerRecord{Id: fmt.Sprintf("p%d", i), HttpAddr: addr, MaxFeatureLevel: 1}})
	}
	const rest = "/api/v1/boot?mac=52%3A54%3A00%3A12%3A34%3A56&arch=${buildarch} ||"
	const want = "sleep 3\nchain --replace http://example.com" + rest + "\nchain --replace http://10.0.0.1:7404" + rest +
		"\nchain --replace http://10.0.0.3:7404" + rest + " goto again"
	s.start()
	is(t, s.get(boot), "waits", want)
	s.attempt("pxe")
	s.ends("pxe", holdfastv1.Attempt_SUCCEEDED)
	s.attempt("repave")
	s.Do(&internalv1.OpenInstall{RunId: "run-1", Step: "repave", Attempt: 1, Image: "debian"})
	s.image("installer", true, false)
	is(t, s.get(boot), "|| goto again\n:again\nimgfree\n"+want, "|| goto again\nboot || goto again")
}

// MAC addresses have many spellings, and the parameter can be any text. The machine boots
// its disk, and no part of the request is interpreted by iPXE.
func TestBadMACs(t *testing.T) {
	s := newSite(t)
	s.image("installer", true, false)
	s.opens()
	for _, same := range []string{"52-54-00-12-34-56", "52:54:00:12:34:56", "5254.0012.3456",
		"52%3A54%3A00%3A12%3A34%3A56"} {
		if script := s.get("/api/v1/boot?mac=" + same); !strings.Contains(script, "boots installer") {
			t.Errorf("%s: %s", same, script)
		}
	}
	before := s.Dump()
	for _, bad := range []string{"x", "52:54:00:12:34", "52:54:00:12:34:56:78", "00:00:00:00:00:00", "$%7Bmac%7D",
		"%0Ashell", "a%20%7C%7C%20shell", strings.Repeat("5", 3000)} {
		script := s.get("/api/v1/boot?mac=" + bad)
		if !strings.HasSuffix(script, "\nexit") || strings.Contains(script, "\nshell") || strings.Contains(script, "||") ||
			strings.Contains(script, "${") {
			t.Errorf("%.40s: %s", bad, script)
		}
	}
	if diff := cmp.Diff(before, s.Dump()); diff != "" {
		t.Errorf("got changes:\n%s", diff)
	}
}

func (s *site) report(token, body string) apitest.Answer {
	return s.Send(apitest.Expect("", "=Bearer "+token, "POST", work+"/report", body, 0, ""))
}

// From the boot script to the end, with tokens that are unknown, valid, outdated and ended.
func TestInstall(t *testing.T) {
	s := newSite(t)
	s.image("installer", true, false)
	s.opens()
	send := func(token, method, path, body string, status int, want string) {
		t.Helper()
		a := s.Send(apitest.Expect("", token, method, path, body, 0, ""))
		if a.Status != status || !strings.Contains(a.Body, want) {
			t.Errorf("%s %s %s: got %d %s, want %d and %q", method, path, body, a.Status, a.Body, status, want)
		}
		if a.Status == 401 && len(a.Header["Www-Authenticate"]) == 0 {
			t.Errorf("%s %s: got 401 without a challenge", method, path)
		}
	}
	first := "=Bearer " + s.token()
	for _, r := range [][3]string{{"GET", work, ""}, {"POST", work + "/report", `{"status":"started"}`},
		{"POST", work + "/log?offset=0", "x"}} {
		send("", r[0], r[1], r[2], 401, "the install token is missing")
		send("=Bearer ", r[0], r[1], r[2], 401, "the install token is missing")
		send("=Basic x", r[0], r[1], r[2], 401, "the install token is missing")
		send("=Bearer hf-nobody", r[0], r[1], r[2], 401, "")
		send("admin", r[0], r[1], r[2], 401, "")
	}
	send(first, "GET", work, "", 409, `there is no image \"debian\" with a disk`)
	s.image("debian", false, true)

	a := s.Send(apitest.Expect("", first, "GET", work, "", 0, ""))
	var order map[string]any
	if err := json.Unmarshal([]byte(a.Body), &order); a.Status != 200 || err != nil {
		t.Fatalf("work order: got %d %v %s", a.Status, err, a.Body)
	}
	want := map[string]any{
		"machine_id": "m-1", "run_id": "run-1", "attempt": 1.0, "disk": "by=smallest", "wipe": false, "hostname": "m-1",
		"authorized_keys": []any{"ssh-ed25519 AAAA ops"},
		"image": map[string]any{"name": "debian", "url": "/images/debian/disk", "sha256": strings.Repeat("c", 64),
			"size_bytes": 7.0, "format": "RAW", "compression": "ZSTD"},
		"cloud_init": map[string]any{"user_data": "#cloud-config\n", "network_config": "",
			"meta_data": "instance-id: m-1-run-1\nlocal-hostname: \"m-1\"\n"},
		"report_url": work + "/report", "log_url": work + "/log", "servers": []any{"http://example.com"},
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("work order (-want +got):\n%s", diff)
	}
	if s.stage() != "BOOTED_IPXE" {
		t.Errorf("read of the order: got stage %s, want no change", s.stage())
	}

	send(first, "POST", work+"/report", `{"status":"started","inventory":{"vendor":"ACME","disks":[{"name":"vda","size_bytes":5}],"nics":"nonsense"},"later":"version"}`, 200, `"stage":"installer-started"`)
	send(first, "POST", work+"/report", `{"status":"progress","stage":"writing","progress":41.7}`, 200,
		`"stage":"writing"`)
	for _, bad := range []struct {
		body   string
		status int
	}{{"{", 400}, {"[]", 400}, {`{"status":"done"}`, 422}, {`{}`, 422}, {`{"status":"progress","progress":101}`, 422},
		{`{"status":"progress","progress":-1}`, 422}, {`{"status":"progress","progress":1e300}`, 422}, {`{"status":7}`,
			400}} {
		send(first, "POST", work+"/report", bad.body, bad.status, "detail")
	}
	if i, _ := s.State().Install("m-1"); i.GetProgress() != 41 || i.GetDetail() != "writing" {
		t.Errorf("progress: %v", i)
	}
	send(first, "POST", work+"/log?offset=0", "hello\n", 200, `{"next":6}`)
	send(first, "POST", work+"/log?offset=0", "hello\nworld\n", 200, `{"next":12}`)
	send(first, "POST", work+"/log?offset=99", "x", 409, "detail")
	for _, bad := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		send(first, "POST", work+"/log?offset="+bad, "x", 422, "want a whole number from 0 up")
	}
	s.Pass(fsm.InstallerSilence)
	second := "=Bearer " + s.token() // after a power failure
	send(first, "GET", work, "", 200, "run-1")
	s.LoseLeader(true)
	send(second, "POST", work+"/report", `{"status":"progress"}`, 503, "detail")
	s.LoseLeader(false)
	send(second, "POST", work+"/report", `{"status":"failed","error":"two disks match"}`, 200, `"stage":"failed"`)
	is(t, s.get(boot), "\n") // never an installer
	if strings.Contains(s.get(boot), "holdfast.token=") {
		t.Error("failed install: got the installer")
	}
	s.ends("repave", holdfastv1.Attempt_FAILED)
	for _, tok := range []string{first, second} {
		send(tok, "GET", work, "", 410, "detail")
		send(tok, "POST", work+"/report", `{"status":"complete"}`, 410, "detail")
		send(tok, "POST", work+"/log?offset=12", "x", 410, "detail")
	}
}

// Only the latest tokens of a session are valid.
func TestOldTokens(t *testing.T) {
	s := newSite(t)
	s.image("installer", true, false)
	s.image("debian", false, true)
	s.opens()
	var tokens []string
	for range 18 {
		tokens = append(tokens, s.token())
	}
	var got []int
	for _, tok := range tokens {
		got = append(got, s.Send(apitest.Expect("", "=Bearer "+tok, "GET", work, "", 0, "")).Status)
	}
	if diff := cmp.Diff(append([]int{410, 410}, slices.Repeat([]int{200}, 16)...), got); diff != "" {
		t.Errorf("tokens, the oldest first (-want +got):\n%s", diff)
	}
}

func TestDiscovery(t *testing.T) {
	s := &site{Lab: apitest.Discovering(t, routes("")), t: t}
	s.LoseLeader(true)
	is(t, s.get(boot), "\nexit")
	s.LoseLeader(false)
	s.image("inventory", true, false)
	script := s.get(boot)
	is(t, script, "was discovered now and awaits approval", "/images/inventory/kernel")
	if strings.Contains(script, "holdfast.token=") {
		t.Errorf("discovered machine: got a token\n%s", script)
	}
	m, ok := s.State().MachineByMAC(mac)
	if !ok || m.GetStatus().GetActiveRunId() != "" {
		t.Fatalf("got machine %v, want one without a run", m)
	}
	is(t, s.get(boot), "no run is installing it", "\nexit") // once
}

func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ipxe.efi", "secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("program "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &site{Lab: apitest.New(t, routes(dir)), t: t}
	for name, want := range map[string]int{"ipxe.efi": 200, "undionly.kpxe": 404, "secret": 404, "..%2Fsecret": 404,
		"%2e%2e": 404} {
		if a := s.Send(apitest.Expect("", "", "GET", "/netboot/"+name, "", 0, "")); a.Status != want || want == 200 &&
			a.Body != "program "+name {
			t.Errorf("%s: got %d %s, want %d", name, a.Status, a.Body, want)
		}
	}
	is(t, s.get("/netboot/autoexec.ipxe"), "isset ${ip} || dhcp",
		"chain --replace http://example.com/api/v1/boot?mac=${mac}")
}

// For any report, the response is JSON with a known status, and a refused report changes
// nothing.
func FuzzReport(f *testing.F) {
	for _, body := range []string{`{"status":"started"}`, `{"status":"progress","progress":50,"stage":"writing"}`,
		`{"status":"complete","host_keys":["ssh-ed25519 AAAA"],"inventory":{"disks":[{}]}}`,
		`{"status":"failed","error":"x"}`, `[`, `null`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := newSite(t)
		s.image("installer", true, false)
		s.opens()
		s.Fuzzed(t, apitest.Expect("", "=Bearer "+s.token(), "POST", work+"/report", body, 0, ""), 200, 400, 413, 422)
		if _, ok := s.State().Install("m-1"); !ok {
			t.Error(fmt.Errorf("session is gone"))
		}
	})
}

// TestOneInstaller: the installer that reports first owns the session. With another script
// of the session, one can neither read its order nor report.
func TestOneInstaller(t *testing.T) {
	s := newSite(t)
	s.image("installer", true, false)
	s.image("debian", false, true)
	s.opens()
	stranger, own := "=Bearer "+s.token(), "=Bearer "+s.token()
	send := func(token, method, path, body string, want int) {
		t.Helper()
		if a := s.Send(apitest.Expect("", token, method, path, body, 0, "")); a.Status != want {
			t.Errorf("%s %s %s: got %d %s, want %d", method, path, body, a.Status, a.Body, want)
		}
	}
	send(stranger, "GET", work, "", 200)
	send(own, "POST", work+"/report", `{"status":"started"}`, 200)
	before := s.Dump()
	send(stranger, "GET", work, "", 403)
	send(stranger, "POST", work+"/report", `{"status":"complete","host_keys":["ssh-ed25519 EVIL"]}`, 403)
	send(stranger, "POST", work+"/report", `{"status":"failed"}`, 403)
	send(stranger, "POST", work+"/log?offset=0", "lies", 403)
	if s.Dump() != before {
		t.Error("got a session changed by another caller")
	}
	send(own, "POST", work+"/report", `{"status":"complete","host_keys":["ssh-ed25519 GOOD"]}`, 200)
	if i, _ := s.State().Install("m-1"); len(i.GetHostKeys()) != 1 || i.GetHostKeys()[0] != "ssh-ed25519 GOOD" {
		t.Errorf("got host keys %v, want the installer's", i.GetHostKeys())
	}
}

// TestReadingAScriptChangesNothing: a preview issues no token, and while the installer
// runs, no other token is issued.
func TestReadingAScriptChangesNothing(t *testing.T) {
	s := newSite(t)
	s.image("installer", true, false)
	s.image("debian", false, true)
	s.opens()
	for range 3 {
		if script := s.get(boot + "&preview"); !strings.Contains(script, "holdfast.token=PREVIEW") {
			t.Errorf("preview: got\n%s\nwant the script that the machine would get", script)
		}
	}
	if s.stage() != "WAITING_FOR_PXE" {
		t.Errorf("stage after previews: got %s, want WAITING_FOR_PXE", s.stage())
	}
	own := "=Bearer " + s.token()
	for _, status := range []string{"started", "progress"} {
		if a := s.Send(apitest.Expect("", own, "POST", work+"/report", `{"status":"`+status+`","progress":50}`, 0,
			"")); a.Status != 200 {
			t.Fatalf("report: got %d %s", a.Status, a.Body)
		}
	}
	for range 4 {
		script := s.get(boot)
		is(t, script, "is running: a boot script is served again")
		if strings.Contains(script, "holdfast.token=") {
			t.Errorf("got a second token while the installer runs:\n%s", script)
		}
	}
	if a := s.Send(apitest.Expect("", own, "POST", work+"/report", `{"status":"complete"}`, 0, "")); a.Status != 200 {
		t.Errorf("last report of the installer: got %d %s, want 200", a.Status, a.Body)
	}
}
