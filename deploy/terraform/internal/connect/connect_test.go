package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seen is the part of a client's configuration that settings determine.
type seen struct {
	Addrs []string
	Token string
	TLS   bool
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	contexts := write("contexts.yaml", "current: lab\ncontexts:\n  lab: {addrs: ['lab:7400'], token: lab-token}\n"+
		"  prod: {addrs: ['a:7400', 'b:7400'], token: prod-token}\n")
	token, empty := write("token", "file-token\n"), write("empty", "\n")
	for _, tt := range []struct {
		name string
		in   Settings
		env  map[string]string
		want seen
		err  string
	}{
		{"nothing", Settings{}, map[string]string{"HOME": dir}, seen{Addrs: []string{"127.0.0.1:7400"}}, ""},
		{"no home", Settings{}, nil, seen{Addrs: []string{"127.0.0.1:7400"}}, ""},
		{"current context", Settings{}, map[string]string{"HOLDFAST_CONTEXTS": contexts},
			seen{Addrs: []string{"lab:7400"}, Token: "lab-token"}, ""},
		{"context of the environment", Settings{},
			map[string]string{"HOLDFAST_CONTEXTS": contexts, "HOLDFAST_CONTEXT": "prod"},
			seen{Addrs: []string{"a:7400", "b:7400"}, Token: "prod-token"}, ""},
		{"context of the settings", Settings{Context: "prod"}, map[string]string{"HOLDFAST_CONTEXTS": contexts,
			"HOLDFAST_ADDR": "other", "HOLDFAST_TOKEN": "other"},
			seen{Addrs: []string{"a:7400", "b:7400"}, Token: "prod-token"}, ""},
		{"address of the environment", Settings{}, map[string]string{"HOLDFAST_CONTEXTS": contexts,
			"HOLDFAST_ADDR": "x:1, y:2", "HOLDFAST_TOKEN": "t"}, seen{Addrs: []string{"x:1", "y:2"}, Token: "t"}, ""},
		{"peers do not get the token of the current context", Settings{Peers: []string{"p:1"}},
			map[string]string{"HOLDFAST_CONTEXTS": contexts}, seen{Addrs: []string{"p:1"}}, ""},
		{"token file", Settings{Peers: []string{"p:1"}, TokenFile: token}, map[string]string{"HOLDFAST_TOKEN": "t"},
			seen{Addrs: []string{"p:1"}, Token: "file-token"}, ""},
		{"two tokens", Settings{Token: "a", TokenFile: token}, nil, seen{}, "token and token_file are both set"},
		{"empty token file", Settings{TokenFile: empty}, nil, seen{}, "is empty"},
		{"unknown context", Settings{Context: "none"}, map[string]string{"HOLDFAST_CONTEXTS": contexts}, seen{},
			`context "none" not found`},
		{"certificate without key", Settings{Cert: "c.pem"}, nil, seen{}, "go together"},
		{"missing CA", Settings{CA: filepath.Join(dir, "none.pem")}, nil, seen{}, "none.pem"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := tt.in.Config(func(key string) string { return tt.env[key] })
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want %q", err, tt.err)
				}
				return
			}
			got := seen{Addrs: cfg.Addrs, Token: cfg.Token, TLS: cfg.TLS != nil}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("got error %v, configuration (-want +got):\n%s", err, diff)
			}
		})
	}
}
