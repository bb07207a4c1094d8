package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// checked returns the problems of a configuration file, one per line.
func checked(t *testing.T, file string, skipFiles bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "peer.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{File: path}
	keys := pflag.NewFlagSet("config", pflag.ContinueOnError)
	c.flags(keys)
	c.File = path
	var all strings.Builder
	for _, err := range c.problems(keys, func(string) (string, bool) { return "", false }, skipFiles) {
		all.WriteString(err.Error() + "\n")
	}
	return all.String()
}

func TestConfigCheck(t *testing.T) {
	const good = "node_id: n1\ndata_dir: /nonexistent/data\ninsecure: true\nbootstrap_expect: 1\n"
	tests := []struct {
		name, file string
		want       []string // none: no problem
	}{
		{"a valid file", good, nil},
		{"all problems at once", "grpc_address: x\nmax_active_runs: -1\nbootstrap_expect: 4\nhttp_addr: '74000'\n" +
			"node_id: n1\n",
			[]string{`unknown key "grpc_address": did you mean grpc_addr?`,
				"set --max-active-runs to a number from 1 to 1000000, not -1",
				"set --bootstrap-expect to 1, 3, 5 or 7", `read --http-addr "74000": want host:port`, "set --data-dir",
				"set --tls-ca", "set --join"}},
		{"a port out of range", good + "raft_addr: 127.0.0.1:99999\n", []string{"read --raft-addr"}},
		{"an unknown kind of provider", good + "providers: {dc: {kind: redfish}}\n",
			[]string{`kind "redfish" is not one of`}},
		{"a list of providers", good + "providers: [fake]\n",
			[]string{`key "providers": want a kind and options for each name`}},
		{"an unknown key of a provider", good + "providers: {dc: {kind: fake, endpont: 'http://127.0.0.1:1'}}\n",
			[]string{"endpont"}},
		{"an unknown key of an issuer", good + "oidc_issuers: [{issuer: 'https://x', audence: a}]\n",
			[]string{`unknown key "audence": did you mean audience?`}},
		{"an issuer without TLS", good + "oidc_issuers: [{issuer: 'http://x.example', audience: a}]\n",
			[]string{"want https"}},
		{"an archive that is none", good + "archive: {url: ftp://x}\n", []string{"read --archive-url"}},
		{"networks that are none", good + "deny_urls: [10.0.0.0/99]\n", []string{"read --deny-urls"}},
		{"a word for webhooks", good + "open_webhooks: deny\n",
			[]string{`set --open-webhooks to allow or refuse, not "deny"`}},
		{"webhooks that must be signed", good + "open_webhooks: refuse\n", nil},
		{"netboot without its address", good + "netboot: eth0\n", []string{"read --netboot"}},
		{"routed networks that are none", good + "netboot_routed: [10.0.0.1/8]\n", []string{"read --netboot-routed"}},
		{"a key file that is missing", good + "secrets_key_file: /nonexistent/key\n", []string{"/nonexistent/key"}},
		{"a level of the log", good + "log_level: loud\n", []string{"read --log-level"}},
		{"no numbers", good + "rate_limit_per_second: -5\nraft_multiplier: NaN\nplatform_margin_percent: 101\n",
			[]string{"--rate-limit-per-second", "--raft-multiplier", "--platform-margin-percent"}},
		{"an address that others cannot reach", good + "advertise_grpc: 127.0.0.1:0\n", []string{"read --advertise-grpc"}},
		{"addresses that are none", good + "join: ['10.0.0.300:7403', '10.0.1:7403', ':7403', '224.0.0.1:7403']\n",
			[]string{`read --join "10.0.0.300:7403": host "10.0.0.300": is not an address`, `read --join "10.0.1:7403"`,
				`read --join ":7403"`, `read --join "224.0.0.1:7403"`}},
		{"addresses of others", good + "join: ['peer-1.example.:7403', 'n_1:7403', '[fd00::7]:7403']\n", nil},
		{"one address for two", good + "http_addr: 127.0.0.1:7400\nnetboot_addr: 127.0.0.1:7402\n",
			[]string{"set --http-addr to another address than --grpc-addr",
				"set --netboot-addr to another address than --raft-addr"}},
		{"any free ports", good + "grpc_addr: 127.0.0.1:0\nhttp_addr: 127.0.0.1:0\n", nil},
		{"no share", good + "tracing_ratio: NaN\n", []string{"--tracing-ratio"}},
		{"times before zero", good + "archive_after: -5m\n", []string{"--archive-after"}},
		{"peers without ports", good + "join: [10.0.0.1]\n", []string{"read --join"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := checked(t, tt.file, false)
			if (got == "") != (len(tt.want) == 0) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwant %q", got, want)
				}
			}
			for _, goText := range []string{"json:", "unmarshal", "map[", "strconv"} {
				if strings.Contains(got, goText) {
					t.Errorf("got %q, with text of Go: %s", got, goText)
				}
			}
		})
	}
}

