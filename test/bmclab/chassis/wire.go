package chassis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// order is a request of a BMC to a chassis.
type order struct {
	By    string  `json:"by"`
	Press Press   `json:"press,omitempty"`
	Boot  *Boot   `json:"boot,omitempty"`
	Media *string `json:"media,omitempty"`
}

// controls is the machine that Handler serves.
type controls interface {
	State() State
	Press(by string, p Press) error
	SetBoot(by string, b Boot) error
	SetMedia(by, url string) error
}

// Handler serves a machine to BMCs.
func Handler(m controls) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(m.State()) // the client may be gone
	})
	mux.HandleFunc("POST /do", func(w http.ResponseWriter, r *http.Request) {
		var o order
		err := json.NewDecoder(r.Body).Decode(&o)
		switch {
		case err != nil:
		case o.Press != "":
			err = m.Press(o.By, o.Press)
		case o.Boot != nil:
			err = m.SetBoot(o.By, *o.Boot)
		case o.Media != nil:
			err = m.SetMedia(o.By, *o.Media)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	return mux
}

// Client is a BMC's client of a chassis.
type Client struct {
	by   string
	http *http.Client
}

// Dial returns a client for the unix socket of a chassis. The argument by names the BMC in
// effects.
func Dial(socket, by string) *Client {
	return &Client{by: by, http: &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// State returns the state of the machine.
func (c *Client) State() (State, error) {
	var st State
	b, err := c.ask(http.MethodGet, "/state", nil)
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	return st, err
}

// Press presses a button.
func (c *Client) Press(p Press) error { return c.do(order{By: c.by, Press: p}) }

// SetBoot sets the boot override.
func (c *Client) SetBoot(b Boot) error { return c.do(order{By: c.by, Boot: &b}) }

// SetMedia inserts the image at a URL, or ejects it if the URL is empty.
func (c *Client) SetMedia(url string) error { return c.do(order{By: c.by, Media: &url}) }

func (c *Client) do(o order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = c.ask(http.MethodPost, "/do", b)
	return err
}

func (c *Client) ask(method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://chassis"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the chassis: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("chassis: %s", strings.TrimSpace(string(b)))
	}
	return b, err
}
