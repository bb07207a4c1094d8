package fsm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func scriptOf(t *testing.T, plan, step string) string {
	t.Helper()
	for _, p := range fsm.DefaultPlans() {
		for _, s := range p.GetSteps() {
			if p.GetPlanId() == plan && s.GetName() == step {
				return s.GetSsh().GetScript()
			}
		}
	}
	t.Fatalf("there is no step %s of %s", step, plan)
	return ""
}

// The scripts of plan/upgrade call the right programs, with the requested version.
func TestUpgradeScripts(t *testing.T) {
	for _, tt := range []struct {
		plan, step, version string
		want                string // the calls
		says                string // the output on failure
	}{
		{"plan/upgrade", "cordon-node", "", "kubectl cordon node-7\n", ""},
		{"plan/upgrade", "drain-node", "",
			"kubectl drain node-7 --ignore-daemonsets --delete-emptydir-data --timeout=1500s\n", ""},
		{"plan/upgrade", "uncordon-node", "", "kubectl uncordon node-7\n", ""},
		{"plan/upgrade", "upgrade-kubelet", "",
			"apt-get update\napt-get install -y --allow-change-held-packages kubeadm\nkubeadm upgrade node\n" +
				"apt-get install -y --allow-change-held-packages kubelet kubectl\napt-mark hold kubeadm kubelet kubectl\n", ""},
		{"plan/upgrade", "upgrade-kubelet", "v1.31.2",
			"apt-get update\napt-get install -y --allow-change-held-packages kubeadm=1.31.2-1.1\nkubeadm upgrade node\n" +
				"apt-get install -y --allow-change-held-packages kubelet=1.31.2-1.1 kubectl=1.31.2-1.1\napt-mark hold " +
				"kubeadm kubelet kubectl\n", ""},
		{"plan/upgrade", "upgrade-kubelet", "1.31.9", "apt-get update\n", "no package of kubelet 1.31.9"},
		{"plan/upgrade", "restart-kubelet", "1.31.2-1.1",
			"systemctl daemon-reload\nsystemctl restart kubelet\nsystemctl is-active kubelet\n", ""},
		{"plan/upgrade", "restart-kubelet", "1.31.3",
			"systemctl daemon-reload\nsystemctl restart kubelet\nsystemctl is-active kubelet\n",
			"the kubelet is Kubernetes v1.31.2, not 1.31.3"},
		{"plan/rma", "drain-check", "", "", ""}, // this machine is not a node
	} {
		t.Run(tt.step+" "+tt.version, func(t *testing.T) {
			dir := t.TempDir()
			for name, does := range map[string]string{
				"kubectl": "", "kubeadm": "", "apt-get": "", "apt-mark": "", "systemctl": "",
				"hostname": "echo Node-7; exit", "kubelet": "echo Kubernetes v1.31.2; exit",
				"apt-cache": "printf ' kubelet | 1.31.20-1.1 | x\\n kubelet | 1.31.2-1.1 | x\\n'; exit",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+does+"\necho "+name+" \"$@\" >>"+dir+
					"/calls\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("/bin/sh")
			cmd.Stdin = strings.NewReader(scriptOf(t, tt.plan, tt.step))
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOLDFAST_PARAM_VERSION=" + tt.version}
			out, err := cmd.CombinedOutput()
			if (err != nil) != (tt.says != "") || !strings.Contains(string(out), tt.says) {
				t.Errorf("%v, it said %q, want %q", err, out, tt.says)
			}
			calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
			same(t, "calls", tt.want, string(calls))
		})
	}
}

func TestUpgradeVersion(t *testing.T) {
	all := fsm.DefaultPlans()
	plan := all[slices.IndexFunc(all, func(p *holdfastv1.Plan) bool { return p.GetPlanId() == "plan/upgrade" })]
	for version, ok := range map[string]bool{
		"": false, "1.31.2": true, "v1.31.2": true, "1.31.2-1.1": true, "1.31": false, "latest": false,
		"1.31.2; reboot": false, "$(reboot)": false, "1.31.2\n": false, "1.31.2 -o x": false,
	} {
		if err := fsm.CheckParams(plan, map[string]string{"version": version}); (err == nil) != ok {
			t.Errorf("version %q: %v, want it taken: %v", version, err, ok)
		}
	}
}
