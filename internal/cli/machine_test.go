package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestRegisterFromFlags(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "register", "--id", "m-1", "--label", "env=prod", "--label", "note=a=b",
		"--ssh", "10.0.0.1:22",
		"--bmc", "10.0.1.1", "--mac", "aa:bb:cc:dd:ee:01", "--mac", "aa:bb:cc:dd:ee:02", "--provider", "dc-1", "--rack",
		"r7", "--location", "fra", "--pool", "gpu",
		"--serial", "SN", "--cluster", "cluster-a", "--customer", "acme", "--phase", "factory-ready"), app.ExitOK)
	want := &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{
		MachineId: "m-1", Labels: map[string]string{"env": "prod", "note": "a=b"},
		Spec: &holdfastv1.MachineSpec{SshEndpoint: "10.0.0.1:22", BmcEndpoint: "10.0.1.1", TargetClusterRef: "cluster-a",
			MacAddresses: []string{"aa:bb:cc:dd:ee:01",
				"aa:bb:cc:dd:ee:02"}, Provider: "dc-1", Location: "fra", Rack: "r7", Serial: "SN", CustomerId: "acme", Pool: "gpu"},
		Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_FACTORY_READY},
	}}
	if diff := cmp.Diff([]*holdfastv1.RegisterMachineRequest{want}, clitest.Asked[*holdfastv1.RegisterMachineRequest](f),
		protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestRegisterCreatesAndPrintsID(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "register", "--rack", "r7", "-o", "name"), app.ExitOK)
	id := strings.TrimSpace(c.Out.String())
	if !regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(id) {
		t.Errorf("got id %q, want 8 hex digits", id)
	}
	if want := "machine-id: " + id + "\n"; c.Err.String() != want {
		t.Errorf("got stderr %q, want %q", c.Err.String(), want)
	}
	if got := clitest.Asked[*holdfastv1.RegisterMachineRequest](f)[0].GetMachine().GetMachineId(); got != id {
		t.Errorf("got sent id %q, want %q", got, id)
	}
}

func TestRegisterFromFile(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	file := filepath.Join(t.TempDir(), "machines.yaml")
	if err := os.WriteFile(file, []byte("machine_id: a\nspec: {rack: 07}\n---\nmachine_id: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, arg, in string
	}{
		{"a file", file, ""},
		{"standard input", "-", `[{"machine_id": "a", "spec": {"rack": "07"}}, {"machine_id": "b"}]`},
	} {
		c := clitest.Command{In: tt.in}
		c.WantCode(t, c.Run(t, f, "machine", "register", "-f", tt.arg, "-o", "name"), app.ExitOK)
		if got, want := c.Out.String(), "a\nb\n"; got != want {
			t.Errorf("%s: got output %q, want %q", tt.name, got, want)
		}
	}
}

// The output of list can be registered again.
func TestListCanBeRegistered(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, format := range []string{"json", "yaml"} {
		var list clitest.Command
		list.WantCode(t, list.Run(t, f, "machine", "list", "-o", format), app.ExitOK)
		c := clitest.Command{In: list.Out.String()}
		c.WantCode(t, c.Run(t, f, "machine", "register", "-f", "-", "-o", "name"), app.ExitOK)
		if got, want := c.Out.String(), "m-123\nm-124\nm-125\n"; got != want {
			t.Errorf("%s: got registered %q, want %q", format, got, want)
		}
	}
}

func TestInvalidFileRegistersNothing(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	c := clitest.Command{In: "machine_id: a\n---\nmachine_id: b\nspec:\n  rak: r7\n"}
	c.WantCode(t, c.Run(t, f, "machine", "register", "-f", "-"), app.ExitUsage)
	want := "error: read machines: standard input:5: unknown key \"rak\" in \"spec\": did you mean rack?\n"
	if c.Err.String() != want {
		t.Errorf("got stderr %q, want %q", c.Err.String(), want)
	}
	if len(f.Requests) > 0 {
		t.Errorf("got %d registered machines, want 0", len(f.Requests))
	}
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "machine", "register", "-f", "/does/not/exist"), app.ExitUsage)
	clitest.WantIn(t, "stderr", c.Err.String(), "/does/not/exist")
}

