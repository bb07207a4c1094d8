package kube_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/kube"
)

func pod(name, node, owner string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if owner != "" {
		controller := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Controller: &controller}}
	}
	return p
}

func (c *cluster) run(pods ...*corev1.Pod) {
	c.with(func() {
		for _, p := range pods {
			c.pods[p.Namespace+"/"+p.Name] = p
		}
	})
}

// nowhere returns a machine without a node.
func nowhere(id string) *holdfastv1.Machine { return &holdfastv1.Machine{MachineId: id} }

func TestDrain(t *testing.T) {
	c := newCluster(t)
	j := kube.New(c, newHost())
	c.nodes["m-1"] = node("m-1", uuid, "holdfast://m-1", corev1.ConditionTrue)
	mirror, done, ending := pod("static", "m-1", "Node"), pod("job", "m-1", "Job"), pod("ending", "m-1", "ReplicaSet")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	done.Status.Phase = corev1.PodSucceeded
	now := metav1.NewTime(time.Now())
	ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds = &now, new(int64)
	c.run(mirror, done, ending, pod("web", "m-1", "ReplicaSet"), pod("held", "m-1", "ReplicaSet"),
		pod("log", "m-1", "DaemonSet"), pod("elsewhere", "m-2", "ReplicaSet"))
	c.budget["default/held"] = "keep"
	evict := func(force bool) providers.DrainStatus {
		t.Helper()
		st, err := j.Evict(t.Context(), op(), machine("m-1"), "prod", force)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := evict(false)
	if st.Left != 3 || !strings.Contains(st.Waiting,
		"pod default/held: The disruption budget keep needs 1 healthy pods and has 1 currently") ||
		!strings.Contains(st.Waiting, "pods to end on m-1") {
		t.Errorf("got %+v, want three remaining pods, and the budget of one", st)
	}
	c.with(func() { delete(c.budget, "default/held"); delete(c.pods, "default/ending") })
	evict(false)
	if st := evict(false); st.Left != 0 || st.Node != "m-1" {
		t.Errorf("got %+v, want no remaining pod on m-1", st)
	}
	got := c.changed()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"evict default/held", "evict default/web"}, got); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}

	c.run(pod("orphan", "m-1", ""))
	if _, err := j.Evict(t.Context(), op(), machine("m-1"), "prod", false); err == nil ||
		!strings.Contains(err.Error(), "pod default/orphan") || providers.ClassOf(err) != providers.Unsupported {
		t.Errorf("pod without a controller: got %v", err)
	}
	evict(true)
	if st := evict(true); st.Left != 0 {
		t.Errorf("forced drain: got remaining pods %+v", st)
	}
	if st, err := j.Evict(t.Context(), op(), nowhere("m-3"), "prod", false); err != nil ||
		st != (providers.DrainStatus{}) {
		t.Errorf("machine without a node: got %+v, %v", st, err)
	}
}

// A pod that cannot be evicted does not keep the others from being evicted. One whose namespace is
// being deleted is leaving.
func TestRefusedEvictions(t *testing.T) {
	c := newCluster(t)
	j := kube.New(c, newHost())
	c.nodes["m-1"] = node("m-1", uuid, "holdfast://m-1", corev1.ConditionTrue)
	c.run(pod("a-ends", "m-1", "ReplicaSet"), pod("b-refused", "m-1", "ReplicaSet"), pod("c-web", "m-1", "ReplicaSet"))
	c.refused = map[string]metav1.CauseType{"default/a-ends": corev1.NamespaceTerminatingCause, "default/b-refused": ""}
	st, err := j.Evict(t.Context(), op(), machine("m-1"), "prod", false)
	if err != nil || st.Left != 3 || !strings.Contains(st.Waiting, "default/b-refused: ") ||
		!strings.Contains(st.Waiting, "pods to end on m-1: default/a-ends, default/c-web") {
		t.Errorf("got %+v, %v, want a pod whose namespace ends, one refused, and one evicted", st, err)
	}
	if diff := cmp.Diff([]string{"evict default/c-web"}, c.changed()); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
	c.with(func() { delete(c.pods, "default/a-ends") })
	if _, err := j.Evict(t.Context(), op(), machine("m-1"), "prod", false); providers.ClassOf(err) != providers.Auth {
		t.Errorf("all pods refused: got %v, want class auth", err)
	}
}

