package ironic_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/ironic"
	"github.com/holdfast-metal/holdfast/providers/ironic/ironictest"
)

// install acts as the executor, with a new provider for each effect, like a new leader. It returns
// the requests to Ironic.
func install(
	t *testing.T, s *ironictest.Server, m providers.Machine, op providers.Op, spec providers.InstallSpec,
	config func(*ironic.Config),
) (st providers.InstallStatus, asked []string) {
	t.Helper()
	leader := func() *ironic.Provider {
		c := ironic.Config{Endpoint: s.URL, LockTime: ironic.Duration(2 * time.Second)}
		if config != nil {
			config(&c)
		}
		return newProvider(t, c, ironic.Deps{})
	}
	p, last := leader(), 0
	if err := p.StartInstall(inTime(t), op, m, spec); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the install", func() (bool, error) {
		var err error
		if st, err = p.InstallStatus(t.Context(), m, op.Token()); err != nil {
			return false, err
		}
		if st.Progress < last || st.Progress > 100 {
			t.Fatalf("got progress %d, then %d", last, st.Progress)
		}
		last = st.Progress
		if st.Due != "" && st.State == providers.WorkRunning {
			if err := p.StartInstall(inTime(t), op, m, spec); err != nil && providers.ClassOf(err) != providers.Transient {
				t.Fatalf("%s: %v", st.Due, err)
			}
			p = leader()
		}
		return st.State != providers.WorkRunning, nil
	})
	for _, a := range s.Asked() {
		if a != "n1 patch" {
			asked = append(asked, strings.TrimPrefix(a, "n1 provision: "))
		}
	}
	return st, asked
}

func inTime(t *testing.T) context.Context {
	return providers.WithNotAfter(t.Context(), time.Now().Add(time.Minute))
}

