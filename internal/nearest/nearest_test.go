package nearest_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

func TestOf(t *testing.T) {
	names := []string{"image", "cluster_ref", "force", "for", "url", "edit", "list"}
	for _, tt := range []struct{ written, want string }{
		{"imag", "image"},
		{"imgae", "image"},
		{"cluster-ref", "cluster_ref"},
		{"forces", "force"},
		{"forc", "force"},
		{"fox", "for"},
		{"lsit", "list"}, // a swap counts once
		{"kernel", ""},
		{"x", ""},
		{"", ""},
	} {
		if got := nearest.Of(tt.written, names); got != tt.want {
			t.Errorf("Of(%q): got %q, want %q", tt.written, got, tt.want)
		}
	}
}

func TestKey(t *testing.T) {
	keys := []string{"grpc_addr", "http_addr", "bmc_endpoint", "ssh_endpoint", "ssh_host_keys", "tls_ca", "tls_cert",
		"raft_addr", "raft_multiplier"}
	for _, tt := range []struct{ written, want string }{
		{"grpc_address", "grpc_addr"},
		{"htp_addr", "http_addr"},
		{"bmc", "bmc_endpoint"},
		{"ssh", ""}, // two keys
		{"tls", ""},
		{"raft_multiply", "raft_multiplier"},
		{"raft_x", ""},
		{"kernel", ""},
		{"", ""},
	} {
		if got := nearest.Key(tt.written, keys); got != tt.want {
			t.Errorf("Key(%q): got %q, want %q", tt.written, got, tt.want)
		}
	}
}

func TestName(t *testing.T) {
	names := []string{"plan/repave-join", "m-9", "m-010", "gpu"}
	for _, tt := range []struct{ written, want string }{
		{"repave-join", "plan/repave-join"},
		{"repave-jion", "plan/repave-join"},
		{"plan/repave-jin", "plan/repave-join"},
		{"gpi", "gpu"},
		{"n-9", "m-9"},
		{"m-09", "m-9"},
		{"m-10", "m-010"},
		{"m-99", ""}, // another machine
		{"storage", ""},
	} {
		if got := nearest.Name(tt.written, names); got != tt.want {
			t.Errorf("Name(%q): got %q, want %q", tt.written, got, tt.want)
		}
	}
}
