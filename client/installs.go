package client

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// Installs returns the service that reports the progress of install sessions.
func (c *Client) Installs() holdfastv1.InstallServiceClient {
	return holdfastv1.NewInstallServiceClient(c.peers)
}
