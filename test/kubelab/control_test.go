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

// certs are what control planes share.
func certs() []string {
	return []string{"ca.crt", "ca.key", "sa.pub", "sa.key", "front-proxy-ca.crt", "front-proxy-ca.key"}
}

// A host becomes a control plane with the certificate key that the cluster was registered with:
// kubeadm opens the uploaded certificates by it, makes the host's own of them, and its manifests.
// Without a key, without certificates, and with another key it says so, and leaves no token behind.
func TestControlPlaneJoins(t *testing.T) {
	bin, dir := prepared(t)
	began := time.Now()
	at := func(what string) {
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), what)
	}
	plane := StartPlane(t, bin, filepath.Join(dir, "plane"))
	host := StartHost(t, bin, filepath.Join(dir, "host"), hostUUID)
	s := openSite(t, dir)
	at("the API server and three peers are up")
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
	account := Account(t, plane)
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
		joins  bool // kubeadm is asked to
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
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if n := host.Joins(); n > 0 != tt.joins {
				t.Errorf("kubeadm was asked %d times to join, want that it is: %v", n, tt.joins)
			}
			noTokens(t, plane)
		})
	}
	at("three ways to fail")

	s.cli(append([]string{"cluster-ref", "add", "prod", "--kubeconfig", account}, key(right)...)...)
	host.Ready()
	before, letGo := host.Joins(), host.Hold()
	run := s.start("m-1", "join", nil)
	plane.Until("kubeadm is asked to join", func() error {
		if host.Joins() == before {
			return fmt.Errorf("it was not; run %s:\n%s", run, s.log(run))
		}
		return nil
	})
	token := tokenOfJoin(t, plane)
	letGo()
	r := s.ended(run, holdfastv1.Run_SUCCEEDED)
	if as := r.GetSteps()[0].GetAttempts(); len(as) != 1 || as[0].GetEvidenceAfter()["join_token"] != "revoked" {
		t.Errorf("attempts to join: %v, want one with its token revoked", as)
	}
	if host.Joins() != before+1 {
		t.Errorf("kubeadm was asked %d times to join, want once", host.Joins()-before)
	}
	at("joined as a control plane, and verified")
	noTokens(t, plane)
	plane.Until("the token opens nothing any more", func() error { // the API remembers for some seconds whom it has let in
		_, err := plane.As(token, http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/kubeadm-config", nil)
		if err == nil {
			return errors.New("it opens the API")
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
			t.Errorf("the host's %s is not that of the cluster (%v)", name, err)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(filepath.Dir(pki), "manifests", "kube-apiserver.yaml"))
	if want := "--etcd-servers=" + plane.etcd[0]; err != nil || !strings.Contains(string(manifest), want) {
		t.Errorf("the manifest of the API server lacks %q: %v\n%s", want, err, manifest)
	}
	var node corev1.Node
	plane.Must(http.MethodGet, "/api/v1/nodes/m-1", "", nil, &node)
	if node.Spec.ProviderID != "holdfast://m-1" {
		t.Errorf("the node has the provider id %q", node.Spec.ProviderID)
	}
	for what, secret := range map[string]string{"certificate key": right, "token": token[7:]} {
		if found := s.holds(secret); len(found) > 0 {
			t.Errorf("the %s is in %v", what, found)
		}
		if strings.Contains(s.log(run), secret) {
			t.Errorf("the run's log has the %s", what)
		}
	}
}

// noTokens sees that no attempt has left a token.
func noTokens(t *testing.T, plane *Plane) {
	t.Helper()
	var secrets corev1.SecretList
	plane.Must(http.MethodGet, "/api/v1/namespaces/kube-system/secrets", "", nil, &secrets)
	for _, one := range secrets.Items {
		if one.Annotations["holdfast.dev/attempt"] != "" {
			t.Errorf("token %s is still there", one.Name)
		}
	}
}
