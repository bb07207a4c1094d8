//go:build linux

package kubelab

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/sshd"
)

const hostUUID = "4c4c4544-0042-3510-8051-b4c04f4d3232"

// TestMachineInACluster joins a machine to a real cluster while the leader dies, verifies it,
// upgrades it under a disruption budget, makes the API unavailable, and deletes the node. The token
// of the join must be valid only while it is needed.
func TestMachineInACluster(t *testing.T) {
	bin, dir := prepared(t)
	began := time.Now()
	at := func(name string) {
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), name)
	}
	plane := StartPlane(t, bin, filepath.Join(dir, "plane"))
	at("the API server is up")
	host := StartHost(t, bin, filepath.Join(dir, "host"), hostUUID)
	s := openSite(t, dir)
	at("three peers are up")

	s.cli("cluster-ref", "add", "prod", "--kubeconfig", Account(t, plane))
	if out := s.cli("cluster-ref", "list", "-o", "name"); out != "prod\n" {
		t.Errorf("registered clusters: %q, want prod", out)
	}
	s.register(host, "m-1", "m-2")
	step := func(name string, seconds int32, kind *holdfastv1.Step) *holdfastv1.Step {
		kind.Name, kind.TimeoutSeconds = name, seconds
		return kind
	}
	if _, err := s.client.Plans().CreatePlan(t.Context(),
		&holdfastv1.CreatePlanRequest{Plan: &holdfastv1.Plan{PlanId: "join", Steps: []*holdfastv1.Step{
			step("join-cluster", 300, &holdfastv1.Step{Kind: &holdfastv1.Step_Join{Join: &holdfastv1.KubeadmJoin{}}}),
			step("verify", 300,
				&holdfastv1.Step{Kind: &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{
					Labels: map[string]string{"rack": "r7"}}}}),
		}}}); err != nil {
		t.Fatal(err)
	}
	s.inCluster("m-1", "false", "NodeNotFound")

	t.Run("node of another machine", func(t *testing.T) {
		plane.Must(http.MethodPost, "/api/v1/nodes", "", corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m-2"},
			Spec: corev1.NodeSpec{ProviderID: "holdfast://m-9"}}, nil)
		r := s.ended(s.start("m-2", "join", nil), holdfastv1.Run_FAILED)
		if want := "node m-2 belongs to machine m-9"; !strings.Contains(r.GetError().GetMessage(), want) {
			t.Errorf("error of the run: got %q, want %q", r.GetError().GetMessage(), want)
		}
		if n := host.Joins(); n != 0 {
			t.Errorf("got %d calls of kubeadm join, want 0", n)
		}
	})

	letGo := host.Hold()
	run := s.start("m-1", "join", nil)
	plane.Until("kubeadm join is called", func() error {
		if host.Joins() == 0 {
			return fmt.Errorf("no call; run %s:\n%s", run, s.log(run))
		}
		return nil
	})
	token := tokenOfJoin(t, plane)
	at("kubeadm has a token")
	const info, review = "/api/v1/namespaces/kube-public/configmaps/cluster-info",
		"/apis/authentication.k8s.io/v1/selfsubjectreviews"
	asked := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
	if b, err := plane.As(token, http.MethodPost, review, asked); err != nil ||
		!strings.Contains(string(b), "system:bootstrappers:kubeadm:default-node-token") {
		t.Errorf("read cluster-info with the token: %v, %s", err, b)
	}
	if b, err := plane.As("", http.MethodGet, info, nil); err != nil ||
		!strings.Contains(string(b), "jws-kubeconfig-"+token[:6]) {
		t.Errorf("verify the signature of cluster-info: %v", err)
	}
	if b, err := plane.As(token, http.MethodGet, "/api/v1/namespaces/kube-system/secrets", nil); err == nil {
		t.Errorf("read secrets with the token: got %s, want a refusal", b)
	}
	leader, err := s.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	letGo()
	at("the leader is dead, kubeadm continues")
	s.waits(run, "node m-1: Ready is False (KubeletNotReady): cni plugin not initialized")
	at("the node is registered, and not Ready")
	plane.Until("the token is refused", func() error { // the API server notices it a moment later
		if _, err := plane.As(token, http.MethodPost, review, asked); err == nil || !strings.Contains(err.Error(), " 401 ") {
			return fmt.Errorf("token is accepted: %w", err)
		}
		return nil
	})
	var secrets corev1.SecretList
	plane.Must(http.MethodGet, "/api/v1/namespaces/kube-system/secrets", "", nil, &secrets)
	for _, one := range secrets.Items {
		if one.Annotations["holdfast.dev/attempt"] != "" {
			t.Errorf("got token %s, want none", one.Name)
		}
	}
	if err := leader.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	host.Ready()
	s.waits(run, "lacks label rack=r7")
	label := map[string]any{"metadata": map[string]any{"labels": map[string]string{"rack": "r7"}}}
	plane.Must(http.MethodPatch, "/api/v1/nodes/m-1", "application/merge-patch+json", label, nil)
	r := s.ended(run, holdfastv1.Run_SUCCEEDED)
	if as := r.GetSteps()[0].GetAttempts(); len(as) != 1 || as[0].GetEvidenceAfter()["join_token"] != "revoked" ||
		as[0].GetEvidenceAfter()["node"] != "m-1" {
		t.Errorf("attempts to join: got %v, want one with its token revoked", as)
	}
	at("joined and verified")
	var node corev1.Node
	plane.Must(http.MethodGet, "/api/v1/nodes/m-1", "", nil, &node)
	if node.Spec.ProviderID != "holdfast://m-1" || node.Status.NodeInfo.SystemUUID != hostUUID {
		t.Errorf("node: got provider id %q and system UUID %q", node.Spec.ProviderID, node.Status.NodeInfo.SystemUUID)
	}
	s.inCluster("m-1", "true", "KubeletReady")

	s.ended(s.start("m-1", "join", nil), holdfastv1.Run_SUCCEEDED)
	if n := host.Joins(); n != 1 {
		t.Errorf("got %d calls of kubeadm join, want 1", n)
	}
	at("joined again: no effect")

	drained(t, plane, s)
	at("upgraded: drained behind a disruption budget")

	plane.KillAPI()
	s.inCluster("m-1", "unknown", "Provider")
	plane.StartAPI()
	s.inCluster("m-1", "true", "KubeletReady")
	at("the API is back")
	plane.Must(http.MethodDelete, "/api/v1/nodes/m-1", "", nil, nil)
	s.inCluster("m-1", "false", "NodeNotFound")
	at("the node is gone")
	secret := token[7:]
	if found := s.holds(secret); len(found) > 0 {
		t.Errorf("got the secret half of the token in %v", found)
	}
	if strings.Contains(s.log(run), secret) {
		t.Error("got the token in the log of the run")
	}
	s.cli("cluster-ref", "delete", "prod", "--yes")
	s.inCluster("m-1", "unknown", "ClusterNotRegistered")
}

