package serve

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
)

// loaded returns the configuration of a command line, an environment and a file.
func loaded(t *testing.T, args []string, env map[string]string, file string) (*Config, error) {
	t.Helper()
	var c Config
	fs := pflag.NewFlagSet("server", pflag.ContinueOnError)
	c.flags(fs)
	if file != "" {
		path := filepath.Join(t.TempDir(), "peer.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &c, c.load(fs, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	file := "node_id: from-file\ndata_dir: /file\njoin: [a:1, b:2]\nbootstrap_expect: 3\nproviders:\n  dc-1: {kind: " +
		"fake, endpoint: 'http://x'}\n"
	c, err := loaded(t, []string{"--node-id", "from-flag"}, map[string]string{"HOLDFAST_NODE_ID": "from-env",
		"HOLDFAST_DATA_DIR": "/env"}, file)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.PeerID, c.DataDir, c.Join, c.BootstrapExpect, c.Providers["dc-1"].Kind, string(c.Providers["dc-1"].Raw)}
	want := []any{"from-flag", "/env", []string{"a:1", "b:2"}, 3, "fake", `{"endpoint":"http://x"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestBadFilesNameKeyAndLine(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"unknown key", "node_id: a\nbotstrap_expect: 3\n",
			`line 2: unknown key "botstrap_expect": did you mean bootstrap_expect?`},
		{"file of contexts", "current: prod\n", "set HOLDFAST_CONTEXTS for the contexts of the client"},
		{"twice, in both spellings", "node_id: a\nnode-id: b\n", `line 2: duplicate key "node-id"`},
		{"wrong type", "node_id: a\n\nbootstrap_expect: three\n", `line 3: bootstrap_expect: "three" is not a number`},
		{"a time without a unit", "archive: {after: soon}\n", `"soon" is not a time such as 90s or 1h30m`},
		{"neither true nor false", "insecure: perhaps\n", `line 1: insecure: "perhaps" is neither true nor false`},
		{"unknown key of the archive", "archive: {afterr: 1h}\n", `unknown key "afterr" below "archive": did you mean after?`},
		{"providers", "provider: {}\n", `unknown key "provider": did you mean providers?`},
		{"twice", "node_id: a\nnode_id: b\n", `line 2: duplicate key "node_id"`},
		{"not a mapping", "- a\n", "line 1: it is no configuration: want keys and values"},
		{"provider without kind", "providers:\n  x: {endpoint: y}\n", "provider has no kind"},
		{"nested where a value belongs", "join: {a: b}\n", `line 1: key "join"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := loaded(t, nil, nil, tc.file); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestSettleRefuses(t *testing.T) {
	base := []string{"--node-id=n1", "--data-dir=/d", "--bootstrap-expect=1", "--insecure"}
	secure := slices.Concat(base[:3], []string{"--tls-ca=ca.pem", "--tls-cert=c.pem", "--tls-key=k.pem",
		"--gossip-key-file=g"})
	for _, tc := range []struct {
		name string
		args []string
		want string // "": no error
	}{
		{"a peer alone", base, ""},
		{"dev needs nothing", []string{"--node-id=n1", "--dev"}, ""},
		{"three with addresses to join", []string{"--node-id=n1", "--data-dir=/d", "--bootstrap-expect=3",
			"--join=127.0.0.1:1", "--insecure"}, ""},
		{"no data directory", []string{"--node-id=n1", "--insecure"}, "--data-dir"},
		{"no TLS and not insecure", base[:3], "--insecure"},
		{"hint for certificates", base[:3], "--tls-cert (made by: holdfast tls cert create --peer n1)"},
		{"TLS on a public address", append([]string{"--grpc-addr=0.0.0.0:7400"}, secure...), ""},
		{"missing file", secure[:6], "set --gossip-key-file (made by: holdfast gossip keygen)"},
		{"TLS and insecure", append([]string{"--insecure"}, secure...), "leave out --insecure or --dev, or --tls-ca"},
		{"insecure on a public address", append([]string{"--grpc-addr=0.0.0.0:7400"}, base...), "--grpc-addr 0.0.0.0:7400"},
		{"the danger before --join", []string{"--node-id=n1", "--data-dir=/d", "--bootstrap-expect=3", "--insecure",
			"--grpc-addr=0.0.0.0:7400"}, "anybody who reaches that address could erase every machine"},
		{"insecure on a name", append([]string{"--http-addr=example.org:80"}, base...), "--http-addr"},
		{"insecure, advertised elsewhere", append([]string{"--advertise-raft=10.0.0.1:7402"}, base...), "--advertise-raft"},
		{"an even number of voters", []string{"--node-id=n1", "--data-dir=/d", "--bootstrap-expect=4", "--join=127.0.0.1:1",
			"--insecure"}, "--bootstrap-expect"},
		{"no peers to join", []string{"--node-id=n1", "--data-dir=/d", "--bootstrap-expect=3", "--insecure"}, "--join"},
		{"invalid --on-shutdown", append([]string{"--on-shutdown=explode"}, base...), "--on-shutdown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := loaded(t, tc.args, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			err = c.settle()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q in it", err, tc.want)
			}
		})
	}
}

// TestDevAlone checks that --dev is refused with settings that it would ignore, from any source.
func TestDevAlone(t *testing.T) {
	for _, tc := range []struct {
		args []string
		env  map[string]string
		file string
		want string
	}{
		{[]string{"--dev"}, nil, "", ""},
		{[]string{"--dev=false", "--data-dir=/d"}, nil, "", ""},
		{[]string{"--dev", "--data-dir=/d"}, nil, "", "--data-dir /d: it has no effect with --dev ("},
		{[]string{"--dev", "--join=10.0.0.1:1,10.0.0.2:1"}, nil, "", "--join 10.0.0.1:1,10.0.0.2:1: it"},
		{[]string{"--dev", "--insecure=false"}, nil, "", "--insecure false: it has no effect with --dev ("},
		{[]string{"--dev"}, nil, "insecure: false\n", "--insecure false: it"},
		{[]string{"--dev", "--log-store=boltdb"}, nil, "", "--log-store boltdb: it"},
		{[]string{"--dev", "--bootstrap-expect=1", "--insecure", "--join=", "--data-dir="}, nil, "", ""},
		{[]string{"--dev"}, map[string]string{"HOLDFAST_BOOTSTRAP_EXPECT": "3"}, "", "--bootstrap-expect 3: it"},
		{[]string{"--data-dir=/d"}, map[string]string{"HOLDFAST_DEV": "true"}, "", "leave one of them out"},
		{[]string{"--dev"}, nil, "data_dir: /d\n", "--data-dir /d: it has no effect"},
	} {
		_, err := loaded(t, tc.args, tc.env, tc.file)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, %v, %q: got error %v, want %q in it", tc.args, tc.env, tc.file, err, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("node_id: a\njoin: [a, b]\n"))
	f.Add([]byte("providers: {fake: {kind: fake}}\n"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var c Config
		fs := pflag.NewFlagSet("server", pflag.ContinueOnError)
		c.flags(fs)
		_ = c.file(os.LookupEnv).Parse(fs, map[string]bool{}, b)
	})
}

// TestPortsOfFailedStart checks that a peer that cannot start closes the ports that it opened.
func TestPortsOfFailedStart(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	flags := []string{"--grpc-addr", "--http-addr", "--netboot-addr", "--raft-addr", "--gossip-addr"}
	for _, tt := range []struct {
		name  string
		busy  string // the flag of a port in use
		files bool   // image files cannot be opened, which is tried last
		want  string
	}{
		{"netboot", "--netboot-addr", false, "listen for --netboot-addr"},
		{"raft", "--raft-addr", false, "address already in use"},
		{"gossip", "--gossip-addr", false, "address already in use"},
		{"images", "", true, "images"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ports, err := freeport.Claim(t.Context(), len(flags))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ports.Release() }()
			dir := t.TempDir()
			if tt.files {
				if err := os.WriteFile(filepath.Join(dir, "images"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"--insecure", "--data-dir", dir, "--node-id", "n1", "--bootstrap-expect", "1"}
			var others []string
			for _, flag := range flags {
				addr := ports.Address("127.0.0.1")
				if flag == tt.busy {
					addr = busy.Addr().String()
				} else {
					others = append(others, addr)
				}
				args = append(args, flag, addr)
			}
			c, err := loaded(t, args, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			err = run(t.Context(), c, "test", slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			for _, addr := range others {
				ln, err := net.Listen("tcp", addr)
				if err != nil {
					t.Errorf("after the failed start: %v", err)
					continue
				}
				_ = ln.Close()
			}
		})
	}
}

// TestInvalidSettingsWriteNothing checks that a peer refuses a setting before it creates its data
// directory, with the exit code of an invalid command line.
func TestInvalidSettingsWriteNothing(t *testing.T) {
	for _, args := range [][]string{{"--deny-urls", "nowhere"}, {"--archive-url", "ftp://a"}} {
		dir := filepath.Join(t.TempDir(), "data")
		c, err := loaded(t, append(args, "--insecure", "--data-dir", dir, "--node-id", "n1", "--bootstrap-expect", "1",
			"--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--raft-addr", "127.0.0.1:0",
			"--gossip-addr", "127.0.0.1:0"), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		err = run(t.Context(), c, "test", slog.New(slog.DiscardHandler))
		var invalid interface{ ExitCode() int }
		if !errors.As(err, &invalid) || invalid.ExitCode() != 2 {
			t.Errorf("%s: got %v, want exit code 2", args, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got a data directory (error %v), want none", args, err)
		}
	}
}
