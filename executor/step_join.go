package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// proofToken says what has become of what the join was let in with.
const proofToken = "join_token"

// controlPlane is the role of a join that is not a worker's.
const controlPlane = "control-plane"

// join looks at the node first: one that is Ready needs no joining. The join itself is known by the
// attempt's token on the host. What it was let in with is taken away when the attempt is over.
func (a *attempt) join(joiner providers.ClusterJoiner, s *holdfastv1.KubeadmJoin) action {
	spec := a.joinSpec(s)
	return action{do: func(ctx context.Context) error {
		begun, err := a.joinHost(ctx, joiner, spec)
		if begun {
			a.endJoin(joiner, spec) //nolint:contextcheck // the attempt's context may have ended, the term's goes on
		}
		return err
	}}
}

func (a *attempt) joinSpec(s *holdfastv1.KubeadmJoin) providers.JoinSpec {
	return providers.JoinSpec{ClusterRef: a.clusterRef(s.GetClusterRef()), Role: s.GetRole()}
}

// joinHost reports whether a join may have begun, by this leader or one before.
func (a *attempt) joinHost(ctx context.Context, joiner providers.ClusterJoiner, spec providers.JoinSpec) (begun bool, err error) {
	token := a.op.Token()
	var state providers.WorkState
	var detail string
	joined := false
	const first = "the cluster to answer"
	if err := a.poll(ctx, first, func(ctx context.Context) (_ bool, err error) {
		node, err := joiner.NodeStatus(ctx, a.machine, spec.ClusterRef)
		if err != nil {
			return false, err
		}
		joined = node.Registered && node.Ready && is(node, spec.Role)
		if state, detail, err = joiner.JoinStatus(ctx, a.machine, token); err != nil {
			return false, err
		}
		if joined && state == providers.WorkNone {
			old, err := a.fromBefore(ctx, node)
			if err != nil || old {
				a.awaits("the cluster to notice that the node of this machine is gone: what it has is from before it booted last")
				return false, err
			}
		}
		return true, nil
	}); err != nil {
		return a.adopted != nil, err
	}
	if state == providers.WorkNone && !joined {
		err := a.effect(ctx, "join "+spec.ClusterRef, func(ctx context.Context) error {
			return joiner.StartJoin(ctx, a.op, a.machine, spec)
		})
		if err != nil {
			return true, err
		}
	}
	begun = a.adopted != nil || state != providers.WorkNone || !joined
	return begun, a.poll(ctx, "the node to register in "+spec.ClusterRef, func(ctx context.Context) (_ bool, err error) {
		if state, detail, err = joiner.JoinStatus(ctx, a.machine, token); err != nil {
			return false, err
		}
		if state == providers.WorkFailed {
			return false, &failure{fmt.Errorf("join failed: %s", clean(detail))}
		}
		node, err := joiner.NodeStatus(ctx, a.machine, spec.ClusterRef)
		if err != nil || !node.Registered || state == providers.WorkRunning {
			return false, err
		}
		a.prove(nodeProof(spec.ClusterRef, node))
		a.message = "registered in " + spec.ClusterRef
		return true, nil
	})
}

// is reports whether a node is what it is to be joined as, as far as its labels can be told: a
// control plane's join that broke off leaves a node that is Ready, and no control plane.
func is(n providers.NodeStatus, role string) bool {
	if role != controlPlane || n.Labels == nil {
		return true
	}
	_, ok := n.Labels["node-role.kubernetes.io/control-plane"]
	return ok
}

// fromBefore reports whether what a cluster knows of a node is from before its host booted last. A
// disk that was written meanwhile has no kubelet on it that the cluster knows, though the node is
// shown as Ready until the cluster misses it.
func (a *attempt) fromBefore(ctx context.Context, n providers.NodeStatus) (bool, error) {
	look, ok := a.provider.(providers.Inspector)
	if !ok || n.BootID == "" {
		return false, nil
	}
	f, err := look.Inspect(ctx, a.machine)
	return err == nil && f.BootID != "" && f.BootID != n.BootID, err
}

// endJoinTime bounds how long it is tried to end a join.
const endJoinTime = 20 * time.Second

// endJoin takes away what a join was let in with. When it is only the term that is over it does
// nothing: the next leader goes on with the join.
func (a *attempt) endJoin(joiner providers.ClusterJoiner, spec providers.JoinSpec) {
	ender, ok := joiner.(providers.JoinEnder)
	if !ok {
		return
	}
	ctx, stop := context.WithTimeout(a.whole, endJoinTime)
	defer stop()
	err := a.effect(ctx, "revoke the token of the join", func(ctx context.Context) error {
		return ender.EndJoin(ctx, a.op, a.machine, spec)
	})
	switch {
	case err == nil:
		a.prove(map[string]string{proofToken: "revoked"})
	case a.whole.Err() == nil:
		a.prove(map[string]string{proofToken: "not known to be revoked: it expires by itself"})
		a.say("the join could not be ended, its token expires by itself: %v", err)
	}
}

// verify waits until the node is registered and Ready, with the labels and taints that it is to
// have. It changes nothing.
func (a *attempt) verify(joiner providers.ClusterJoiner, s *holdfastv1.VerifyInCluster) action {
	ref := a.clusterRef(s.GetClusterRef())
	what := "the node to be Ready in " + ref
	ready := func(ctx context.Context) error {
		return a.poll(ctx, what, func(ctx context.Context) (bool, error) {
			node, err := joiner.NodeStatus(ctx, a.machine, ref)
			if err != nil {
				return false, err
			}
			if !node.Registered || !node.Ready {
				a.awaits(what + suffix(clean(node.Message)))
				return false, nil
			}
			if lacks := lacking(node, s); lacks != "" {
				a.awaits("the node to have " + lacks + " in " + ref)
				return false, nil
			}
			a.prove(nodeProof(ref, node))
			a.message = "Ready in " + ref
			return true, nil
		})
	}
	return action{do: func(ctx context.Context) error {
		most := s.GetTimeout().AsDuration()
		if most <= 0 {
			return ready(ctx)
		}
		short, stop := context.WithTimeout(ctx, most)
		defer stop()
		err := ready(short)
		if err != nil && short.Err() != nil && ctx.Err() == nil { // the attempt goes on, and does not know what this one has waited for
			return providers.Errorf(providers.Timeout, "verify "+a.machine.GetMachineId(), "gave up after %s waiting for %s%s", most, a.waiting(), cause(err))
		}
		return err
	}}
}

// lacking lists the labels and taints that a node is to have and has not.
func lacking(n providers.NodeStatus, s *holdfastv1.VerifyInCluster) string {
	var lacks []string
	for _, name := range slices.Sorted(maps.Keys(s.GetLabels())) {
		if got, ok := n.Labels[name]; !ok || got != s.GetLabels()[name] {
			lacks = append(lacks, "label "+name+"="+s.GetLabels()[name])
		}
	}
	for _, t := range s.GetTaints() {
		if !slices.Contains(n.Taints, t) {
			lacks = append(lacks, "taint "+t)
		}
	}
	return strings.Join(lacks, ", ")
}

func nodeProof(ref string, n providers.NodeStatus) map[string]string {
	proof := map[string]string{"cluster": ref, "registered": strconv.FormatBool(n.Registered), "ready": strconv.FormatBool(n.Ready)}
	if n.Node != "" {
		proof["node"] = n.Node
	}
	return proof
}
