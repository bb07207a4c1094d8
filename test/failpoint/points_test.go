package failpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/test/overlay"
)

// TestEveryPointHasAScenario also checks that each scenario belongs to a point.
func TestEveryPointHasAScenario(t *testing.T) {
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	points, err := Arm(overlay.New(root))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, p := range points {
		there[p.Name] = true
		if _, ok := scenarios()[p.Name]; !ok {
			t.Errorf("failpoint %s (%s:%d) has no scenario: add one to scenarios.go", p.Name, p.File,
				p.Line)
		}
	}
	for name := range scenarios() {
		if !there[name] {
			t.Errorf("scenario %s has no failpoint", name)
		}
	}
}

func TestArm(t *testing.T) {
	for name, tt := range map[string]struct{ cluster, want string }{
		"armed":      {"package cluster\n\nfunc f() {\n\t// failpoint: here-it-is\n}\n", ""},
		"not a line": {"package cluster\n\nfunc f() { _ = 1 // failpoint: x\n}\n", "is not a line"},
		"not a name": {"package cluster\n\nfunc f() {\n\t// failpoint: Here It Is\n}\n", "is not a line"},
		"duplicate name": {"package cluster\n\nfunc f() {\n\t// failpoint: a\n\t// failpoint: a\n}\n",
			"at cluster/f.go:4 and at cluster/f.go:5"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, dir := range folders() {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o750); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(root, "cluster", "f.go"), []byte(tt.cluster), 0o600); err != nil {
				t.Fatal(err)
			}
			o := overlay.New(root)
			points, err := Arm(o)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Arm: got %v, want an error with %q", err, tt.want)
				}
				return
			}
			text, rerr := o.Read("cluster/f.go")
			if err != nil || rerr != nil || len(points) != 1 || points[0] != (Point{"here-it-is", "cluster/f.go", 4}) ||
				!strings.Contains(text, "\tfailpoint(\"here-it-is\")\n") {
				t.Errorf("Arm: got %v, %v, %v; the file is\n%s", points, err, rerr, text)
			}
			if generated, err := o.Read("cluster/failpoint_generated.go"); err != nil ||
				!strings.HasPrefix(generated, "package cluster\n") {
				t.Errorf("generated file: %v", err)
			}
		})
	}
}

func TestSwitches(t *testing.T) {
	s, err := NewSwitches(t.TempDir(), "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if env := s.Environment("a", "b"); !strings.HasPrefix(env, "HOLDFAST_FAILPOINT=a@/") ||
		!strings.Contains(env, ",b@/") {
		t.Errorf("Environment: got %s", env)
	}
	if err := s.Arm("a"); err != nil {
		t.Fatal(err)
	}
	if fired, err := s.Disarm("a"); fired || err != nil {
		t.Errorf("Disarm(a): got %v, %v, want false", fired, err)
	}
	if err := os.WriteFile(s.file("b"), []byte("123"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pid, ok := s.PID("b"); !ok || pid != 123 {
		t.Errorf("PID(b): got %d, %v, want 123", pid, ok)
	}
	if env := s.StopEnvironment("a", "b"); !strings.HasSuffix(env, "/b=stop") || !strings.Contains(env, "/a=stop,b@/") {
		t.Errorf("StopEnvironment: got %s", env)
	}
	if fired, err := s.Disarm("b"); !fired || err != nil {
		t.Errorf("Disarm(b): got %v, %v, want true", fired, err)
	}
}
