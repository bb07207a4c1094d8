package fake

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// join is the join of a host to a cluster.
type join struct {
	state providers.WorkState
	why   string
}

func (j *join) fail(why string) {
	if j.state == providers.WorkRunning {
		j.state, j.why = providers.WorkFailed, why
	}
}

// startJoin succeeds at once on a host that is already in that cluster, and fails on one that is in
// another.
func (c *call) startJoin(s providers.JoinSpec) (any, error) {
	token := c.op.Token()
	if c.joins[token] != nil {
		return nil, nil
	}
	if s.ClusterRef == "" {
		return nil, fmt.Errorf("cluster to join is empty")
	}
	j := &join{state: providers.WorkRunning}
	if c.joins == nil {
		c.joins = make(map[string]*join)
	}
	c.joins[token] = j
	c.effect(c.op, opStartJoin, false, s.ClusterRef)
	switch {
	case c.cluster == s.ClusterRef:
		j.state = providers.WorkDone
		return nil, nil
	case c.cluster != "":
		j.fail(fmt.Sprintf("host is in cluster %q already", c.cluster))
		return nil, nil
	}
	c.later(c.now.Add(time.Duration(c.fleet.config.JoinTime)), false, func(time.Time) {
		switch {
		case strings.Contains(s.ClusterRef, "unreachable"):
			j.fail(fmt.Sprintf("API server of %q does not answer", s.ClusterRef))
		case c.cluster != "" && c.cluster != s.ClusterRef:
			j.fail(fmt.Sprintf("host is in cluster %q already", c.cluster))
		}
		if j.state == providers.WorkRunning {
			j.state, c.cluster = providers.WorkDone, s.ClusterRef
		}
	})
	return nil, nil
}

func (c *call) joinStatus(a tokenArgs) (any, error) {
	j := c.joins[a.Token]
	if j == nil {
		return joinAnswer{State: providers.WorkNone}, nil
	}
	return joinAnswer{State: j.state, Detail: j.why}, nil
}

// nodeStatus returns the cluster's view. The cluster knows a node even while its host is down.
func (c *call) nodeStatus(a clusterArgs) (any, error) {
	up, _ := c.reachable()
	switch {
	case c.cluster == "" || c.cluster != a.ClusterRef:
		return providers.NodeStatus{Reason: "NodeNotFound"}, nil
	case !up || c.strike.down:
		return providers.NodeStatus{Registered: true, Reason: "NodeStatusUnknown"}, nil
	}
	return providers.NodeStatus{Registered: true, Ready: true, Reason: "KubeletReady"}, nil
}

// network is a network configuration that was applied to a host.
type network struct {
	token               string
	breaks              bool
	confirmed, reverted bool
}

// cut reports whether the configuration in force makes the host unreachable.
func (n *network) cut() bool { return n != nil && n.breaks && !n.reverted }

// applyNetwork applies permanently if the rollback time is zero.
func (c *call) applyNetwork(a networkArgs) (any, error) {
	token := c.op.Token()
	if c.nets[token] {
		return nil, nil
	}
	if a.Rollback < 0 {
		return nil, fmt.Errorf("rollback time %v is negative", time.Duration(a.Rollback))
	}
	n := &network{token: token, breaks: strings.Contains(a.Config, "unreachable"), confirmed: a.Rollback == 0}
	if c.nets == nil {
		c.nets = make(map[string]bool)
	}
	c.nets[token], c.net = true, n
	c.effect(c.op, opApplyNetwork, false, "")
	if a.Rollback > 0 {
		c.later(c.now.Add(time.Duration(a.Rollback)), false, func(time.Time) {
			n.reverted = !n.confirmed
		})
	}
	return nil, nil
}

func (c *call) confirmNetwork(a tokenArgs) (any, error) {
	switch {
	case c.net == nil || c.net.token != a.Token:
		return nil, fmt.Errorf("network configuration %q is not the one in force", a.Token)
	case c.net.reverted:
		return nil, fmt.Errorf("network configuration %q was rolled back before it was confirmed", a.Token)
	case !c.net.confirmed:
		c.net.confirmed = true
		c.effect(c.op, opConfirmNetwork, false, a.Token)
	}
	return nil, nil
}

func (c *call) networkStatus(struct{}) (any, error) {
	if c.net == nil {
		return providers.NetworkStatus{}, nil
	}
	return providers.NetworkStatus{Token: c.net.token, Confirmed: c.net.confirmed, Reverted: c.net.reverted}, nil
}