// tokenOfJoin returns the only token that was created for a join.
func tokenOfJoin(t *testing.T, plane *Plane) string {
	t.Helper()
	var secrets corev1.SecretList
	plane.Must(http.MethodGet, "/api/v1/namespaces/kube-system/secrets", "", nil, &secrets)
	var tokens []string
	for _, s := range secrets.Items {
		if s.Annotations["holdfast.dev/attempt"] != "" {
			tokens = append(tokens, string(s.Data["token-id"])+"."+string(s.Data["token-secret"]))
		}
	}
	if len(tokens) != 1 {
		t.Fatalf("got %d tokens of joins, want 1", len(tokens))
	}
	plane.Until("cluster-info is signed with the token", func() error { // by a controller
		var info corev1.ConfigMap
		plane.Must(http.MethodGet, "/api/v1/namespaces/kube-public/configmaps/cluster-info", "", nil, &info)
		if info.Data["jws-kubeconfig-"+tokens[0][:6]] == "" {
			return fmt.Errorf("no signature")
		}
		return nil
	})
	return tokens[0]
}

// drained upgrades the machine with the built-in plan. The host has no kubectl, so everything uses
// the API.
func drained(t *testing.T, plane *Plane, s *site) {
	t.Helper()
	const pods = "/api/v1/namespaces/default/pods"
	plane.Until("pods can be created", func() error {
		_, err := plane.Do(http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", "", nil)
		return err
	})
	controller := true
	pod := func(name, kind string) {
		plane.Must(http.MethodPost, pods, "",
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "0",
					Controller: &controller}}},
				Spec: corev1.PodSpec{NodeName: "m-1", Containers: []corev1.Container{{Name: "c", Image: "none"}}}}, nil)
		status := map[string]any{"status": corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
		plane.Must(http.MethodPatch, pods+"/"+name+"/status", "application/strategic-merge-patch+json", status, nil)
	}
	pod("web", "ReplicaSet")
	pod("log", "DaemonSet")
	one := intstr.FromInt32(1)
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	plane.Must(http.MethodPost, budgets, "", policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "keep-web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}, nil)
	plane.Until("the budget is observed", func() error {
		var b policyv1.PodDisruptionBudget
		plane.Must(http.MethodGet, budgets+"/keep-web", "", nil, &b)
		if b.Status.ObservedGeneration == 0 || b.Status.CurrentHealthy != 1 {
			return fmt.Errorf("status is %+v", b.Status)
		}
		return nil
	})
	run := s.start("m-1", "plan/upgrade", nil)
	s.waits(run, "pod default/web", "keep-web")
	var node corev1.Node
	plane.Must(http.MethodGet, "/api/v1/nodes/m-1", "", nil, &node)
	if !node.Spec.Unschedulable {
		t.Error("node during the drain: want it cordoned")
	}
	plane.Must(http.MethodDelete, budgets+"/keep-web", "", nil, nil)
	r := s.ended(run, holdfastv1.Run_SUCCEEDED)
	for _, st := range r.GetSteps() {
		if strings.HasPrefix(st.GetName(), "drain") && st.GetState() != holdfastv1.StepStatus_SUCCEEDED {
			t.Errorf("step %s: got %s", st.GetName(), st.GetState())
		}
	}
	var after corev1.Node
	plane.Must(http.MethodGet, "/api/v1/nodes/m-1", "", nil, &after)
	if after.Spec.Unschedulable {
		t.Error("node after the upgrade: want it uncordoned")
	}
	if _, err := plane.Do(http.MethodGet, pods+"/web", "", nil); err == nil {
		t.Error("got pod web, want it evicted")
	}
	if _, err := plane.Do(http.MethodGet, pods+"/log", "", nil); err != nil {
		t.Errorf("pod of a daemon set: want it kept, got %v", err)
	}
}

