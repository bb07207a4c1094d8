package machineapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/inproc"
)

// behind is an AgentService that records requests and lists three machines, one per page.
type behind struct {
	holdfastv1.UnimplementedAgentServiceServer
	asked []proto.Message
}

func (b *behind) RegisterAgent(_ context.Context, r *holdfastv1.RegisterAgentRequest) (*holdfastv1.Machine, error) {
	b.asked = append(b.asked, r)
	return &holdfastv1.Machine{MachineId: r.GetMachineId(), Spec: &holdfastv1.MachineSpec{Pool: r.GetPoolName()}}, nil
}

func (b *behind) ListAgentMachines(
	_ context.Context, r *holdfastv1.ListAgentMachinesRequest,
) (*holdfastv1.ListAgentMachinesResponse, error) {
	b.asked = append(b.asked, r)
	next := map[string]string{"": "2", "2": "3", "3": ""}[r.GetPageToken()]
	return &holdfastv1.ListAgentMachinesResponse{Machines: []*holdfastv1.Machine{{MachineId: "m-" + r.GetPageToken()}},
		NextPageToken: next}, nil
}

func ask(t *testing.T, b *behind, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	rpc := inproc.New(nil, nil)
	holdfastv1.RegisterAgentServiceServer(grpc.ServiceRegistrar(rpc), b)
	mux := auth.Open().NewMux()
	Register(mux, rpc, nil, slog.New(slog.DiscardHandler))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body)))
	return w
}

// TestHardwareOfARegistration: additional members of our agent are accepted, and invalid
// ones do not fail the registration.
func TestHardwareOfARegistration(t *testing.T) {
	const document = `"token":"","machine_id":"1165a9b6","hostname":"w","pool_name":"gpu","cpu":"8000m","memory":"16Gi","gpu_count":"1","private_ip":"10.0.0.1"`
	for _, tt := range []struct {
		name, more string
		hardware   *holdfastv1.NodeRecord
		mac        string
	}{
		{"the document alone", ``, nil, ""},
		{"all of it", `,"vendor":"ACME","model":"X1","serial_number":"S-1","system_uuid":"4c4c","arch":"x86_64","boot_mode":"uefi","mac_address":"AA-BB-CC-00-00-01"`,
			&holdfastv1.NodeRecord{Vendor: "ACME", Model: "X1", SerialNumber: "S-1", SystemUuid: "4c4c", Arch: "x86_64",
				BootMode: "uefi"}, "aa:bb:cc:00:00:01"},
		{"a number, as some firmware has it", `,"serial_number":4711`, &holdfastv1.NodeRecord{SerialNumber: "4711"}, ""},
		{"not a text", `,"vendor":{"name":"x"},"model":[1],"arch":true,"boot_mode":null`, nil, ""},
		{"too long", `,"vendor":"` + strings.Repeat("x", 256) + `","model":"X1"`, &holdfastv1.NodeRecord{Model: "X1"}, ""},
		{"two lines", `,"vendor":"a\nb","model":"X1\u0000"`, nil, ""},
		{"no MAC address", `,"mac_address":"eth0"`, nil, ""},
		{"firmware without an address", `,"mac_address":"00:00:00:00:00:00"`, nil, ""},
		{"a broadcast address", `,"mac_address":"ff:ff:ff:ff:ff:ff"`, nil, ""},
		{"an InfiniBand address", `,"mac_address":"00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01"`, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &behind{}
			if w := ask(t, b, "POST", "/api/v1/machine/register", "{"+document+tt.more+"}"); w.Code != http.StatusOK {
				t.Fatalf("got %d, %s", w.Code, w.Body)
			}
			want := []proto.Message{&holdfastv1.RegisterAgentRequest{MachineId: "1165a9b6", Hostname: "w",
				ProviderName: "generic", PoolName: "gpu", CpuMillicores: 8000, MemoryMib: 16384,
				GpuCount: 1, PrivateIp: "10.0.0.1", Hardware: tt.hardware, MacAddress: tt.mac}}
			if diff := cmp.Diff(want, b.asked, protocmp.Transform()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestListReadsAllPages checks that the HTTP API, which has no paging, returns all pages of the
// service.
func TestListReadsAllPages(t *testing.T) {
	b := &behind{}
	w := ask(t, b, "GET", "/api/v1/machine/list?pool_name=gpu", "")
	for _, id := range []string{"m-", "m-2", "m-3"} {
		if !strings.Contains(w.Body.String(), fmt.Sprintf(`"machine_id":%q`, id)) {
			t.Errorf("got no %s in %s", id, w.Body)
		}
	}
	if w.Code != http.StatusOK || len(b.asked) != 3 ||
		b.asked[2].(*holdfastv1.ListAgentMachinesRequest).GetPoolName() != "gpu" {
		t.Errorf("got %d after %v", w.Code, b.asked)
	}
}
