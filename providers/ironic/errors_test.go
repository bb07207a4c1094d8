package ironic

import (
	"net/http"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
)

// TestReplyClass checks that an error after a possible effect has the class Timeout, so that the
// machine is read before a retry.
func TestReplyClass(t *testing.T) {
	for _, tt := range []struct {
		status int
		text   string
		effect bool
		want   providers.Class
	}{
		{http.StatusInternalServerError, "", true, providers.Timeout},
		{http.StatusBadGateway, "", true, providers.Timeout},
		{http.StatusGatewayTimeout, "", true, providers.Timeout},
		{http.StatusGatewayTimeout, "", false, providers.Transient},
		{http.StatusInternalServerError, "Unable to establish connection to the conductor", true, providers.Transient},
		{http.StatusServiceUnavailable, "", true, providers.Transient},
		{http.StatusUnauthorized, "", true, providers.Auth},
		{http.StatusForbidden, "Node is protected", true, providers.Unsupported},
		{http.StatusNotFound, "Node m-1 could not be found.", true, providers.Gone},
		{http.StatusBadRequest, "No valid host was found", true, providers.Transient},
		{http.StatusNotImplemented, "", true, providers.Unsupported},
	} {
		if got := (&reply{Status: tt.status, Text: tt.text}).class(tt.effect); got != tt.want {
			t.Errorf("%d %q, effect %v: got class %v, want %v", tt.status, tt.text, tt.effect, got, tt.want)
		}
	}
}

// idler records that its idle connections are closed.
type idler struct {
	http.RoundTripper
	closed bool
}

func (i *idler) CloseIdleConnections() { i.closed = true }

func TestCloseEndsConnections(t *testing.T) {
	i := &idler{}
	p := &Provider{door: &door{http: &http.Client{Transport: bounded{i}}}}
	if p.Close(); !i.closed {
		t.Error("got idle connections after Close, want none")
	}
}
