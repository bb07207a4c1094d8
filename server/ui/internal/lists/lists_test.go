package lists

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
	"github.com/holdfast-metal/holdfast/server/ui/internal/health"
)

// answers are the responses of services by the name of the method.
type answers map[string]proto.Message

func (a answers) Invoke(_ context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	proto.Merge(reply.(proto.Message), a[path.Base(method)])
	return nil
}

func (answers) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("no streams")
}

func at(minute int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 29, 15, minute, 0, 0, time.UTC))
}

// text returns the content of a cell: links as [text](path), labels as text/class.
func text(c display.Cell) string {
	var all []string
	for _, p := range c.Parts {
		switch {
		case p.At != nil:
			all = append(all, p.At.AsTime().Format("15:04"))
		case p.Since != nil:
			all = append(all, "for "+p.Since.AsTime().Format("15:04"))
		case p.Link != "":
			all = append(all, "["+p.Text+"]("+p.Link+")")
		case p.State != "":
			all = append(all, p.Text+"/"+strings.TrimPrefix(p.State, "state "))
		default:
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, " ")
}

// TestColumns checks each column of each list.
func TestColumns(t *testing.T) {
	conn := answers{
		"ListTokens": &holdfastv1.ListTokensResponse{Tokens: []*holdfastv1.Token{
			{TokenId: "t-1", Name: "alice", Role: holdfastv1.Role_OPERATOR, Pools: []string{"gpu", "cpu"}, State: "revoked",
				CreatedAt: at(1), CreatedBy: "user:root", ExpiresAt: at(2), RevokedAt: at(3), Comment: "left"},
			{TokenId: "t-2", Role: holdfastv1.Role_AGENT, MachineId: "m-1", State: "active"},
		}},
		"ListSessions": &holdfastv1.ListSessionsResponse{Sessions: []*holdfastv1.Session{
			{SessionId: "ui-1", Principal: "user:alice", Kind: "dashboard", State: "active", Method: "oidc", Source: "10.0.0.1",
				Peer: "n1", StartedAt: at(1), ExpiresAt: at(2)},
			{SessionId: "oidc-2", Kind: "api", State: "ended", EndedAt: at(3), EndedBy: "user:root"},
		}},
		"ListWaves": &holdfastv1.ListWavesResponse{Waves: []*holdfastv1.Wave{
			{WaveId: "w-1", Type: "REPAVE", PlanId: "plan/repave-join", Phase: holdfastv1.Wave_STOPPED, Succeeded: 1, Failed: 2,
				Canceled: 3, Refused: 4, Active: 5, NotStarted: 1006, Total: 1021, Principal: "user:eve", CreatedAt: at(1),
				FinishedAt: at(2)},
			{WaveId: "w-2", PlanId: "plan/inspect", Phase: holdfastv1.Wave_RUNNING},
		}},
		"ListSecrets": &holdfastv1.ListSecretsResponse{Secrets: []*holdfastv1.Secret{{
			Name: "bmc/r7", Type: "bmc", Keys: []string{"username", "password"}, KeyId: "k1", Version: 3, UpdatedAt: at(4),
			UpdatedBy: "user:root", UsedBy: []string{"m-1", "m-2"}, Uses: 1002,
		}}},
		"ListWebhooks": &holdfastv1.ListWebhooksResponse{Webhooks: []*holdfastv1.Webhook{
			{Name: "chat", Url: "https://hooks.example/in", Filter: `type = "run.failed"`, SecretRef: "hook", CreatedAt: at(1),
				CreatedBy: "user:root", Cursor: 41, Failures: 3, LastError: "HTTP 503", TriedAt: at(5), Missed: 2,
				Behind: 1234, Waiting: 1000, WaitingSince: at(5)},
			{Name: "off", Disabled: true, Failures: 1},
			{Name: "well", Url: "http://h.example", TriedAt: at(6)},
			{Name: "late", Behind: 20, Waiting: 12, WaitingSince: at(7)},
			{Name: "soon", Behind: 20, Waiting: 12, WaitingSince: timestamppb.Now()},
		}},
		"ListImages": &holdfastv1.ListImagesResponse{Images: []*holdfastv1.Image{{
			Name: "debian-13", Description: "base", Arch: "amd64", Format: holdfastv1.Image_QCOW2,
			Compression: holdfastv1.Image_ZSTD, Disk: &holdfastv1.Image_File{SizeBytes: 3 << 30},
			Kernel: &holdfastv1.Image_File{Url: "https://i.example/vmlinuz"}, Cmdline: "quiet", UpdatedAt: at(7),
			CreatedBy: "user:root",
		}}},
		"ListInstalls": &holdfastv1.ListInstallsResponse{Installs: []*holdfastv1.Install{
			{MachineId: "m-1", RunId: "run-1", Step: "install", Attempt: 2, Image: "debian-13", Stage: holdfastv1.Install_FAILED,
				Progress: 40, Error: "no disk", IpAddress: "10.0.0.9", Boots: 3, StageSince: at(8), LastSeenAt: at(9),
				ClosedAt: at(10)},
			{MachineId: "m-2", Stage: holdfastv1.Install_WRITING, Disk: "largest"},
		}},
		"ListServices": &holdfastv1.ListServicesResponse{Services: []*holdfastv1.Service{
			{Active: true, LastSeen: at(11), Target: &holdfastv1.ServiceTarget{Id: "s-1", ServiceName: "tool",
				ServiceType: "tool-invoker", Host: "::1", Port: 90}, States: []*holdfastv1.ServiceState{{Healthy: true},
				{Reason: "disk full", Timestamp: at(12)}}},
			{Deregistered: true, Target: &holdfastv1.ServiceTarget{Id: "s-2"}},
		}},
		"ListAuditEvents": &holdfastv1.ListAuditEventsResponse{Events: []*holdfastv1.AuditEvent{
			{Sequence: 1204, At: at(13), Principal: "user:eve", Method: "StartRun", Resource: "m-1",
				Outcome: "PERMISSION_DENIED", Reason: "ROLE", Count: 4, Source: "10.0.0.1", Peer: "n1"},
			{Sequence: 5, Outcome: "OK", Count: 1},
		}},
	}
	want := map[string][]string{
		"tokens": {
			"Token=t-1 | Name=alice | Role=operator | Scope=gpu, cpu | State=revoked/s-failed 15:03 | Created=15:01 | " +
				"By=user:root | Expires=15:02 | Comment=left",
			"Token=t-2 | Role=agent | Scope=[m-1](/ui/machines/m-1) | State=active/s-active | Expires=never",
		},
		"sessions": {
			"Session=ui-1 | User=user:alice | Kind=dashboard | State=active/s-active | Signed in with=oidc | From=10.0.0.1 | " +
				"Peer=n1 | Started=15:01 | Expires=15:02 | Action=[End](/ui/sessions/ui-1/end)",
			"Session=oidc-2 | Kind=api | State=ended/s- 15:03 | Ended by=user:root",
		},
		"waves": {
			"Wave=[w-1](/ui/waves/w-1) | Type=[REPAVE](/ui/plans/plan/repave-join) | Phase=stopped/s-stopped | Succeeded=1 | " +
				"Failed=9 | Active=5 | Waiting=0 | Not started=1 006 | Machines=1 021 | " +
				"By=user:eve | Created=15:01 | Ended=15:02 | Why=9 machines have failed, more than the limit of 0. " +
				"1 006 machines were not started.",
			"Wave=[w-2](/ui/waves/w-2) | Type=[plan/inspect](/ui/plans/plan/inspect) | Phase=running/s-running | " +
				"Succeeded=0 | Failed=0 | Active=0 | Waiting=0 | Not started=0 | Machines=0",
		},
		"secrets": {"Secret=bmc/r7 | Type=bmc | Values=username, password | Pools=all | Version=3 | Key=k1 | " +
			"Updated=15:04 | " +
			"By=user:root | Used by=[m-1](/ui/machines/m-1) [m-2](/ui/machines/m-2) and 1 000 more"},
		"webhooks": {
			"Webhook=chat | State=failing/s-failed 3 tries, the last 15:05 | URL=https://hooks.example/in | " +
				`Filter=type = "run.failed" | Position=event 41 | Waiting=1 000 | Missed=2 | Signed with=hook | Created=15:01 | ` +
				"By=user:root | Last error=HTTP 503",
			"Webhook=off | State=disabled/s- | Filter=all events | Position=none | Waiting=0 | Missed=0 | " +
				"Signed with=not signed",
			"Webhook=well | State=ok/s-active recovered 15:06 | URL=http://h.example not encrypted | Filter=all events | " +
				"Position=none | Waiting=0 | Missed=0 | " +
				"Signed with=not signed",
			"Webhook=late | State=12 waiting/s-maintenance for 15:07 | Filter=all events | Position=none | Waiting=12 | " +
				"Missed=0 | Signed with=not signed",
			"Webhook=soon | State=ok/s-active | Filter=all events | Position=none | Waiting=12 | Missed=0 | " +
				"Signed with=not signed",
		},
		"images": {"Image=debian-13 | Description=base | Arch=amd64 | Disk=qcow2+zstd | Files=disk 3 GiB, kernel | " +
			"Source=disk uploaded, https://i.example/vmlinuz | Updated=15:07 | By=user:root | Kernel options=quiet"},
		"installs": {
			"Machine=[m-1](/ui/machines/m-1) | Stage=failed/s-failed ended 15:10 | Done=40 % | Image=debian-13 | " +
				"Run=[run-1](/ui/runs/run-1) install | Attempt=2 | Stage since=15:08 | Last seen=15:09 | Address=10.0.0.9 | " +
				"Boots=3 | Details=no disk",
			"Machine=[m-2](/ui/machines/m-2) | Stage=writing/s-running | Done=0 % | Image=none: only erases | Attempt=0 | " +
				"Boots=0 | Details=onto the disk largest",
		},
		"services": {
			"Service=tool | Type=tool-invoker | Address=[::1]:90 | Active=active/s-succeeded | " +
				"Health=unhealthy/s-failed disk full 15:12 | Last seen=15:11 | Id=s-1",
			"Address=:0 | Active=deregistered/s- | Id=s-2",
		},
		"audit": {
			"No.=1 204 | When=15:13 | Principal=user:eve | Method=StartRun | Resource=m-1 | " +
				"Outcome=PERMISSION_DENIED/s-failed ROLE × 4 | Source=10.0.0.1 | Peer=n1",
			"No.=5 | Outcome=OK",
		},
	}
	conn["ListMachines"] = &holdfastv1.ListMachinesResponse{Machines: []*holdfastv1.Machine{
		{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Pool: "gpu", Location: "fra1", Rack: "r7", Serial: "S1"},
			Node: &holdfastv1.NodeRecord{Vendor: "Dell", Model: "R760"},
			HardwareSummary: &holdfastv1.HardwareSummary{Cpus: new(int32(2)), Cores: new(int32(64)),
				MemoryBytes: new(int64(512 << 30)),
				Disks:       new(int32(4)),
				DiskBytes:   new(int64(8 << 40)), Gpus: new(int32(8)), Arch: "x86_64"}},
		{MachineId: "m-2", Node: &holdfastv1.NodeRecord{SerialNumber: "S2"}},
	}}
	want["hardware"] = []string{
		"Machine=[m-1](/ui/machines/m-1) | Pool=gpu | Location=fra1 | Rack=r7 | Model=Dell R760 | Serial=S1 | CPUs=2 | " +
			"Cores=64 | Memory=512 GiB | Disks=4 | Disk space=8.0 TiB | GPUs=8 | Arch=x86_64",
		"Machine=[m-2](/ui/machines/m-2) | Serial=S2",
	}
	for _, k := range append(All(), Hardware()) {
		part, err := k.Read(t.Context(), conn, Query{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range part.Rows {
			if len(r.Cells) != len(k.Columns) {
				t.Fatalf("%s: got %d cells, want %d", k.Name, len(r.Cells), len(k.Columns))
			}
			var cells []string
			for i, c := range r.Cells {
				if !c.Empty() {
					cells = append(cells, k.Columns[i]+"="+text(c))
				}
			}
			got = append(got, strings.Join(cells, " | "))
		}
		if diff := cmp.Diff(want[k.Name], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", k.Name, diff)
		}
	}
}

// TestTotal checks that counting ends at a limit.
func TestTotal(t *testing.T) {
	for _, tt := range []struct {
		entries, want int
		all           bool
	}{{0, 0, true}, {1, 1, true}, {1000, 1000, true}, {MostCounted, MostCounted, true},
		{MostCounted + 1, MostCounted, false}} {
		reads := 0
		k := Kind{Read: func(_ context.Context, _ grpc.ClientConnInterface, q Query) (p Part, err error) {
			reads++
			from := 0
			_, _ = fmt.Sscan(q.Page, &from)
			p.Rows = make([]Row, min(int(q.Size), tt.entries-from))
			if from += len(p.Rows); from < tt.entries {
				p.Next = fmt.Sprint(from)
			}
			return p, nil
		}}
		n, all, err := Total(t.Context(), nil, k, "")
		if n != tt.want || all != tt.all || err != nil || reads > MostCounted/1000 {
			t.Errorf("%d entries: got %d, %t, %v after %d reads, want %d, %t", tt.entries, n, all, err, reads, tt.want, tt.all)
		}
	}
}

// TestAlertRows checks that firing alerts come first, with all their columns.
func TestAlertRows(t *testing.T) {
	var got []string
	for _, r := range AlertRows([]health.Alert{
		{Name: "HoldfastA", Severity: "warning", Rule: "if a", Remedy: "holdfast a"},
		{Name: "B", Severity: "info", Rule: "if b", Hidden: true},
		{Name: "HoldfastC", Severity: "critical", Rule: "if c", Firing: []string{"x", "y"}, Remedy: "holdfast c"},
		{Name: "D", Severity: "warning", Rule: "if d", Firing: []string{"z"}},
		{Name: "E", Severity: "info", Rule: "if e", Firing: []string{"z"}},
	}) {
		var cells []string
		for i, c := range r.Cells {
			cells = append(cells, Alerts().Columns[i]+"="+text(c))
		}
		got = append(got, strings.Join(cells, " | "))
	}
	want := []string{
		"Alert=HoldfastC | State=firing/s-failed | Severity=critical | Fires if=if c | Details=x; y | " +
			"Next step=holdfast c | " +
			"Runbook=[runbook](" + runbook + "#holdfastc)",
		"Alert=D | State=firing/s-maintenance | Severity=warning | Fires if=if d | Details=z | Next step= | Runbook=",
		"Alert=E | State=firing/s-running | Severity=info | Fires if=if e | Details=z | Next step= | Runbook=",
		"Alert=HoldfastA | State=ok/s-active | Severity=warning | Fires if=if a | Details= | Next step= | " +
			"Runbook=[runbook](" + runbook + "#holdfasta)",
		"Alert=B | State=not visible to you/s- | Severity=info | Fires if=if b | Details= | Next step= | Runbook=",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
