package auth

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPeopleConfig(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := file("secret", "s3cret\n", 0o600)
	back := "https://holdfast.example" + CallbackPath
	for _, tt := range []struct {
		name   string
		people People
		want   string // in the error; empty: none
	}{
		{"nobody signs in", People{}, ""},
		{"public client", People{ClientID: "x"}, ""},
		{"all", People{ClientID: "x", ClientSecretFile: secret, CLIClientID: "y", Scopes: []string{"openid", "groups"},
			RedirectURL: back, DisplayName: "Example SSO"}, ""},
		{"command lines only", People{CLIClientID: "y"}, ""},
		{"secret without client", People{ClientSecretFile: secret}, "set client_id"},
		{"address without client", People{RedirectURL: back}, "set client_id"},
		{"no such file", People{ClientID: "x", ClientSecretFile: secret + "2"}, "read client_secret_file"},
		{"readable by others", People{ClientID: "x", ClientSecretFile: file("open", "s3cret", 0o644)}, "client_secret_file"},
		{"empty secret", People{ClientID: "x", ClientSecretFile: file("empty", "\n", 0o600)}, "it is empty"},
		{"no openid", People{ClientID: "x", Scopes: []string{"profile"}}, "add openid"},
		{"name with a line", People{ClientID: "x", DisplayName: "a\nb"}, "display_name"},
		{"another path", People{ClientID: "x", RedirectURL: "https://holdfast.example/ui/"}, "redirect_url"},
		{"plain http", People{ClientID: "x", RedirectURL: "http://holdfast.example" + CallbackPath}, "redirect_url"},
		{"http on loopback", People{ClientID: "x", RedirectURL: "http://127.0.0.1:7401" + CallbackPath}, ""},
	} {
		_, err := newIssuers(Config{Issuers: []Issuer{{URL: "https://sso.example", Audience: "a", People: tt.people}}})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) ||
			err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestSignIns: the keys of the configuration are those of the issuer itself, in its order. The
// client of command lines is never one with a secret, unless it is configured.
func TestSignIns(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(`[
		{"issuer": "https://b.example", "audience": "x", "client_id": "public"},
		{"issuer": "https://tokens.example", "audience": "x"},
		{"issuer": "https://a.example:8443", "audience": "x", "client_id": "c", "client_secret_file": "` + secret + `"},
		{"issuer": "https://c.example", "audience": "x", "client_id": "c", "client_secret_file": "` + secret + `",
			"cli_client_id": "c", "display_name": "C", "scopes": ["openid"]}
	]`)))
	dec.DisallowUnknownFields()
	var cfg []Issuer
	if err := dec.Decode(&cfg); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range newGate(t, &fakeRecords{}, Config{Issuers: cfg}).SignIns() {
		c := s.Config()
		got = append(got, strings.Join([]string{c.DisplayName, c.ClientID, c.CLIClientID, strings.Join(c.Scopes, ",")}, " "))
	}
	want := []string{"b.example public public openid,profile", "a.example:8443 c  openid,profile", "C c c openid"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("issuers (-want +got):\n%s", diff)
	}
}
