package step

import (
	"context"
	"fmt"

	"github.com/holdfast-metal/holdfast/executor/task"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// The steps of built-in plans that cordon, drain and uncordon a node. They are scripts
// for hosts with kubectl. If the machine's cluster is registered, its API is used
// instead, and the script runs only if the cluster has no node of the machine. Custom
// plans always run their scripts.
const (
	stepCordon     = "cordon-node"
	stepDrain      = "drain-node"
	stepDrainCheck = "drain-check"
	stepUncordon   = "uncordon-node"
)

// drainStep cordons, drains or uncordons a node.
type drainStep struct{ *Attempt }

// setAside returns the action of a step that cordons, drains or uncordons a node: through
// the API of its cluster if that is registered, otherwise by its script.
func (a drainStep) setAside(script Action) Action {
	d, ok := a.Provider.(providers.Drainer)
	if !a.builtIn() {
		return script
	}
	if !ok {
		return a.drainUnlessDead(script)
	}
	var through func(ctx context.Context, ref string, n providers.NodeStatus) error
	drains := false
	switch a.Step.GetName() {
	case stepCordon:
		through = func(ctx context.Context, ref string, _ providers.NodeStatus) error {
			return a.cordon(ctx, d, ref, true)
		}
	case stepUncordon:
		through = func(ctx context.Context, ref string, _ providers.NodeStatus) error {
			return a.cordon(ctx, d, ref, false)
		}
	case stepDrain, stepDrainCheck:
		drains = true
		through = func(ctx context.Context, ref string, n providers.NodeStatus) error { return a.drain(ctx, d, ref, n) }
	default:
		return script
	}
	return Action{Do: func(ctx context.Context) error {
		ref := a.clusterRef("")
		switch begun, err := a.scriptBegun(ctx); {
		case err != nil:
			return err
		case begun:
			return script.Do(ctx)
		}
		n, known, err := a.registered(ctx, ref)
		if err != nil {
			return err
		}
		if drains && a.takesOut() && (!known || !n.Ready) { // the host of a node that is Ready is up
			if dead, err := a.hostDead(ctx); dead || err != nil {
				return err
			}
		}
		if known && drains && noNode(n) && !a.flag(false, "force") {
			a.Say("asking the host whether it is a node of another cluster, or has another name: " +
				"to skip this, set the run's parameter force=true")
			known = false
		}
		if !known {
			return script.Do(ctx)
		}
		if a.Seen["cluster"] == "" { // recorded, so that a new leader need not ask the host, which may be down by then
			if err := a.Record(ctx, map[string]string{"cluster": ref}); err != nil {
				return err
			}
		}
		return through(ctx, ref, n)
	}}
}

// drainUnlessDead returns the action of a drain by the script alone. It is skipped if the
// machine is taken out and its host is dead.
func (a drainStep) drainUnlessDead(script Action) Action {
	if a.Step.GetName() != stepDrainCheck || !a.takesOut() {
		return script
	}
	return Action{Do: func(ctx context.Context) error {
		if dead, err := a.hostDead(ctx); dead || err != nil {
			return err
		}
		return script.Do(ctx)
	}}
}

func (a *Attempt) builtIn() bool {
	p, ok := a.State.View().Plan(a.Run.GetPlanId())
	return ok && p.GetBuiltIn()
}

// scriptBegun reports whether an earlier leader has started the step's script.
func (a drainStep) scriptBegun(ctx context.Context) (begun bool, err error) {
	exec, ok := a.Provider.(providers.RemoteExecutor)
	if !ok || !a.Adopted || a.Seen["cluster"] != "" {
		return false, nil
	}
	err = a.Poll(ctx, answer(host, "start of the step's script"),
		func(ctx context.Context) (bool, error) {
			st, err := exec.CommandStatus(ctx, a.Machine, a.Op.Token(), 0)
			begun = st.State != providers.WorkNone
			return err == nil, err
		})
	return begun, err
}

// registered reports whether the cluster is registered, and returns its status of the
// machine's node.
func (a drainStep) registered(ctx context.Context, ref string) (n providers.NodeStatus, known bool, err error) {
	joiner, ok := a.Provider.(providers.ClusterJoiner)
	if !ok {
		return n, false, nil
	}
	err = a.Poll(ctx, answer("cluster "+ref, ""), func(ctx context.Context) (bool, error) {
		n, err = joiner.NodeStatus(ctx, a.Machine, ref)
		if providers.WhyNotAsked(err) == providers.ClusterNotRegistered {
			return true, nil
		}
		known = err == nil
		if known {
			a.Say("through the API of cluster %s: %s", ref, describeNode(n))
		}
		return known, err
	})
	return n, known, err
}

// noNode reports whether the cluster has no node of the machine. The machine may still
// run pods, as a node of another cluster.
func noNode(n providers.NodeStatus) bool { return !n.Registered && n.Reason == "NodeNotFound" }

// drained is the value of a node without pods in a wait.
const drained = "drained"

func describeNode(n providers.NodeStatus) string {
	if !n.Registered {
		return "the machine has no node there" + Suffix(task.Clean(n.Message))
	}
	return "node " + n.Node
}

func (a drainStep) cordon(ctx context.Context, d providers.Drainer, ref string, on bool) error {
	what, done := "cordon the node in "+ref, "cordoned"
	if !on {
		what, done = "un"+what, "un"+done
	}
	err := a.converge(ctx, effect(nodeIn(ref), done), what, func(ctx context.Context) error {
		return d.Cordon(ctx, a.Op, a.Machine, ref, on)
	})
	if err != nil {
		return err
	}
	a.AddEvidence(map[string]string{"cluster": ref})
	a.Message = done + " in " + ref
	return nil
}

// converge repeats an idempotent effect until it succeeds.
func (a drainStep) converge(
	ctx context.Context, w *holdfastv1.Wait, what string, do func(context.Context) error,
) error {
	return a.Poll(ctx, w, func(ctx context.Context) (bool, error) {
		err := a.Effect(ctx, what, do)
		return err == nil, err
	})
}

// drain cordons the node and evicts its pods until none is left that must be evicted.
func (a drainStep) drain(ctx context.Context, d providers.Drainer, ref string, n providers.NodeStatus) error {
	var st providers.DrainStatus
	force := a.flag(false, "force")
	evict := func(ctx context.Context) (err error) {
		st, err = d.Evict(ctx, a.Op, a.Machine, ref, force)
		return err
	}
	if !n.Registered && !noNode(n) {
		return providers.Errorf(providers.Unsupported, "drain "+a.Machine.GetMachineId(), "%s", task.Clean(n.Message))
	}
	if n.Registered {
		if err := a.cordon(ctx, d, ref, true); err != nil {
			return err
		}
	}
	said := ""
	if err := a.Poll(ctx, effect(nodeIn(ref), drained), func(ctx context.Context) (bool, error) {
		if err := a.Effect(ctx, "evict the pods of the node in "+ref, evict); err != nil {
			return false, err
		}
		if st.Left == 0 {
			return true, nil
		}
		if st.Waiting != "" {
			a.awaits(inDetail(nodeIn(ref), drained, st.Waiting))
		}
		if st.Waiting != said {
			said = st.Waiting
			a.Say("%d pods left: %s", st.Left, task.Clean(said))
		}
		return false, nil
	}); err != nil {
		return err
	}
	a.AddEvidence(map[string]string{"cluster": ref, "node": st.Node, "drained": "no pod is left to evict"})
	a.Message = fmt.Sprintf("node %s is drained", st.Node)
	if st.Node == "" {
		a.Message = "no node in " + ref + ": there is nothing to drain"
		a.AddEvidence(map[string]string{"node": "none", "drained": a.Message})
	}
	return nil
}