// TestInstall starts from each state of a node, with another leader after each effect. Each change
// is requested once.
func TestInstall(t *testing.T) {
	t.Parallel()
	image, wiped, both := providers.InstallSpec{Image: "default"}, providers.InstallSpec{Wipe: true},
		providers.InstallSpec{Image: "default", Wipe: true}
	for _, tt := range []struct {
		from string
		spec providers.InstallSpec
		want []string
		end  string
	}{
		{"available", image, []string{"active"}, "active"},
		{"active", image, []string{"rebuild"}, "active"},
		{"deploy failed", image, []string{"rebuild"}, "active"},
		{"error", image, []string{"rebuild"}, "active"},
		{"manageable", image, []string{"provide", "active"}, "active"},
		{"enroll", image, []string{"manage", "provide", "active"}, "active"},
		{"clean failed", image, []string{"manage", "provide", "active"}, "active"},
		{"active", both, []string{"deleted", "manage", "clean", "provide", "active"}, "active"},
		{"available", both, []string{"manage", "clean", "provide", "active"}, "active"},
		{"active", wiped, []string{"deleted", "manage", "clean"}, "manageable"},
		{"manageable", wiped, []string{"clean"}, "manageable"},
	} {
		t.Run(fmt.Sprintf("%s, image %q, wipe %v", tt.from, tt.spec.Image, tt.spec.Wipe), func(t *testing.T) {
			t.Parallel()
			s, _, m := newLab(t, ironictest.Node{State: tt.from})
			op := providers.Op{RunID: "r-1", Step: "repave", Attempt: 1}
			st, asked := install(t, s, m, op, tt.spec, nil)
			if st.State != providers.WorkDone || st.Progress != 100 || st.Image != tt.spec.Image {
				t.Errorf("got %+v, want it done", st)
			}
			if diff := cmp.Diff(tt.want, asked); diff != "" {
				t.Errorf("requests to Ironic (-want +got):\n%s", diff)
			}
			state, instance := s.State("n1")
			if state != tt.end {
				t.Errorf("state of the node: got %s, want %s", state, tt.end)
			}
			want := map[string]any{"image_source": "http://192.0.2.1/default.qcow2", "image_os_hash_algo": "sha256",
				"image_os_hash_value": "abc", "image_disk_format": "qcow2"}
			if tt.spec.Image == "" {
				want = map[string]any{}
			}
			if diff := cmp.Diff(want, instance); diff != "" {
				t.Errorf("instance_info (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInstallFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		faults func(*ironictest.Faults)
		spec   providers.InstallSpec
		want   string
	}{
		"deploying": {func(f *ironictest.Faults) { f.FailDeploy = "Image download failed" },
			providers.InstallSpec{Image: "default"}, `rebuild ended in state "deploy failed": Image download failed`},
		"cleaning": {func(f *ironictest.Faults) { f.FailClean = "no disk" }, providers.InstallSpec{Wipe: true},
			`clean ended in state "clean failed": no disk`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, m := newLab(t, ironictest.Node{State: "active"})
			s.Set(tt.faults)
			op := providers.Op{RunID: "r-1", Step: "repave", Attempt: 1}
			st, _ := install(t, s, m, op, tt.spec, nil)
			if st.State != providers.WorkFailed || st.Error != tt.want {
				t.Errorf("got %+v, want %q", st, tt.want)
			}
		})
	}
}

// A new attempt continues where the last one failed.
func TestInstallAfterFailure(t *testing.T) {
	t.Parallel()
	s, _, m := newLab(t, ironictest.Node{State: "active"})
	s.Set(func(f *ironictest.Faults) { f.FailDeploy = "no" })
	spec := providers.InstallSpec{Image: "default"}
	if st, _ := install(t, s, m, providers.Op{RunID: "r-1", Step: "repave", Attempt: 1}, spec,
		nil); st.State != providers.WorkFailed {
		t.Fatalf("got %+v, want a failure", st)
	}
	s.Set(func(f *ironictest.Faults) { f.FailDeploy = "" })
	st, asked := install(t, s, m, providers.Op{RunID: "r-1", Step: "repave", Attempt: 2}, spec, nil)
	if want := []string{"rebuild", "rebuild"}; st.State != providers.WorkDone || !slices.Equal(asked, want) {
		t.Errorf("got %+v after %q, want it done after %q", st, asked, want)
	}
}

// A change whose answer was lost is not requested again.
func TestInstallWithLostAnswers(t *testing.T) {
	t.Parallel()
	s, p, m := newLab(t, ironictest.Node{State: "active"})
	op, spec := providers.Op{RunID: "r-1", Step: "repave", Attempt: 1}, providers.InstallSpec{Image: "default"}
	s.Set(func(f *ironictest.Faults) { f.DropAnswers = true })
	if err := p.StartInstall(inTime(t), op, m, spec); providers.ClassOf(err) != providers.Timeout {
		t.Errorf("got %v, want class timeout for the unknown outcome", err)
	}
	eventually(t, "the end", func() (bool, error) {
		st, err := p.InstallStatus(t.Context(), m, op.Token())
		if st.Due != "" {
			err = p.StartInstall(inTime(t), op, m, spec)
		}
		return st.State == providers.WorkDone, err
	})
	if n := s.Count("n1 provision: rebuild"); n != 1 {
		t.Errorf("got %d rebuilds, want 1", n)
	}
}

func TestInstallIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		node  ironictest.Node
		image string
		class providers.Class
		want  string
	}{
		"unknown image": {ironictest.Node{}, "nothing", providers.Unsupported,
			`image "nothing" is neither one of the provider's images (default)`},
		"instance of another user": {ironictest.Node{State: "active", Instance: "i-1"}, "default", providers.Unsupported,
			"another user's instance i-1"},
		"maintenance": {ironictest.Node{Maintenance: "broken fan"}, "default", providers.Unsupported,
			"in maintenance (broken fan)"},
		"no BMC": {ironictest.Node{Maintenance: "no answer", Fault: "power failure"}, "default",
			providers.Transient, "cannot reach the BMC"},
		"no login at the BMC": {ironictest.Node{Maintenance: "HTTP GET https://b returned code 401",
			Fault: "power failure"}, "default", providers.Auth, "cannot reach the BMC"},
		"rescue":   {ironictest.Node{State: "rescue"}, "default", providers.Unsupported, `in state "rescue"`},
		"cleaning": {ironictest.Node{State: "cleaning"}, "default", providers.Transient, "another operation is running"},
		"locked":   {ironictest.Node{Locked: "conductor-9"}, "default", providers.Transient, "is locked by host conductor-9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, m := newLab(t, tt.node, func(c *ironic.Config) { c.LockTime = ironic.Duration(50 * time.Millisecond) })
			err := p.StartInstall(inTime(t), providers.Op{RunID: "r-1", Step: "repave", Attempt: 1}, m,
				providers.InstallSpec{Image: tt.image})
			if providers.ClassOf(err) != tt.class || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v (class %s), want class %s and %q", err, providers.ClassOf(err), tt.class, tt.want)
			}
			if asked := s.Asked(); len(asked) > 0 {
				t.Errorf("got requests %q, want none", asked)
			}
		})
	}
}

// A concurrent change of the node by another user fails the install with a reason.
func TestInstallWithConcurrentUser(t *testing.T) {
	t.Parallel()
	s, p, m := newLab(t, ironictest.Node{})
	op := providers.Op{RunID: "r-1", Step: "repave", Attempt: 1}
	if err := p.StartInstall(inTime(t), op, m, providers.InstallSpec{Image: "default"}); err != nil {
		t.Fatal(err)
	}
	s.Change("n1", func(n *ironictest.Node) { n.State = "inspecting" })
	st, err := p.InstallStatus(t.Context(), m, op.Token())
	if err != nil || st.State != providers.WorkFailed ||
		!strings.Contains(st.Error, `state "inspecting", which active does not lead to`) {
		t.Errorf("got %+v, %v, want a failure with the reason", st, err)
	}
}
