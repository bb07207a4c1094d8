package executor

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// join looks at the node first: one that is Ready needs no joining. The join itself is known by the
// attempt's token on the host.
func (a *attempt) join(joiner providers.ClusterJoiner, s *holdfastv1.KubeadmJoin) action {
	spec := providers.JoinSpec{ClusterRef: a.clusterRef(s.GetClusterRef()), Role: s.GetRole()}
	return action{do: func(ctx context.Context) error {
		token := a.op.Token()
		var state providers.WorkState
		var detail string
		joined := false
		if err := a.poll(ctx, "the cluster to answer", func(ctx context.Context) (_ bool, err error) {
			node, err := joiner.NodeStatus(ctx, a.machine, spec.ClusterRef)
			if err != nil {
				return false, err
			}
			joined = node.Registered && node.Ready
			state, detail, err = joiner.JoinStatus(ctx, a.machine, token)
			return err == nil, err
		}); err != nil {
			return err
		}
		if state == providers.WorkNone && !joined {
			err := a.effect(ctx, "join "+spec.ClusterRef, func(ctx context.Context) error {
				return joiner.StartJoin(ctx, a.op, a.machine, spec)
			})
			if err != nil {
				return err
			}
		}
		return a.poll(ctx, "the node to register in "+spec.ClusterRef, func(ctx context.Context) (_ bool, err error) {
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
	}}
}

// verify waits until the node is registered and Ready. It changes nothing.
func (a *attempt) verify(joiner providers.ClusterJoiner, s *holdfastv1.VerifyInCluster) action {
	ref := a.clusterRef(s.GetClusterRef())
	return action{do: func(ctx context.Context) error {
		if d := s.GetTimeout().AsDuration(); d > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, d)
			defer stop()
		}
		return a.poll(ctx, "the node to be Ready in "+ref, func(ctx context.Context) (bool, error) {
			node, err := joiner.NodeStatus(ctx, a.machine, ref)
			if err != nil || !node.Registered || !node.Ready {
				return false, err
			}
			a.prove(nodeProof(ref, node))
			a.message = "Ready in " + ref
			return true, nil
		})
	}}
}

func nodeProof(ref string, n providers.NodeStatus) map[string]string {
	return map[string]string{"cluster": ref, "registered": strconv.FormatBool(n.Registered), "ready": strconv.FormatBool(n.Ready)}
}
