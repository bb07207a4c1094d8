package fake_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

func machine(id string) providers.Machine { return &holdfastv1.Machine{MachineId: id} }

func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Setup {
		f := fake.NewFleet(conformanceConfig())
		return setup(f, fake.New(f), t.Name())
	})
}

func TestConformanceOverHTTP(t *testing.T) {
	t.Parallel()
	f := fake.NewFleet(conformanceConfig())
	s := httptest.NewServer(f.Handler())
	t.Cleanup(s.Close)
	p, err := fake.NewRemote(s.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	providertest.Run(t, func(t *testing.T) providertest.Setup { return setup(f, p, t.Name()) })
}

func conformanceConfig() fake.Config {
	return fake.Config{Machines: map[string]fake.Faults{"silent": {Hang: []string{"*"}}, "missing": {Gone: true}}}
}

func setup(f *fake.Fleet, p providers.Provider, id string) providertest.Setup {
	return providertest.Setup{
		Provider: p, Machine: machine(id), Silent: machine("silent"), Missing: machine("missing"),
		Wait: 5 * time.Second, Poll: 5 * time.Millisecond, Rollback: 100 * time.Millisecond,
		Image: "debian-12", ClusterRef: "prod", NetConfig: "vlan: 7", MediaURL: "http://192.0.2.1/boot.iso", ClearLog: true,
		ResetBMC: true,
		Broken: func(context.Context) providers.Problem {
			all, machines := f.Faults()
			machines[id] = fake.Faults{Broken: map[providers.Kind]string{providers.DiskFailed: "disk 2 failed"}}
			if err := f.SetFaults(all, machines); err != nil {
				panic(err)
			}
			return providers.Problem{Kind: providers.DiskFailed, Text: "disk 2 failed"}
		},
		Effects: func(context.Context) (out []providertest.Effect, err error) {
			for _, e := range f.Effects(id, "", 0) {
				out = append(out, providertest.Effect{Name: e.Effect,
					Op: providers.Op{RunID: e.RunID, Step: e.Step, Attempt: e.Attempt, Epoch: e.Epoch}})
			}
			return out, nil
		},
	}
}
