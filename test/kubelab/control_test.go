//go:build linux

package kubelab

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// certs returns the names of the files that control planes share.
func certs() []string {
	return []string{"ca.crt", "ca.key", "sa.pub", "sa.key", "front-proxy-ca.crt", "front-proxy-ca.key"}
}

// TestControlPlaneJoins joins a host as a control plane, with the certificate key of the registered
// cluster. kubeadm decrypts the uploaded certificates, and writes the host's own certificates and
// manifests. Without a key, without certificates, or with another key, the run must fail with the
// reason and leave no token.
func TestControlPlaneJoins(t *testing.T) {
	bin, dir := prepared(t)
	began := time.Now()
	at := func(name string) {
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), name)
	}
	plane := StartPlane(t, bin, filepath.Join(dir, "plane"))
	host := StartHost(t, bin, filepath.Join(dir, "host"), hostUUID)
	s := openSite(t, dir)
	at("the API server and three peers are up")
	account := Account(t, plane)
	s.cli("cluster-ref", "add", "prod", "--kubeconfig", account)
	s.register(host, "m-1")
	if _, err := s.client.Plans().CreatePlan(t.Context(),
		&holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: "join", Steps: []*holdfastv1.Step{
			{Name: "join-cluster", TimeoutSeconds: 300,
				Kind: &holdfastv1.Step_Join{Join: &holdfastv1.KubeadmJoin{Role: "control-plane"}}},
			{Name: "verify", TimeoutSeconds: 300, Kind: &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{
				Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""},
				Taints: []string{"node-role.kubernetes.io/control-plane:NoSchedule"}}}},
		}}}); err != nil {
		t.Fatal(err)
	}
	right, wrong := strings.Repeat("0123456789abcdef", 4), strings.Repeat("fedcba9876543210", 4)
	key := func(text string) []string {
		file := filepath.Join(dir, "key")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--certificate-key-file", file}
	}
	for _, tt := range []struct {
		name   string
		key    []string
		upload bool
		joins  bool // kubeadm is called
		want   string
	}{
		{"no key", nil, false, false, "was registered without a certificate key"},
		{"no certificates", key(right), false, false, "has no uploaded certificates (secret kubeadm-certs"},
		{"another key", key(wrong), true, true, "error decoding secret data with provided key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.upload {
				plane.UploadCerts(right)
			}
			s.cli(append([]string{"cluster-ref", "add", "prod", "--kubeconfig", account}, tt.key...)...)
			r := s.ended(s.start("m-1", "join", nil), holdfastv1.Run_FAILED)
			if got := r.GetError().GetMessage(); !strings.Contains(got, tt.want) || strings.Contains(got, wrong) {
				t.Errorf("error of the run: got %q, want %q", got, tt.want)
			}
			if n := host.Joins(); n > 0 != tt.joins {
				t.Errorf("got %d calls of kubeadm join, want one: %v", n, tt.joins)
			}
			noTokens(t, plane)
		})
	}
	at("three failures")

	s.cli(append([]string{"cluster-ref", "add", "prod", "--kubeconfig", account}, key(right)...)...)
	host.Ready()
	before, letGo := host.Joins(), host.Hold()
	run := s.start("m-1", "join", nil)
	plane.Until("kubeadm join is called", func() error {
		if host.Joins() == before {
			return fmt.Errorf("no call; run %s:\n%s", run, s.log(run))
		}
		return nil
	})
	token := tokenOfJoin(t, plane)
	letGo()
	r := s.ended(run, holdfastv1.Run_SUCCEEDED)
	if as := r.GetSteps()[0].GetAttempts(); len(as) != 1 || as[0].GetEvidenceAfter()["join_token"] != "revoked" {
		t.Errorf("attempts to join: got %v, want one with its token revoked", as)
	}
	if host.Joins() != before+1 {
		t.Errorf("got %d calls of kubeadm join, want 1", host.Joins()-before)
	}
	at("joined as a control plane, and verified")
	noTokens(t, plane)
	plane.Until("the token is refused", func() error { // the API caches authentications for some seconds
		_, err := plane.As(token, http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/kubeadm-config", nil)
		if err == nil {
			return errors.New("the token is accepted")
		}
		if !strings.Contains(err.Error(), " 401 ") {
			return err
		}
		return nil
	})
	pki := filepath.Join(host.dir, "up", "etc", "kubernetes", "pki")
	for _, name := range certs() {
		theirs, err := os.ReadFile(filepath.Join(plane.dir, "pki", name))
		if err != nil {
			t.Fatal(err)
		}
		if ours, err := os.ReadFile(filepath.Join(pki, name)); err != nil ||
			!bytes.Equal(bytes.TrimSpace(ours), bytes.TrimSpace(theirs)) {
			t.Errorf("%s of the host: got another one than the cluster's (%v)", name, err)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(filepath.Dir(pki), "manifests", "kube-apiserver.yaml"))
	if want := "--etcd-servers=" + plane.etcd[0]; err != nil || !strings.Contains(string(manifest), want) {
		t.Errorf("manifest of the API server: got no %q: %v\n%s", want, err, manifest)
	}
	var node corev1.Node
	plane.Must(http.MethodGet, "/api/v1/nodes/m-1", "", nil, &node)
	if node.Spec.ProviderID != "holdfast://m-1" {
		t.Errorf("provider id of the node: got %q", node.Spec.ProviderID)
	}
	for name, secret := range map[string]string{"certificate key": right, "token": token[7:]} {
		if found := s.holds(secret); len(found) > 0 {
			t.Errorf("got the %s in %v", name, found)
		}
		if strings.Contains(s.log(run), secret) {
			t.Errorf("got the %s in the log of the run", name)
		}
	}
}

// noTokens checks that no attempt has left a token.
func noTokens(t *testing.T, plane *Plane) {
	t.Helper()
	var secrets corev1.SecretList
	plane.Must(http.MethodGet, "/api/v1/namespaces/kube-system/secrets", "", nil, &secrets)
	for _, one := range secrets.Items {
		if one.Annotations["holdfast.dev/attempt"] != "" {
			t.Errorf("got token %s, want none", one.Name)
		}
	}
}
