package providertest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

// mutants returns providers with one error each, and the tests that must find it.
func mutants() map[string]struct {
	make func(*fake.Provider) providers.Provider
	test string
} {
	return map[string]struct {
		make func(*fake.Provider) providers.Provider
		test string
	}{
		"PressesTwice": {func(p *fake.Provider) providers.Provider { return pressesTwice{p} }, "Power/HardOffThenOn"},
		"NeverPresses": {func(p *fake.Provider) providers.Provider { return neverPresses{p} }, "Power/HardOffThenOn"},
		"TakesAnyAction": {func(p *fake.Provider) providers.Provider { return takesAnyAction{p} },
			"Power/UnknownActionIsRefused"},
		"InspectPresses": {func(p *fake.Provider) providers.Provider { return inspectPresses{p} },
			"Inspect/ChangesNothing"},
		"HealthPresses":     {func(p *fake.Provider) providers.Provider { return healthPresses{p} }, "Health/ChangesNothing"},
		"AlwaysHealthy":     {func(p *fake.Provider) providers.Provider { return alwaysHealthy{p} }, "Health/TellsOfParts"},
		"ForgetsPersistent": {func(p *fake.Provider) providers.Provider { return forgetsPersistent{p} }, "Boot/Persistent"},
		"NeverEjects":       {func(p *fake.Provider) providers.Provider { return neverEjects{p} }, "Media/InsertAndEject"},
		"InstallsAnew": {func(p *fake.Provider) providers.Provider { return &installsAnew{Provider: p} },
			"Install/StartTwiceIsOnce"},
		"RunsTwice":  {func(p *fake.Provider) providers.Provider { return runsTwice{p} }, "Command/StartTwiceIsOnce"},
		"NeverKills": {func(p *fake.Provider) providers.Provider { return neverKills{p} }, "Command/KillEndsIt"},
		"NoTimeout":  {func(p *fake.Provider) providers.Provider { return noTimeout{p} }, "Command/TimeoutEndsIt"},
		"LosesOutput": {status(func(s *providers.CommandStatus) { s.Next += int64(min(len(s.Output), 1)) }),
			"Output/ByOffset"},
		"MixesStreams":    {status(mixStreams), "Output/ExitNonZero"},
		"ForgetsExitCode": {status(func(s *providers.CommandStatus) { s.ExitCode = 0 }), "Output/ExitNonZero"},
		"OutputAtTheEnd":  {status(outputAtTheEnd), "Output/WhileItRuns"},
		"JoinsAnew": {func(p *fake.Provider) providers.Provider { return &joinsAnew{Provider: p} },
			"Join/StartTwiceIsOnce"},
		"NeverConfirms": {func(p *fake.Provider) providers.Provider { return neverConfirms{p} },
			"Network/ConfirmedStays"},
		"NeverRollsBack": {func(p *fake.Provider) providers.Provider { return neverRollsBack{p} },
			"Network/UnconfirmedIsRolledBack"},
		"PlainErrors": {func(p *fake.Provider) providers.Provider { return plainErrors{p} },
			"Errors/OfAMissingMachineAreClassed"},
		"TimeoutsTransient": {func(p *fake.Provider) providers.Provider { return timeoutsTransient{p} },
			"Errors/OfASilentMachineAreTimeouts"},
		"IgnoresNotAfter": {func(p *fake.Provider) providers.Provider { return ignoresNotAfter{p} },
			"Late/NothingIsDoneTooLate"},
		"AlwaysTooLate": {func(p *fake.Provider) providers.Provider { return alwaysTooLate{p} }, "Late/InTimeIsDone"},
		"NeverLights":   {func(p *fake.Provider) providers.Provider { return neverLights{p} }, "Care/LightReadsBack"},
		"NeverClears":   {func(p *fake.Provider) providers.Provider { return neverClears{p} }, "Care/EventsAreCleared"},
		"ResetsAlways":  {func(p *fake.Provider) providers.Provider { return resetsAlways{p} }, "Care/ResetComesBack"},
		"LosesParts":    {func(p *fake.Provider) providers.Provider { return losesParts{p} }, "Care/InventoryIsSound"},
		"IgnoresContext": {func(p *fake.Provider) providers.Provider { return ignoresContext{p} },
			"Errors/CancelReturnsPromptly"},
	}
}

