package ironiclab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Microversions of the API. A node that is created with the older one is available at once, because
// enrollment did not exist then.
const (
	newest        = "1.82" // of Ironic 21.4
	madeAvailable = "1.10"
)

// Client is a client of an Ironic without login. It keeps its connections. It is safe for
// concurrent use.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client of the API at a URL such as http://127.0.0.1:6385.
func NewClient(url string) *Client {
	return &Client{url: url, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// URL returns the address of the API.
func (c *Client) URL() string { return c.url }

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Node has the fields we need of a node.
type Node struct {
	UUID         string
	Power        string         `json:"power_state"`
	State        string         `json:"provision_state"`
	Error        string         `json:"last_error"`
	InstanceInfo map[string]any `json:"instance_info"`
	Reservation  string
}

// Do calls a method of the API. in is the body and out the result, unless they are nil. If the
// status is 300 or above, the error contains the response.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	return c.do(ctx, newest, method, path, in, out)
}

func (c *Client) do(ctx context.Context, microversion, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode the body of %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return fmt.Errorf("create request to Ironic: %w", err)
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", microversion)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("call Ironic: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return fmt.Errorf("read the response to %s %s: %w", method, path, err)
	case res.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("call Ironic: %s %s: %s: %s", method, path, res.Status, b)
	case out != nil && len(b) > 0:
		if err := json.Unmarshal(b, out); err != nil {
			return fmt.Errorf("decode the response to %s %s: %w", method, path, err)
		}
	}
	return nil
}

// Ready reports whether the conductor is alive.
func (c *Client) Ready(ctx context.Context) (bool, error) {
	var all struct{ Conductors []struct{ Alive bool } }
	err := c.Do(ctx, http.MethodGet, "/v1/conductors", nil, &all)
	return err == nil && len(all.Conductors) == 1 && all.Conductors[0].Alive, err
}

// Node reads a node by its UUID or name.
func (c *Client) Node(ctx context.Context, id string) (n Node, err error) {
	err = c.Do(ctx, http.MethodGet, "/v1/nodes/"+id, nil, &n)
	return n, err
}

// MakeAvailable creates a node of fake hardware that can be deployed, and returns its UUID.
func (c *Client) MakeAvailable(ctx context.Context) (string, error) {
	var n Node
	body := map[string]any{"driver": "fake-hardware"}
	if err := c.do(ctx, madeAvailable, http.MethodPost, "/v1/nodes", body, &n); err != nil {
		return "", err
	}
	if n.UUID == "" || n.State != "available" {
		return "", fmt.Errorf("create node: it is %q with UUID %q: want it available", n.State, n.UUID)
	}
	return n.UUID, nil
}

// Provision requests a target of the provision state: manage, provide, active, deleted.
func (c *Client) Provision(ctx context.Context, id, target string) error {
	body := map[string]any{"target": target}
	return c.Do(ctx, http.MethodPut, "/v1/nodes/"+id+"/states/provision", body, nil)
}

// Deploy deploys an available node and polls until it is active. It returns an error if the node
// ends in another state.
func (c *Client) Deploy(ctx context.Context, id string, every time.Duration) error {
	if err := c.Provision(ctx, id, "active"); err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until node %s is active: %w", id, ctx.Err())
		case <-tick.C:
		}
		var n Node
		path := "/v1/nodes/" + id + "?fields=provision_state,last_error"
		if err := c.Do(ctx, http.MethodGet, path, nil, &n); err != nil {
			return err
		}
		switch n.State {
		case "active":
			return nil
		case "deploying", "wait call-back":
		default:
			return fmt.Errorf("deploy node %s: it is %q: want it active: %s", id, n.State, n.Error)
		}
	}
}