func TestSomeMachinesAreRefused(t *testing.T) {
	f := clitest.Fixture()
	f.Refuse = func(req proto.Message) error {
		if r, ok := req.(*holdfastv1.RegisterMachineRequest); ok && r.GetMachine().GetMachineId() == "b" {
			return clitest.Refusal(t, codes.AlreadyExists, "the MAC address belongs to machine m-123",
				"spec.mac_addresses[0]", "taken")
		}
		return nil
	}
	clitest.Start(t, f)
	c := clitest.Command{In: `[{"machine_id": "a"}, {"machine_id": "b"}, {"machine_id": "c"}]`}
	c.WantCode(t, c.Run(t, f, "machine", "register", "-f", "-", "-o", "name"), app.ExitConflict)
	if got, want := c.Out.String(), "a\nc\n"; got != want {
		t.Errorf("got output %q, want %q", got, want)
	}
	want := "error: register machines: 1 of 3 failed:\n  register machine b: the MAC address belongs to machine " +
		"m-123\n    spec.mac_addresses[0]: taken\n"
	if c.Err.String() != want {
		t.Errorf("got stderr %q, want %q", c.Err.String(), want)
	}
}

func TestUpdateHasFieldMask(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "update", "m-1", "--rack", "", "--label", "env=prod", "--label", "canary-",
		"--mac", "aa:bb:cc:dd:ee:01"), app.ExitOK)
	got := clitest.Asked[*holdfastv1.UpdateMachineRequest](f)[0]
	if diff := cmp.Diff([]string{"spec.rack", "spec.mac_addresses", "labels.env", "labels.canary"},
		got.GetUpdateMask().GetPaths()); diff != "" {
		t.Errorf("mask (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"env": "prod"}, got.GetMachine().GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	c = clitest.Command{In: `{"machine_id": "m-1", "labels": {"a": "b"}}`}
	c.WantCode(t, c.Run(t, f, "machine", "update", "-f", "-"), app.ExitOK)
	if got := clitest.Asked[*holdfastv1.UpdateMachineRequest](f)[1]; got.GetUpdateMask() != nil ||
		got.GetMachine().GetLabels()["a"] != "b" {
		t.Errorf("update from a file: got %v, want no mask", got)
	}
}

func TestSetPhase(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "set-phase", "m-124", "in-service", "--comment", "fan replaced"), app.ExitOK)
	want := &holdfastv1.SetMachinePhaseRequest{MachineId: "m-124", Phase: holdfastv1.MachineStatus_IN_SERVICE,
		Comment: "fan replaced"}
	if diff := cmp.Diff([]*holdfastv1.SetMachinePhaseRequest{want}, clitest.Asked[*holdfastv1.SetMachinePhaseRequest](f),
		protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestWatchMachinesPrintsChanges(t *testing.T) {
	f := clitest.Fixture()
	asked := 0
	f.Refuse = func(req proto.Message) error {
		if _, ok := req.(*holdfastv1.ListMachinesRequest); !ok {
			return errors.New("unexpected")
		}
		switch asked++; asked {
		case 2:
			f.Machines[0].Status.Conditions[0].ObservedAt = clitest.Ago(0) // a change without a line
			f.Machines[0].Status.PowerObservedAt = clitest.Ago(0)
		case 3:
			m := proto.CloneOf(f.Machines[1])
			m.Status.EffectiveState = holdfastv1.EffectiveState_RETIRED
			f.Machines = []*holdfastv1.Machine{f.Machines[0], m}
		}
		return nil
	}
	clitest.Start(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := clitest.Command{Ctx: ctx}
	done := make(chan int)
	go func() { done <- c.Run(t, f, "machine", "watch", "--interval", "1ms") }()
	clitest.Eventually(t, "the line of the change", func() bool {
		return strings.Contains(c.Out.String(), "RETIRED") && strings.Contains(c.Err.String(), "m-125")
	})
	cancel()
	c.WantCode(t, <-done, app.ExitOK)
	lines := strings.Split(strings.TrimSpace(c.Out.String()), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "MACHINE") ||
		!strings.HasPrefix(lines[4], "m-124     RETIRED        off     -") {
		t.Errorf("output: want the header, three machines and the changed one in the same columns, got:\n%s",
			c.Out.String())
	}
	clitest.WantIn(t, "stderr", c.Err.String(), "machine m-125 is gone, or no longer matches")
}