// TestMutant runs in a process of TestSuiteNotices, and must fail there.
func TestMutant(t *testing.T) {
	name := os.Getenv("PROVIDERTEST_MUTANT")
	if name == "" {
		t.Skip("runs in TestSuiteNotices")
	}
	providertest.Run(t, func(t *testing.T) providertest.Setup {
		f := fake.NewFleet(fake.Config{
			PowerTime: fake.Duration(time.Millisecond), BootTime: fake.Duration(time.Millisecond),
			InstallTime: fake.Duration(time.Millisecond), CommandTime: fake.Duration(time.Millisecond),
			Machines: map[string]fake.Faults{"silent": {Hang: []string{"*"}}, "missing": {Gone: true}},
		})
		p := providers.Provider(fake.New(f))
		if m, ok := mutants()[name]; ok {
			p = m.make(fake.New(f))
		}
		return providertest.Setup{
			Provider: p, Machine: machine("m-1"), Silent: machine("silent"), Missing: machine("missing"),
			// The provider without a mutation must pass on a busy machine.
			Wait: 4 * time.Second, Poll: time.Millisecond, Rollback: time.Second,
			Image: "debian-12", ClusterRef: "prod", NetConfig: "vlan: 7", MediaURL: "http://192.0.2.1/boot.iso",
			ClearLog: true, ResetBMC: true,
			Broken: func(context.Context) providers.Problem {
				all, machines := f.Faults()
				machines["m-1"] = fake.Faults{Broken: map[providers.Kind]string{providers.DiskFailed: "disk 2 failed"}}
				if err := f.SetFaults(all, machines); err != nil {
					panic(err)
				}
				return providers.Problem{Kind: providers.DiskFailed, Text: "disk 2 failed"}
			},
			Effects: func(context.Context) (out []providertest.Effect, err error) {
				for _, e := range f.Effects("m-1", "", 0) {
					out = append(out, providertest.Effect{Name: e.Effect,
						Op: providers.Op{RunID: e.RunID, Step: e.Step, Attempt: e.Attempt, Epoch: e.Epoch}})
				}
				return out, nil
			},
		}
	})
}

// TestSuiteNotices checks that the suite can fail: each mutant fails its test, which the provider
// without a mutation passes.
func TestSuiteNotices(t *testing.T) {
	t.Parallel()
	for name, m := range mutants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := runSuite(t, "none", m.test); err != nil || !strings.Contains(out, "--- PASS: TestMutant/"+m.test) {
				t.Fatalf("%s without a mutation: %v\n%s", m.test, err, out)
			}
			out, err := runSuite(t, name, m.test)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(out, "--- FAIL: TestMutant/"+m.test) {
				t.Fatalf("%s with mutant %s: got no failure: %v\n%s", m.test, name, err, out)
			}
			if strings.Contains(out, "panic:") {
				t.Fatalf("suite: got a panic:\n%s", out)
			}
		})
	}
}

func runSuite(t *testing.T, mutant, test string) (string, error) {
	group, name, _ := strings.Cut(test, "/")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// self is this test.
	c := exec.CommandContext(t.Context(), self, "-test.v", "-test.run=^TestMutant$/^"+group+"$/^"+name+"$")
	c.Env = append(os.Environ(), "PROVIDERTEST_MUTANT="+mutant, "GORACE=atexit_sleep_ms=0")
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestMissingCapabilitiesSkip checks that a provider with one capability passes the suite.
func TestMissingCapabilitiesSkip(t *testing.T) {
	t.Parallel()
	only := struct {
		kind
		providers.PowerController
	}{PowerController: fake.New(fake.NewFleet(fake.Config{}))}
	if diff := cmp.Diff([]providers.Capability{providers.CanPower}, providers.Capabilities(only)); diff != "" {
		t.Fatal(diff)
	}
	providertest.Run(t, func(*testing.T) providertest.Setup {
		return providertest.Setup{Provider: only, Machine: machine("m-1")}
	})
}

type kind struct{}

func (kind) Kind() string { return "power-only" }

func machine(id string) providers.Machine { return &holdfastv1.Machine{MachineId: id} }
