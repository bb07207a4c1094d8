package executor

import (
	"context"
	"fmt"

	"github.com/holdfast-metal/holdfast/providers"
)

// The steps of built-in plans that set a node aside. They are scripts, for hosts with a kubectl;
// where the machine's cluster is registered, it is done through the API instead, and the host is
// asked only where the cluster has no node of it. A plan of one's own runs what it says.
const (
	stepCordon     = "cordon-node"
	stepDrain      = "drain-node"
	stepDrainCheck = "drain-check"
	stepUncordon   = "uncordon-node"
)

// setAside returns how a step sets a node aside: through the API of its cluster where that is
// registered, else by its script.
func (a *attempt) setAside(script action) action {
	d, ok := a.provider.(providers.Drainer)
	if !a.builtIn() {
		return script
	}
	if !ok {
		return a.drainUnlessDead(script)
	}
	var through func(ctx context.Context, ref string, n providers.NodeStatus) error
	drains := false
	switch a.step.GetName() {
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
	return action{do: func(ctx context.Context) error {
		ref := a.clusterRef("")
		switch begun, err := a.scriptBegun(ctx); {
		case err != nil:
			return err
		case begun:
			return script.do(ctx)
		}
		n, known, err := a.registered(ctx, ref)
		if err != nil {
			return err
		}
		if drains && a.takesOut() && (!known || !n.Ready) { // a node that is Ready has a host that is up
			if dead, err := a.hostDead(ctx); dead || err != nil {
				return err
			}
		}
		if known && drains && noNode(n) && !a.flag(false, "force") {
			a.say("the host is asked whether it is a node of another cluster, or under a name of its own: who knows that it is none sets the run's parameter force=true")
			known = false
		}
		if !known {
			return script.do(ctx)
		}
		if a.seen["cluster"] == "" { // a leader that takes over need not ask the host, which may not answer any more
			if err := a.record(ctx, map[string]string{"cluster": ref}); err != nil {
				return err
			}
		}
		return through(ctx, ref, n)
	}}
}

// drainUnlessDead returns how a machine that is taken out is drained by its host alone.
func (a *attempt) drainUnlessDead(script action) action {
	if a.step.GetName() != stepDrainCheck || !a.takesOut() {
		return script
	}
	return action{do: func(ctx context.Context) error {
		if dead, err := a.hostDead(ctx); dead || err != nil {
			return err
		}
		return script.do(ctx)
	}}
}

func (a *attempt) builtIn() bool {
	p, ok := a.state.View().Plan(a.run.GetPlanId())
	return ok && p.GetBuiltIn()
}

// scriptBegun reports whether an earlier leader has begun the step's script, which then goes on.
func (a *attempt) scriptBegun(ctx context.Context) (begun bool, err error) {
	exec, ok := a.provider.(providers.RemoteExecutor)
	if !ok || a.adopted == nil || a.seen["cluster"] != "" {
		return false, nil
	}
	err = a.poll(ctx, "the host to tell whether the step's script was started", func(ctx context.Context) (bool, error) {
		st, err := exec.CommandStatus(ctx, a.machine, a.op.Token(), 0)
		begun = st.State != providers.WorkNone
		return err == nil, err
	})
	return begun, err
}

// registered reports whether somebody has registered a cluster, and what it knows of the machine's
// node.
func (a *attempt) registered(ctx context.Context, ref string) (n providers.NodeStatus, known bool, err error) {
	joiner, ok := a.provider.(providers.ClusterJoiner)
	if !ok {
		return n, false, nil
	}
	err = a.poll(ctx, "cluster "+ref+" to answer", func(ctx context.Context) (bool, error) {
		n, err = joiner.NodeStatus(ctx, a.machine, ref)
		if providers.WhyNotAsked(err) == providers.ClusterNotRegistered {
			return true, nil
		}
		known = err == nil
		if known {
			a.say("through the API of cluster %s: %s", ref, describeNode(n))
		}
		return known, err
	})
	return n, known, err
}

// noNode reports that the cluster has none of the machine. That it runs no pods does not follow: it
// may be a node of another cluster.
func noNode(n providers.NodeStatus) bool { return !n.Registered && n.Reason == "NodeNotFound" }

func describeNode(n providers.NodeStatus) string {
	if !n.Registered {
		return "the machine has no node there" + suffix(clean(n.Message))
	}
	return "node " + n.Node
}

func (a *attempt) cordon(ctx context.Context, d providers.Drainer, ref string, on bool) error {
	what, done := "cordon the node in "+ref, "cordoned in "+ref
	if !on {
		what, done = "un"+what, "un"+done
	}
	if err := a.converge(ctx, what, func(ctx context.Context) error { return d.Cordon(ctx, a.op, a.machine, ref, on) }); err != nil {
		return err
	}
	a.prove(map[string]string{"cluster": ref})
	a.message = done
	return nil
}

// converge does an effect that may be done any number of times, until it is done.
func (a *attempt) converge(ctx context.Context, what string, do func(context.Context) error) error {
	return a.poll(ctx, "the cluster to "+what, func(ctx context.Context) (bool, error) {
		err := a.effect(ctx, what, do)
		return err == nil, err
	})
}

// drain cordons the node, and has its pods evicted until none is left that has to go.
func (a *attempt) drain(ctx context.Context, d providers.Drainer, ref string, n providers.NodeStatus) error {
	var st providers.DrainStatus
	force := a.flag(false, "force")
	evict := func(ctx context.Context) (err error) {
		st, err = d.Evict(ctx, a.op, a.machine, ref, force)
		return err
	}
	if !n.Registered && !noNode(n) {
		return providers.Errorf(providers.Unsupported, "drain "+a.machine.GetMachineId(), "%s", clean(n.Message))
	}
	if n.Registered {
		if err := a.cordon(ctx, d, ref, true); err != nil {
			return err
		}
	}
	said := ""
	if err := a.poll(ctx, "the pods to leave the node in "+ref, func(ctx context.Context) (bool, error) {
		if err := a.effect(ctx, "evict what is on the node in "+ref, evict); err != nil {
			return false, err
		}
		if st.Left == 0 {
			return true, nil
		}
		if st.Waiting != "" {
			a.awaits(clean(st.Waiting))
		}
		if st.Waiting != said {
			said = st.Waiting
			a.say("%d pods are left; waiting for %s", st.Left, clean(said))
		}
		return false, nil
	}); err != nil {
		return err
	}
	a.prove(map[string]string{"cluster": ref, "node": st.Node, "drained": "no pod is left that has to go"})
	a.message = fmt.Sprintf("node %s is drained", st.Node)
	if st.Node == "" {
		a.message = "no node in " + ref + ": there is nothing to drain"
		a.prove(map[string]string{"node": "none", "drained": a.message})
	}
	return nil
}