// prepared skips a test unless it was requested, and fails it if it cannot run. It returns the
// programs of a control plane, and a directory for a plane and a host.
func prepared(t *testing.T) (bin, dir string) {
	t.Helper()
	if os.Getenv("E2E_KUBE") == "" {
		t.Skip("NOT TESTED against a real Kubernetes API: run make e2e-kube")
	}
	if m := sshd.Missing(); m != "" || os.Geteuid() != 0 {
		t.Fatal("NOT TESTED against a real Kubernetes API: needs root and sshd: " + m)
	}
	bin, err := Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, err = os.MkdirTemp("", "kubelab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	for _, d := range []string{"plane", "host"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // sshd requires it
		t.Fatal(err)
	}
	return bin, dir
}

// register registers machines that are all the same host.
func (s *site) register(host *Host, ids ...string) {
	s.t.Helper()
	if _, err := s.client.Secrets().PutSecret(s.t.Context(), &holdfastv1.PutSecretRequest{Name: "ssh", Type: "ssh",
		Values: map[string]string{"username": host.User, "private_key": host.PrivateKey}}); err != nil {
		s.t.Fatal(err)
	}
	for _, id := range ids {
		if _, err := s.client.Machines().RegisterMachine(s.t.Context(),
			&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id,
				Spec: &holdfastv1.MachineSpec{Provider: "hosts", SshEndpoint: host.Addr, SshCredentialsRef: "ssh",
					SshHostKeys: []string{host.HostKey}, TargetClusterRef: "prod"}}}); err != nil {
			s.t.Fatal(err)
		}
	}
}
