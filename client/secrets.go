package client

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Secrets returns the service that stores secrets. Their values cannot be read back.
func (c *Client) Secrets() holdfastv1.SecretServiceClient {
	return holdfastv1.NewSecretServiceClient(c.peers)
}
