package client

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Machines returns the service that manages the inventory of machines.
func (c *Client) Machines() holdfastv1.MachineServiceClient {
	return holdfastv1.NewMachineServiceClient(c.peers)
}

// Plans returns the service that manages plans.
func (c *Client) Plans() holdfastv1.PlanServiceClient {
	return holdfastv1.NewPlanServiceClient(c.peers)
}

// Runs returns the service that starts, reads and cancels runs. Its streams end when the
// serving peer fails. WatchRuns and FollowLogs continue with another peer.
func (c *Client) Runs() holdfastv1.RunServiceClient {
	return holdfastv1.NewRunServiceClient(c.peers)
}

// Waves returns the service for runs on many machines.
func (c *Client) Waves() holdfastv1.WaveServiceClient {
	return holdfastv1.NewWaveServiceClient(c.peers)
}

// Cluster returns the service that reports the health of the control plane.
func (c *Client) Cluster() holdfastv1.ClusterServiceClient {
	return holdfastv1.NewClusterServiceClient(c.peers)
}

// Operator returns the service that administers the control plane: snapshots, membership
// and leadership. It requires the admin role.
func (c *Client) Operator() holdfastv1.OperatorServiceClient {
	return holdfastv1.NewOperatorServiceClient(c.peers)
}

// Agents returns the service that creates machines with agents, and lists those that are
// ready.
func (c *Client) Agents() holdfastv1.AgentServiceClient {
	return holdfastv1.NewAgentServiceClient(c.peers)
}

// Nodes returns the node API of machines.
func (c *Client) Nodes() holdfastv1.NodeServiceClient {
	return holdfastv1.NewNodeServiceClient(c.peers)
}

// Pools returns the service that declares and lists pools.
func (c *Client) Pools() holdfastv1.PoolServiceClient {
	return holdfastv1.NewPoolServiceClient(c.peers)
}

// Registry returns the service registry.
func (c *Client) Registry() holdfastv1.RegistryServiceClient {
	return holdfastv1.NewRegistryServiceClient(c.peers)
}

// Installs returns the service that reports the progress of install sessions.
func (c *Client) Installs() holdfastv1.InstallServiceClient {
	return holdfastv1.NewInstallServiceClient(c.peers)
}

// Secrets returns the service that stores secrets. Their values cannot be read back.
func (c *Client) Secrets() holdfastv1.SecretServiceClient {
	return holdfastv1.NewSecretServiceClient(c.peers)
}