// TestDrainNeedsEvidence checks that a node is cordoned and drained only if it belongs to the
// machine by evidence that the machine's agent cannot report.
func TestDrainNeedsEvidence(t *testing.T) {
	reported := machine("m-1") // the system UUID is a fact that its agent reported
	reported.Agent = &holdfastv1.AgentRecord{Hostname: "host-7"}
	byBMC := nowhere("m-1")
	byBMC.Hardware = &holdfastv1.HardwareInventory{Uuid: uuid}
	byBMC.Node = &holdfastv1.NodeRecord{Hostname: "host-7"}
	annotated := func(id string) *corev1.Node {
		n := node("host-7", uuid, "", corev1.ConditionTrue)
		n.Annotations = map[string]string{"holdfast/machine": id}
		return n
	}
	for _, tt := range []struct {
		name string
		m    *holdfastv1.Machine
		node *corev1.Node
		want bool
	}{
		{"the provider id of the join", reported, node("host-7", uuid, "holdfast://m-1", corev1.ConditionTrue), true},
		{"the UUID that the BMC reports", byBMC, node("host-7", uuidSwapped, "", corev1.ConditionTrue), true},
		{"an annotation in the cluster", reported, annotated("m-1"), true},
		{"an annotation for another machine", byBMC, annotated("m-2"), false},
		{"the UUID that the agent reports", reported, node("host-7", uuid, "", corev1.ConditionTrue), false},
		{"the name that the agent reports", reported, node("host-7", "", "", corev1.ConditionTrue), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t)
			j := kube.New(c, newHost())
			c.nodes["host-7"] = tt.node
			c.run(pod("web", "host-7", "ReplicaSet"))
			cordon := j.Cordon(t.Context(), op(), tt.m, "prod", true)
			_, evict := j.Evict(t.Context(), op(), tt.m, "prod", false)
			for what, err := range map[string]error{"cordon": cordon, "evict": evict} {
				if got := err == nil; got != tt.want {
					t.Errorf("%s: got %v, want success %t", what, err, tt.want)
				} else if err != nil && (providers.ClassOf(err) != providers.Unsupported ||
					!strings.Contains(err.Error(), "kubectl annotate node host-7 holdfast/machine=m-1")) {
					t.Errorf("%s: got %v, want class unsupported and a remedy", what, err)
				}
			}
			if got := c.changed(); (len(got) > 0) != tt.want {
				t.Errorf("got the changes %v, want some: %t", got, tt.want)
			}
		})
	}
}

// TestDrainOfSlowCluster checks a cluster in which listing the pods takes longer than an effect
// may wait, and so does each eviction.
func TestDrainOfSlowCluster(t *testing.T) {
	c := newCluster(t)
	j := kube.New(c, newHost())
	c.nodes["m-1"] = node("m-1", uuid, "holdfast://m-1", corev1.ConditionTrue)
	c.run(pod("a", "m-1", "ReplicaSet"), pod("b", "m-1", "ReplicaSet"), pod("c", "m-1", "ReplicaSet"))
	const valid = 200 * time.Millisecond
	c.budget["default/b"], c.dawdle = "keep", valid
	asked := 0
	ctx := providers.WithConfirm(providers.WithNotAfter(t.Context(), time.Now().Add(-time.Second)),
		func(context.Context) (time.Time, error) {
			asked++
			return time.Now().Add(valid), nil
		})
	if st, err := j.Evict(ctx, op(), machine("m-1"), "prod", false); err != nil || st.Left != 3 {
		t.Errorf("got %+v, %v, want three evictions", st, err)
	}
	got := c.changed()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"evict default/a", "evict default/c"}, got); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
	if asked < 3 {
		t.Errorf("got %d confirmations, want one for each effect after the time", asked)
	}
	replaced := providers.WithConfirm(ctx, func(context.Context) (time.Time, error) {
		return time.Time{},
			errors.New("another peer leads")
	})
	if _, err := j.Evict(replaced, op(), machine("m-1"), "prod", false); providers.ClassOf(err) != providers.Late {
		t.Errorf("replaced leader: got %v, want class late", err)
	}
	if err := j.Cordon(replaced, op(), machine("m-1"), "prod", true); providers.ClassOf(err) != providers.Late {
		t.Errorf("cordon of a replaced leader: got %v, want class late", err)
	}
	if err := j.Cordon(ctx, op(), machine("m-1"), "prod", true); err != nil {
		t.Error(err)
	}
}

func TestCordon(t *testing.T) {
	c := newCluster(t)
	j := kube.New(c, newHost())
	c.nodes["m-1"] = node("m-1", uuid, "holdfast://m-1", corev1.ConditionTrue)
	for _, on := range []bool{true, true, false, false} {
		if err := j.Cordon(t.Context(), op(), machine("m-1"), "prod", on); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"cordon m-1 true", "cordon m-1 false"}, c.changed()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if err := j.Cordon(t.Context(), op(), nowhere("m-2"), "prod", true); err == nil ||
		!strings.Contains(err.Error(), "has no node of the machine") {
		t.Errorf("machine without a node: got %v", err)
	}
}

// unauthorized is a cluster with an invalid token in its kubeconfig.
type unauthorized struct{ *cluster }

func (u unauthorized) Cluster(context.Context, providers.Machine, string) (kube.Registered, error) {
	return kube.Registered{Kubeconfig: kubeconfig(u.URL, u.ca, "{token: wrong}"), Version: "1"}, nil
}

func TestUnauthorized(t *testing.T) {
	c := newCluster(t)
	if _, err := kube.New(unauthorized{c}, newHost()).NodeStatus(t.Context(), machine("m-1"),
		"prod"); providers.ClassOf(err) != providers.Auth {
		t.Errorf("got %v, want an error of class auth", err)
	}
}
