package step

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// evidenceToken is the evidence of the outcome of the bootstrap token of a join.
const evidenceToken = "join_token"

// controlPlane is the role of a join of a control plane node.
const controlPlane = "control-plane"

// joinStep joins a host to a cluster, or verifies that it is in one.
type joinStep struct{ *Attempt }

// join joins the host to a cluster. It reads the node first: a node that is Ready need
// not join. The host knows the join by the attempt's token. The bootstrap token of the
// join is revoked when the attempt ends.
func (a joinStep) join(joiner providers.ClusterJoiner, s *holdfastv1.KubeadmJoin) Action {
	spec := a.joinSpec(s)
	return Action{Do: func(ctx context.Context) error {
		begun, err := a.joinHost(ctx, joiner, spec)
		if begun {
			a.endJoin(joiner, spec) //nolint:contextcheck // the attempt's context may have ended, the term's has not
		}
		return err
	}}
}

func (a joinStep) joinSpec(s *holdfastv1.KubeadmJoin) providers.JoinSpec {
	return providers.JoinSpec{ClusterRef: a.clusterRef(s.GetClusterRef()), Role: s.GetRole()}
}

// joinHost joins the host and waits until the node is registered. It reports whether a
// join may have begun, under this leader or an earlier one.
func (a joinStep) joinHost(
	ctx context.Context, joiner providers.ClusterJoiner, spec providers.JoinSpec,
) (begun bool, err error) {
	token := a.Op.Token()
	var state providers.WorkState
	var detail string
	joined := false
	if err := a.Poll(ctx, answer(cluster, ""), func(ctx context.Context) (_ bool, err error) {
		node, err := joiner.NodeStatus(ctx, a.Machine, spec.ClusterRef)
		if err != nil {
			return false, err
		}
		joined = node.Registered && node.Ready && is(node, spec.Role)
		if state, detail, err = joiner.JoinStatus(ctx, a.Machine, token); err != nil {
			return false, err
		}
		if joined && state == providers.WorkNone {
			old, err := a.fromBefore(ctx, node)
			if err != nil || old {
				a.awaits(inDetail(nodeIn(spec.ClusterRef), "known as gone", "its data is from before the last boot"))
				return false, err
			}
		}
		return true, nil
	}); err != nil {
		return a.Adopted, err
	}
	if state == providers.WorkNone && !joined {
		err := a.Effect(ctx, "join "+spec.ClusterRef, func(ctx context.Context) error {
			return joiner.StartJoin(ctx, a.Op, a.Machine, spec)
		})
		if err != nil {
			return true, err
		}
	}
	begun = a.Adopted || state != providers.WorkNone || !joined
	return begun, a.Poll(ctx, effect(nodeIn(spec.ClusterRef), "registered"),
		func(ctx context.Context) (_ bool, err error) {
			if state, detail, err = joiner.JoinStatus(ctx, a.Machine, token); err != nil {
				return false, err
			}
			if state == providers.WorkFailed {
				return false, &Failure{fmt.Errorf("join failed: %s", task.Clean(detail))}
			}
			node, err := joiner.NodeStatus(ctx, a.Machine, spec.ClusterRef)
			if err != nil || !node.Registered || state == providers.WorkRunning {
				return false, err
			}
			a.AddEvidence(nodeEvidence(spec.ClusterRef, node))
			a.Message = "registered in " + spec.ClusterRef
			return true, nil
		})
}

// is reports whether a node has the role of the join, as far as its labels are known. An
// interrupted join of a control plane leaves a node that is Ready, but is not a control
// plane.
func is(n providers.NodeStatus, role string) bool {
	if role != controlPlane || n.Labels == nil {
		return true
	}
	_, ok := n.Labels["node-role.kubernetes.io/control-plane"]
	return ok
}

// fromBefore reports whether the cluster's data of a node is from before the last boot of
// its host. If the disk was written meanwhile, the node no longer exists, but the cluster
// still shows it as Ready until its heartbeats are overdue.
func (a joinStep) fromBefore(ctx context.Context, n providers.NodeStatus) (bool, error) {
	inspector, ok := a.Provider.(providers.Inspector)
	if !ok || n.BootID == "" {
		return false, nil
	}
	f, err := inspector.Inspect(ctx, a.Machine)
	return err == nil && f.BootID != "" && f.BootID != n.BootID, err
}

// endJoinTime bounds the time to end a join.
const endJoinTime = 20 * time.Second

// endJoin revokes the bootstrap token of a join. If only the term has ended it does
// nothing: the next leader continues with the join.
func (a joinStep) endJoin(joiner providers.ClusterJoiner, spec providers.JoinSpec) {
	ender, ok := joiner.(providers.JoinEnder)
	if !ok {
		return
	}
	ctx, stop := context.WithTimeout(a.Term, a.toEnd(endJoinTime))
	defer stop()
	err := a.Effect(ctx, "revoke the token of the join", func(ctx context.Context) error {
		return ender.EndJoin(ctx, a.Op, a.Machine, spec)
	})
	switch {
	case err == nil:
		a.AddEvidence(map[string]string{evidenceToken: "revoked"})
	case a.Term.Err() == nil:
		a.AddEvidence(map[string]string{evidenceToken: "not known to be revoked: it expires by itself"})
		a.Say("cannot revoke the token of the join, it expires by itself: %v", err)
	}
}

// verify waits until the node is registered and Ready, with the required labels and
// taints. It changes nothing.
func (a joinStep) verify(joiner providers.ClusterJoiner, s *holdfastv1.VerifyInCluster) Action {
	ref := a.clusterRef(s.GetClusterRef())
	ready := func(ctx context.Context) error {
		return a.Poll(ctx, effect(nodeIn(ref), "Ready"), func(ctx context.Context) (bool, error) {
			node, err := joiner.NodeStatus(ctx, a.Machine, ref)
			if err != nil {
				return false, err
			}
			if !node.Registered || !node.Ready {
				a.awaits(inDetail(nodeIn(ref), "Ready", node.Message))
				return false, nil
			}
			if lacks := lacking(node, s); lacks != "" {
				a.awaits(inDetail(nodeIn(ref), "as required", "lacks "+lacks))
				return false, nil
			}
			a.AddEvidence(nodeEvidence(ref, node))
			a.Message = "Ready in " + ref
			return true, nil
		})
	}
	return Action{Do: func(ctx context.Context) error {
		most := s.GetTimeout().AsDuration()
		if most <= 0 {
			return ready(ctx)
		}
		short, stop := context.WithTimeout(ctx, most)
		defer stop()
		err := ready(short)
		// If only the step's own timeout has passed, conclude does not add the wait to the error.
		if err != nil && short.Err() != nil && ctx.Err() == nil {
			return providers.Errorf(providers.Timeout, "verify "+a.Machine.GetMachineId(),
				"gave up after %s waiting for %s%s", most, describe.Wait(a.Waiting()), Cause(err))
		}
		return err
	}}
}

// lacking lists the required labels and taints that a node does not have.
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

func nodeEvidence(ref string, n providers.NodeStatus) map[string]string {
	evidence := map[string]string{
		"cluster":    ref,
		"registered": strconv.FormatBool(n.Registered),
		"ready":      strconv.FormatBool(n.Ready),
	}
	if n.Node != "" {
		evidence["node"] = n.Node
	}
	return evidence
}
