package kube_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/kube"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

const (
	uuid        = "4c4c4544-0042-3510-8051-b4c04f4d3232"
	uuidSwapped = "44454c4c-4200-1035-8051-b4c04f4d3232" // its first three fields little-endian
	otherUUID   = "4c4c4544-0042-3510-8051-b4c04f4d9999"
)

func machine(id string) *holdfastv1.Machine {
	return &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{TargetClusterRef: "prod"},
		Node: &holdfastv1.NodeRecord{SystemUuid: strings.ToUpper(uuid)}}
}

func node(name, systemUUID, providerID string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "node-uid",
		Labels: map[string]string{"rack": "r7"}},
		Spec: corev1.NodeSpec{ProviderID: providerID,
			Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: systemUUID, BootID: "boot-1"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "Kubelet" + string(ready),
				Message: "says so"}}}}
}

func op() providers.Op { return providers.Op{RunID: "run-1", Step: "join-cluster", Attempt: 1} }

func TestNodeStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes []*corev1.Node
		want  providers.NodeStatus
	}{
		"none": {nil, providers.NodeStatus{Reason: "NodeNotFound", Message: "cluster prod has no node m-1"}},
		"by name": {[]*corev1.Node{node("m-1", "", "", corev1.ConditionTrue)},
			providers.NodeStatus{Registered: true, Ready: true, Reason: "KubeletTrue", Node: "m-1"}},
		"by provider id": {[]*corev1.Node{node("host-7", otherUUID, "holdfast://m-1", corev1.ConditionTrue)},
			providers.NodeStatus{Registered: true, Ready: true, Reason: "KubeletTrue", Node: "host-7"}},
		"by system UUID": {[]*corev1.Node{node("host-7", uuid, "", corev1.ConditionTrue)},
			providers.NodeStatus{Registered: true, Ready: true, Reason: "KubeletTrue", Node: "host-7"}},
		"by a UUID with swapped bytes": {[]*corev1.Node{node("host-7", uuidSwapped, "", corev1.ConditionTrue)},
			providers.NodeStatus{Registered: true, Ready: true, Reason: "KubeletTrue", Node: "host-7"}},
		"not Ready": {[]*corev1.Node{node("m-1", uuid, "", corev1.ConditionFalse)},
			providers.NodeStatus{Registered: true, Reason: "KubeletFalse",
				Message: "node m-1: Ready is False (KubeletFalse): says so", Node: "m-1"}},
		"of that name, with another UUID": {[]*corev1.Node{node("m-1", otherUUID, "", corev1.ConditionTrue)},
			providers.NodeStatus{Reason: "NodeOfAnotherMachine", Message: "node m-1 has system UUID " + otherUUID +
				", and machine m-1 has " + uuid}},
		"name of another machine's node": {[]*corev1.Node{node("m-1", uuid, "holdfast://m-2", corev1.ConditionTrue)},
			providers.NodeStatus{Reason: "NodeOfAnotherMachine",
				Message: "node m-1 belongs to machine m-2 (its provider id is holdfast://m-2)"}},
		"unknown node with the name, ours with another": {[]*corev1.Node{node("m-1", "", "",
			corev1.ConditionTrue), node("host-7", "", "holdfast://m-1", corev1.ConditionTrue)},
			providers.NodeStatus{Registered: true, Ready: true, Reason: "KubeletTrue", Node: "host-7"}},
		"another has the name, and ours another": {[]*corev1.Node{node("m-1", otherUUID, "", corev1.ConditionTrue),
			node("host-7", uuid, "", corev1.ConditionTrue)},
			providers.NodeStatus{Registered: true, Ready: true, Reason: "KubeletTrue", Node: "host-7"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			for _, n := range tt.nodes {
				c.nodes[n.Name] = n
			}
			got, err := kube.New(c, newHost()).NodeStatus(t.Context(), machine("m-1"), "prod")
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.Registered {
				tt.want.BootID, tt.want.Labels, tt.want.Taints = "boot-1", map[string]string{"rack": "r7"},
					[]string{"gpu=yes:NoSchedule"}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeStatusUnknown(t *testing.T) {
	c := newCluster(t)
	j := kube.New(c, newHost())
	_, err := j.NodeStatus(t.Context(), machine("m-1"), "test")
	if got := providers.WhyNotAsked(err); got != providers.ClusterNotRegistered {
		t.Errorf("unregistered cluster: got %v, reason %q", err, got)
	}
	c.Close()
	if _, err := j.NodeStatus(t.Context(), machine("m-1"), "prod"); err == nil ||
		providers.ClassOf(err) != providers.Transient {
		t.Errorf("unavailable API: got %v, want class transient", err)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	c := newCluster(t)
	j := kube.New(c, newHost())
	if _, err := j.NodeStatus(t.Context(), machine("m-1"), "prod"); err != nil {
		t.Fatal(err)
	}
	j.Close()
	for end := time.Now().Add(5 * time.Second); c.open.Load() > 0; time.Sleep(time.Millisecond) { // sleep: a poll
		if time.Now().After(end) {
			t.Fatalf("got %d connections after Close, want none", c.open.Load())
		}
	}
}

// A token is created once for an attempt, by any leader and in any number of starts. It is only in
// the script, and deleted when the attempt has ended.
func TestJoinTokens(t *testing.T) {
	c, h := newCluster(t), newHost()
	for range 2 { // the second one is of another leader
		j := kube.New(c, h)
		for range 2 {
			if err := j.StartJoin(t.Context(), op(), machine("m-1"), providers.JoinSpec{ClusterRef: "prod",
				Role: "worker"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff([]string{"create bootstrap.kubernetes.io/token"}, c.changed()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	var made *corev1.Secret
	c.with(func() {
		for _, s := range c.secrets {
			made = s
		}
	})
	token := string(made.Data["token-id"]) + "." + string(made.Data["token-secret"])
	if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(token) || made.Name != "bootstrap-token-"+token[:6] {
		t.Errorf("got invalid token %q of secret %s", token, made.Name)
	}
	until, err := time.Parse(time.RFC3339, string(made.Data["expiration"]))
	if left := time.Until(until); err != nil || left > kube.TokenTTL || left < kube.TokenTTL-time.Minute {
		t.Errorf("validity of the token: got %s, want %s", left, kube.TokenTTL)
	}
	script := h.script(op().Token())
	for _, want := range []string{token, "apiServerEndpoint: " + strings.TrimPrefix(c.URL, "https://"), "- sha256:",
		"value: holdfast://m-1", "name: m-1"} {
		if !strings.Contains(script, want) {
			t.Errorf("script: got no %q", want)
		}
	}
	if strings.Contains(script, "controlPlane") {
		t.Error("worker: got the key of control planes")
	}
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-n", "-c", script).CombinedOutput(); err != nil {
		t.Errorf("got an invalid script: %s", out)
	}

	j := kube.New(c, h)
	for range 2 {
		if err := j.EndJoin(t.Context(), op(), machine("m-1"), providers.JoinSpec{ClusterRef: "prod"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.secrets) != 0 {
		t.Error("got the token, want it deleted")
	}
	if diff := cmp.Diff([]string{op().Token()}, h.killed); diff != "" {
		t.Errorf("kills of running commands (-want +got):\n%s", diff)
	}
}

// A token behind another owner's is revoked even if that one has ended since.
func TestRevokeBehindAnEndedToken(t *testing.T) {
	c, h := newCluster(t), newHost()
	spec := providers.JoinSpec{ClusterRef: "prod"}
	start := func() {
		t.Helper()
		if err := kube.New(c, h).StartJoin(t.Context(), op(), machine("m-1"), spec); err != nil {
			t.Fatal(err)
		}
	}
	start()
	var first string
	c.with(func() {
		for name, s := range c.secrets {
			first, s.Annotations = name, nil
		}
	})
	start()
	c.with(func() { delete(c.secrets, first) })
	if err := kube.New(c, h).EndJoin(t.Context(), op(), machine("m-1"), spec); err != nil {
		t.Fatal(err)
	}
	c.with(func() {
		if len(c.secrets) != 0 {
			t.Errorf("got %d tokens, want ours revoked", len(c.secrets))
		}
	})
}

// A token of another owner with our id is neither used nor deleted.
func TestForeignJoinToken(t *testing.T) {
	c, h := newCluster(t), newHost()
	j := kube.New(c, h)
	spec := providers.JoinSpec{ClusterRef: "prod"}
	if err := j.StartJoin(t.Context(), op(), machine("m-1"), spec); err != nil {
		t.Fatal(err)
	}
	c.with(func() {
		for _, s := range c.secrets {
			s.Annotations = nil
		}
	})
	h2 := newHost()
	j = kube.New(c, h2)
	if err := j.StartJoin(t.Context(), op(), machine("m-1"), spec); err != nil {
		t.Fatal(err)
	}
	if len(c.secrets) != 2 {
		t.Fatalf("got %d tokens, want the other's and ours", len(c.secrets))
	}
	if err := j.EndJoin(t.Context(), op(), machine("m-1"), spec); err != nil {
		t.Fatal(err)
	}
	c.with(func() {
		if len(c.secrets) != 1 {
			t.Errorf("got %d tokens, want the other's", len(c.secrets))
		}
		for _, s := range c.secrets {
			if s.Annotations != nil {
				t.Error("got the token of another owner deleted")
			}
		}
	})
}

func TestJoinRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*cluster)
		role   string
		id     string
		want   string
	}{
		"node of another machine": {func(c *cluster) { c.nodes["m-1"] = node("m-1", otherUUID, "", corev1.ConditionFalse) },
			"", "m-1", "node m-1 has system UUID " + otherUUID},
		"no cluster-info": {func(c *cluster) { c.info = nil }, "", "m-1", "kubeadm init phase bootstrap-token"},
		"another CA":      {func(c *cluster) { c.info = c.publish(c.URL, []byte("none")) }, "", "m-1", "its CA differs"},
		"no certificates": {func(*cluster) {}, "control-plane", "m-1", "secret kubeadm-certs"},
		"no role":         {func(*cluster) {}, "etcd", "m-1", `role is "etcd"`},
		"no name":         {func(*cluster) {}, "", "m_1", "valid node name"},
	} {
		t.Run(name, func(t *testing.T) {
			c, h := newCluster(t), newHost()
			tt.change(c)
			err := kube.New(c, h).StartJoin(t.Context(), op(), machine(tt.id),
				providers.JoinSpec{ClusterRef: "prod", Role: tt.role})
			if err == nil || !strings.Contains(err.Error(), tt.want) || providers.ClassOf(err) != providers.Unsupported {
				t.Errorf("got %v, want class unsupported with %q", err, tt.want)
			}
			if len(c.changed()) > 0 || len(h.scripts) > 0 {
				t.Error("got changes, want none")
			}
		})
	}
}

func TestJoinControlPlane(t *testing.T) {
	label := func(n *corev1.Node, key string) *corev1.Node {
		n.Labels = map[string]string{key: ""}
		return n
	}
	for name, tt := range map[string]struct {
		node  *corev1.Node
		known string
	}{
		"host without a node": {nil, "known=''\n"},
		"a control plane": {label(node("m-1", uuid, "", corev1.ConditionTrue),
			"node-role.kubernetes.io/control-plane"), "known='yes'\n"},
		"worker node": {label(node("m-1", uuid, "", corev1.ConditionTrue), "rack"), "known=''\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c, h := newCluster(t), newHost()
			c.secrets["kubeadm-certs"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-certs"}}
			if tt.node != nil {
				c.nodes[tt.node.Name] = tt.node
			}
			if err := kube.New(c, h).StartJoin(t.Context(), op(), machine("m-1"),
				providers.JoinSpec{ClusterRef: "prod", Role: "control-plane"}); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"controlPlane:\n  certificateKey: " + strings.Repeat("ab", 32), tt.known,
				"as='control plane'\n"} {
				if !strings.Contains(h.script(op().Token()), want) {
					t.Errorf("script: got no %q", want)
				}
			}
		})
	}
}

// Late effects are not sent, and the error reports that.
func TestJoinLate(t *testing.T) {
	c, h := newCluster(t), newHost()
	late := providers.WithNotAfter(t.Context(), time.Now().Add(-time.Second))
	j := kube.New(c, h)
	if err := j.StartJoin(late, op(), machine("m-1"),
		providers.JoinSpec{ClusterRef: "prod"}); providers.ClassOf(err) != providers.Late {
		t.Errorf("join: got %v, want class late", err)
	}
	if err := j.EndJoin(late, op(), machine("m-1"),
		providers.JoinSpec{ClusterRef: "prod"}); providers.ClassOf(err) != providers.Late {
		t.Errorf("end: got %v, want class late", err)
	}
	if len(c.changed()) > 0 || len(h.scripts) > 0 {
		t.Error("got changes, want none")
	}
}

func TestJoinStatus(t *testing.T) {
	h := newHost()
	j := kube.New(newCluster(t), h)
	leak := "abcdef.0123456789abcdef"
	for name, tt := range map[string]struct {
		status providers.CommandStatus
		state  providers.WorkState
		why    string
	}{
		"none":    {providers.CommandStatus{State: providers.WorkNone}, providers.WorkNone, ""},
		"running": {providers.CommandStatus{State: providers.WorkRunning}, providers.WorkRunning, ""},
		"done":    {providers.CommandStatus{State: providers.WorkDone}, providers.WorkDone, ""},
		"refused": {providers.CommandStatus{State: providers.WorkDone, ExitCode: 1,
			Output: []providers.Output{{Stream: "stdout", Data: []byte("[preflight] …\n")},
				{Stream: "stderr", Data: []byte("error: token " + leak + "\nis no good\n")}}}, providers.WorkFailed,
			"kubeadm exited with 1: error: token abcdef.**** is no good"},
		"lost": {providers.CommandStatus{State: providers.WorkFailed, Reason: "the host rebooted"}, providers.WorkFailed,
			"the host rebooted"},
	} {
		t.Run(name, func(t *testing.T) {
			h.status["t"] = tt.status
			state, why, err := j.JoinStatus(t.Context(), machine("m-1"), "t")
			if err != nil || state != tt.state || why != tt.why {
				t.Errorf("got %q, %q, %v, want %q, %q", state, why, err, tt.state, tt.why)
			}
		})
	}
}

// named is a provider that has only Join.
type named struct{ *kube.Joiner }

func (named) Kind() string { return "kube" }

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Setup {
		c, h := newCluster(t), newHost()
		h.end = func(string) providers.CommandStatus {
			c.with(func() { c.nodes["m-1"] = node("m-1", uuid, "holdfast://m-1", corev1.ConditionTrue) })
			return providers.CommandStatus{State: providers.WorkDone}
		}
		return providertest.Setup{Provider: named{kube.New(c, h)}, Machine: machine("m-1"), ClusterRef: "prod"}
	})
}

func TestParse(t *testing.T) {
	ca := []byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
	good := string(kubeconfig("https://10.0.0.1:6443", ca, "{token: hush}"))
	for name, tt := range map[string]struct{ text, problem string }{
		"good":       {good, ""},
		"no YAML":    {"hush: [", "not a kubeconfig"},
		"empty":      {"", "current-context"},
		"no context": {strings.Replace(good, "current-context: it", "current-context: hush", 1), "current-context"},
		"a program": {string(kubeconfig("https://10.0.0.1:6443", ca,
			"{exec: {apiVersion: client.authentication.k8s.io/v1, command: hush}}")), "with a program"},
		"a file": {string(kubeconfig("https://10.0.0.1:6443", ca, "{tokenFile: /hush}")), "refers to files"},
		"no CA":  {strings.Replace(good, "certificate-authority-data", "x", 1), "certificate-authority-data"},
		"no protection": {strings.Replace(good, "server:", "insecure-skip-tls-verify: true, server:", 1),
			"certificate-authority-data"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kube.Parse([]byte(tt.text))
			if (err != nil) != (tt.problem != "") || err != nil && (!strings.Contains(err.Error(), tt.problem) ||
				strings.Contains(err.Error(), "hush")) {
				t.Errorf("got %v, want %q and no value", err, tt.problem)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(kubeconfig("https://10.0.0.1:6443", []byte("x"), "{token: hush}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := kube.Parse(text)
		if err == nil && (cfg.ExecProvider != nil || cfg.AuthProvider != nil || cfg.CertFile != "" || cfg.KeyFile != "" ||
			cfg.BearerTokenFile != "" || cfg.CAFile != "" || cfg.Insecure) {
			t.Error("kubeconfig with programs or files: got no error")
		}
	})
}
