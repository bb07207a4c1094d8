//go:build linux

package repavelab

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/bmclab"
	"github.com/holdfast-metal/holdfast/test/kubelab"
)

// installer is run by a step of the plan on an installed box. It installs kubeadm, and the stand-in
// for the kubelet as a systemd service. It skips kubeadm's preflight checks of containers, because
// the stand-in runs none.
const installer = `import os, subprocess, urllib.request as u
os.makedirs("/opt/lab", exist_ok=True)
def put(name, text):
    with open(name, "w") as f: f.write(text)
    os.chmod(name, 0o755)
for name in "kubeadm", "kubelet":
    u.urlretrieve("@URL@/" + name, "/opt/lab/" + name)
    os.chmod("/opt/lab/" + name, 0o755)
put("/opt/lab/uuid", open("/sys/class/dmi/id/product_uuid").read())
put("/opt/lab/ready", "")
put("/usr/local/bin/kubelet", "#!/bin/sh\necho Kubernetes v1.36.3\n")
put("/usr/local/bin/kubeadm", '#!/bin/sh\n[ "$1" = join ] && exec /opt/lab/kubeadm "$@" --ignore-preflight-errors=all\nexec /opt/lab/kubeadm "$@"\n')
put("/etc/systemd/system/kubelet.service", "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/opt/lab/kubelet -dir /opt/lab\nRestart=always\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n")
subprocess.check_call(["systemctl", "daemon-reload"])
subprocess.check_call(["systemctl", "-q", "enable", "kubelet"])
`

// cluster starts a real Kubernetes API on the network of the boxes.
func cluster(t *testing.T, l *bmclab.Lab) *kubelab.Plane {
	t.Helper()
	bin, err := kubelab.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(l.Dir(), "plane")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return kubelab.StartPlane(t, bin, dir)
}

// packages serves the files that boxes install, and returns the URL.
func packages(t *testing.T, l *bmclab.Lab) string {
	t.Helper()
	bin, err := kubelab.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(l.Dir(), "packages")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := kubelab.Kubelet(t.Context(), filepath.Join(dir, "kubelet")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(bin, "kubeadm"), filepath.Join(dir, "kubeadm")); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(gateway, "0"))
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	if err := os.WriteFile(filepath.Join(dir, "install.py"), []byte(strings.ReplaceAll(installer, "@URL@", url)),
		0o600); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with the test
	t.Cleanup(func() { _ = server.Close() })
	return url
}

// joins blocks until a box is joining.
func (s *site) joins(ctx context.Context, boxes []*box) {
	s.t.Helper()
	for {
		for _, b := range boxes {
			r, err := s.client.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: b.run})
			if err == nil && r.GetPhase() == holdfastv1.Run_FAILED {
				s.t.Fatalf("run %s of %s: %v\n%s\n%s", b.run, b.id, r.GetError(), s.log(b.run), s.console(b))
			}
			if err != nil || r.GetCurrentStep() != "join-cluster" {
				continue
			}
			for _, st := range r.GetSteps() {
				if st.GetName() == "join-cluster" && len(st.GetAttempts()) > 0 {
					return
				}
			}
		}
		select {
		case <-ctx.Done():
			for _, b := range boxes {
				s.t.Errorf("%s: %v\n%s\n%s", b.id, s.install(b), s.log(b.run), s.console(b))
			}
			s.t.Fatal("wait for a box to join: timed out")
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// checkNode compares a box with its node in the cluster.
func (s *site) checkNode(plane *kubelab.Plane, b *box) {
	s.t.Helper()
	var node corev1.Node
	plane.Must(http.MethodGet, "/api/v1/nodes/"+b.id, "", nil, &node)
	ready := false
	for _, c := range node.Status.Conditions {
		ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if !ready || node.Spec.ProviderID != "holdfast://"+b.id {
		s.t.Errorf("node of %s: got provider id %q, Ready %v", b.id, node.Spec.ProviderID, ready)
	}
	var secrets corev1.SecretList
	plane.Must(http.MethodGet, "/api/v1/namespaces/kube-system/secrets", "", nil, &secrets)
	for _, one := range secrets.Items {
		if one.Annotations["holdfast.dev/attempt"] != "" {
			s.t.Errorf("got token %s of a join, want it revoked", one.Name)
		}
	}
	r, err := s.client.Runs().GetRun(s.t.Context(), &holdfastv1.GetRunRequest{RunId: b.run})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, st := range r.GetSteps() {
		took := st.GetFinishedAt().AsTime().Sub(st.GetStartedAt().AsTime())
		s.t.Logf("%s: %-18s %6.1f s, attempts: %d", b.id, st.GetName(), took.Seconds(), len(st.GetAttempts()))
	}
}
