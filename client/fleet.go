package client

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// Agents makes machines that await their agents, and lists those that are ready.
func (c *Client) Agents() holdfastv1.AgentServiceClient {
	return holdfastv1.NewAgentServiceClient(c.peers)
}

// Nodes is the node facet of machines.
func (c *Client) Nodes() holdfastv1.NodeServiceClient {
	return holdfastv1.NewNodeServiceClient(c.peers)
}

// Pools declares and lists pools.
func (c *Client) Pools() holdfastv1.PoolServiceClient {
	return holdfastv1.NewPoolServiceClient(c.peers)
}

// Registry is the registry of services.
func (c *Client) Registry() holdfastv1.RegistryServiceClient {
	return holdfastv1.NewRegistryServiceClient(c.peers)
}
