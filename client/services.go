package client

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

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
