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

// Microversions of the API. A node that is made with the older one is available at once, as none
// was enrolled then.
const (
	newest        = "1.82" // of Ironic 21.4
	madeAvailable = "1.10"
)

// Client speaks to the API of an Ironic without login. It keeps its connections. Several goroutines
// may use it.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client of the API at a URL such as http://127.0.0.1:6385.
func NewClient(url string) *Client {
	return &Client{url: url, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// URL is where the API is.
func (c *Client) URL() string { return c.url }

// Close ends connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Node is what is asked of a node.
type Node struct {
	UUID         string
	Power        string         `json:"power_state"`
	State        string         `json:"provision_state"`
	Error        string         `json:"last_error"`
	InstanceInfo map[string]any `json:"instance_info"`
	Reservation  string
}

// Do calls a method of the API, with a body and for an answer unless they are nil. An answer of 300
// and above is an error that has it.
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
		return fmt.Errorf("make a request to Ironic: %w", err)
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
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	case res.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("call Ironic: %s %s: %s: %s", method, path, res.Status, b)
	case out != nil && len(b) > 0:
		if err := json.Unmarshal(b, out); err != nil {
			return fmt.Errorf("decode the answer to %s %s: %w", method, path, err)
		}
	}
	return nil
}

// Ready asks whether there is a conductor that is alive.
func (c *Client) Ready(ctx context.Context) (bool, error) {
	var all struct{ Conductors []struct{ Alive bool } }
	err := c.Do(ctx, http.MethodGet, "/v1/conductors", nil, &all)
	return err == nil && len(all.Conductors) == 1 && all.Conductors[0].Alive, err
}

// Node reads all there is of a node, by its UUID or name.
func (c *Client) Node(ctx context.Context, id string) (n Node, err error) {
	err = c.Do(ctx, http.MethodGet, "/v1/nodes/"+id, nil, &n)
	return n, err
}

// MakeAvailable makes a node of fake hardware that can be deployed, and gives its UUID.
func (c *Client) MakeAvailable(ctx context.Context) (string, error) {
	var n Node
	if err := c.do(ctx, madeAvailable, http.MethodPost, "/v1/nodes", map[string]any{"driver": "fake-hardware"}, &n); err != nil {
		return "", err
	}
	if n.UUID == "" || n.State != "available" {
		return "", fmt.Errorf("make a node: Ironic says it is %q with UUID %q: want it available", n.State, n.UUID)
	}
	return n.UUID, nil
}

// Provision asks for a target of the provision state: manage, provide, active, deleted.
func (c *Client) Provision(ctx context.Context, id, target string) error {
	return c.Do(ctx, http.MethodPut, "/v1/nodes/"+id+"/states/provision", map[string]any{"target": target}, nil)
}

// Deploy has an available node deployed and looks now and then until it is active. A node that ends
// elsewhere is an error.
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
		if err := c.Do(ctx, http.MethodGet, "/v1/nodes/"+id+"?fields=provision_state,last_error", nil, &n); err != nil {
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