// TestConfigCheckSkipsFiles checks the file of another host: no file that it names is read, and all
// other problems are found.
func TestConfigCheckSkipsFiles(t *testing.T) {
	const file = `node_id: n1
data_dir: /nonexistent/data
tls_ca: /nonexistent/ca.crt
tls_cert: /nonexistent/n1.crt
tls_key: /nonexistent/n1.key
gossip_key_file: /nonexistent/gossip
secrets_key_file: /nonexistent/secrets
bootstrap_expect: 1
providers:
  dc: {kind: cloudbmc, ca_file: /nonexistent/bmc.crt}
  ironic: {kind: ironic, endpoint: 'https://ironic.example', ca_file: /nonexistent/ironic.crt}
oidc_issuers:
- {issuer: 'https://a.example', audience: x, client_id: y, client_secret_file: /nonexistent/secret}
`
	if got := checked(t, file, true); got != "" {
		t.Errorf("got %q, want no problem", got)
	}
	got := checked(t, file, false)
	for _, want := range []string{"bmc.crt", "ironic.crt", "secret", "gossip", "secrets", "ca.crt"} {
		if !strings.Contains(got, "/nonexistent/"+want) {
			t.Errorf("got\n%s\nwant a problem of %s", got, want)
		}
	}
	wrong := strings.NewReplacer("ca_file: /nonexistent/bmc", "tls: no, ca_file: /nonexistent/bmc",
		"issuer: 'https://a.example'", "issuer: 'http://a.example'", "https://ironic", "ironic").Replace(file)
	got = checked(t, wrong, true)
	for _, want := range []string{`provider "dc": tls is "no"`, `provider "ironic": endpoint`, `"http://a.example": want https`} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
	halves := strings.Replace(file, "  dc: {kind: cloudbmc, ca_file: /nonexistent/bmc.crt}",
		"  dc: {kind: datacenter, bmc: {ca_file: /nonexistent/bmc.crt}, ssh: {host_keys: never}}", 1)
	if got := checked(t, halves, true); !strings.Contains(got, "never") {
		t.Errorf("the half of a provider behind one with a CA: got %q, want a problem of host_keys", got)
	}
	twice := file + "- {issuer: 'https://a.example', audience: x, client_id: y, client_secret_file: /nonexistent/other}\n"
	if got := checked(t, twice, true); !strings.Contains(got, "listed twice") {
		t.Errorf("got %q, want an issuer that is listed twice", got)
	}
}

func TestConfigCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.yaml")
	if err := os.WriteFile(path, []byte("node_id: n1\nbootstrap_expect: 1\ninsecure: true\nx: y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := ConfigCommand()
	var out, problems bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"check", path})
	err := cmd.Execute()
	if err == nil || !strings.Contains(err.Error(), "2 problems") ||
		!strings.HasPrefix(problems.String(), path+`: line 4: unknown key "x"`) {
		t.Errorf("got %v, %q", err, problems.String())
	}
}
