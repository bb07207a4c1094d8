package kube

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-metal/holdfast/providers"
)

// The reasons for a missing node.
const (
	nodeNotFound  = "NodeNotFound"
	nodeOfAnother = "NodeOfAnotherMachine"
)

// NodeStatus returns the state of the machine's node in the cluster.
func (j *Joiner) NodeStatus(ctx context.Context, m providers.Machine, ref string) (providers.NodeStatus, error) {
	op := fmt.Sprintf("find the node of %s in %s", m.GetMachineId(), ref)
	a, err := j.api(ctx, m, ref)
	if err != nil {
		return providers.NodeStatus{}, err
	}
	n, other, err := a.node(ctx, m)
	switch {
	case err != nil:
		return providers.NodeStatus{}, classify(op, err)
	case n == nil && other != "":
		return providers.NodeStatus{Reason: nodeOfAnother, Message: other}, nil
	case n == nil:
		message := fmt.Sprintf("cluster %s has no node %s", ref, strings.Join(NodeNames(m), " or "))
		return providers.NodeStatus{Reason: nodeNotFound, Message: message}, nil
	}
	return statusOf(n), nil
}

func statusOf(n *corev1.Node) providers.NodeStatus {
	s := providers.NodeStatus{
		Registered: true,
		Node:       n.Name,
		BootID:     n.Status.NodeInfo.BootID,
		Labels:     n.Labels,
		Reason:     "NoReadyCondition",
	}
	for _, t := range n.Spec.Taints {
		s.Taints = append(s.Taints, taintText(t))
	}
	message := "node " + n.Name + " has not reported yet"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		s.Ready, s.Reason = c.Status == corev1.ConditionTrue, clip(c.Reason)
		message = conditionText(n.Name, c)
	}
	if s.Ready {
		message = ""
	}
	parts := []string{}
	if message != "" {
		parts = append(parts, message)
	}
	for _, c := range n.Status.Conditions { // pressure and the like: true is bad
		if c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue {
			parts = append(parts, conditionText(n.Name, c))
		}
	}
	if n.Spec.Unschedulable {
		parts = append(parts, "node "+n.Name+" is cordoned")
	}
	s.Message = clip(strings.Join(parts, "; "))
	return s
}

func conditionText(node string, c corev1.NodeCondition) string {
	text := fmt.Sprintf("node %s: %s is %s", node, c.Type, c.Status)
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

// taintText formats a taint like kubectl: key=value:Effect, or key:Effect.
func taintText(t corev1.Taint) string {
	if t.Value == "" {
		return fmt.Sprintf("%s:%s", t.Key, t.Effect)
	}
	return fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
}
