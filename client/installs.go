package client

import holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"

// Installs is how far machines are that boot from the network to be installed.
func (c *Client) Installs() holdfastv1.InstallServiceClient {
	return holdfastv1.NewInstallServiceClient(c.peers)
}
