package crash

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// quoted compares the output of the program with its quote in a runbook. "…" matches anything.
func quoted(t *testing.T, page, quote, output string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbooks", page))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "`"+quote) {
		t.Errorf("runbook %s: got no quote %q", page, quote)
	}
	parts := strings.Split(quote, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(strings.TrimSpace(parts[i]))
	}
	if !regexp.MustCompile(strings.Join(parts, ".*")).MatchString(output) {
		t.Errorf("runbook %s: want %q in the output, got:\n%s", page, quote, output)
	}
}

// TestRunbookQuotes provokes each failure that has a runbook, and compares the messages with the
// quotes.
func TestRunbookQuotes(t *testing.T) {
	t.Parallel()
	t.Run("log tail", func(t *testing.T) {
		p := stoppedPeer(t, "--log-store", "boltdb")
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(t, p, "m-last")
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		damage(t, filepath.Join(p.DataDir, "raft.db"), "m-last")
		code, stderr := bench.Run(t, arguments(p)...)
		if code == 0 {
			t.Error("got exit code 0, want a failure")
		}
		quoted(t, "disk.md", "raft log is damaged: read entry …: checksum mismatch: move the data "+
			"directory away to rejoin from the other peers; never put a copy back", stderr)
	})
	t.Run("segment", func(t *testing.T) {
		p := stoppedPeer(t, "--log-store", "wal")
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(t, p, "m-first")
		write(t, p, "m-last")
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(p.DataDir, "wal", "*.wal"))
		if err != nil || len(files) != 1 {
			t.Fatalf("list segments: got %v, %v, want one", files, err)
		}
		damage(t, files[0], "m-first")
		code, stderr := bench.Run(t, arguments(p)...)
		if code == 0 {
			t.Error("got exit code 0, want a failure")
		}
		quoted(t, "disk.md", "raft log is damaged: read …/wal/….wal: entry … is damaged: …", stderr)
	})
	t.Run("snapshot", func(t *testing.T) {
		p := stoppedPeer(t)
		file := snapshot(t, p)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 0xff
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, stderr := bench.Run(t, arguments(p)...)
		quoted(t, "disk.md", "start raft from data directory …: failed to load any existing snapshots: move the "+
			"data directory away to rejoin from the other peers; never put a copy back", stderr)
	})
	t.Run("full disk", func(t *testing.T) { fullDisk(t) })
	t.Run("certificate", func(t *testing.T) { expired(t) })
	t.Run("secrets key", func(t *testing.T) { lostKey(t) })
	t.Run("quorum", func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
		defer stop()
		c, err := localcluster.Start(ctx, localcluster.Config{Binary: bench.Binary, Dir: t.TempDir(), Insecure: true,
			RaftMultiplier: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		last := c.Peers()[0]
		for _, p := range c.Peers()[1:] {
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		harness.Until(t, "the last peer to report the lost majority", func() (bool, any) {
			err := try(t, last, "m-1")
			return err != nil && strings.Contains(err.Error(), "do not answer"), err
		})
		quoted(t, "lost-quorum.md",
			"UNAVAILABLE … no leader: … do not answer, … of … voters are needed: start …",
			strings.ReplaceAll(fmt.Sprint(try(t, last, "m-1")), "code = Unavailable", "UNAVAILABLE"))
	})
}

// try registers a machine with a peer.
func try(t *testing.T, p *localcluster.Peer, id string) error {
	t.Helper()
	conn, err := grpc.NewClient(p.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	_, err = holdfastv1.NewMachineServiceClient(conn).RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: id}})
	return err
}

// write registers a machine with a peer that is starting.
func write(t *testing.T, p *localcluster.Peer, id string) {
	t.Helper()
	harness.Until(t, "a machine to be registered", func() (bool, any) {
		err := try(t, p, id)
		return err == nil || strings.Contains(err.Error(), "AlreadyExists"), err
	})
}

// damage flips a bit at each position of a text in a file: bolt may have old pages with it.
func damage(t *testing.T, file, text string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.ReplaceAll(b, []byte(text), append([]byte{text[0] ^ 1}, text[1:]...))
	if bytes.Equal(changed, b) {
		t.Fatalf("%s: got no text %q", file, text)
	}
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}

// fullDisk fills the disk of a peer with its log in bolt, and frees it again. The peer must end
// with the reason in its log, and serve again after a start.
func fullDisk(t *testing.T) {
	p := stoppedPeer(t, "--log-store", "boltdb")
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", p.DataDir).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: cannot mount a disk for a peer: %v: %s", err, out)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		if out, err := exec.Command("umount", p.DataDir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	if err := p.Start(t.Context()); err != nil { // on an empty disk it bootstraps another cluster
		t.Fatal(err)
	}
	write(t, p, "m-0")
	filler := filepath.Join(p.DataDir, "filler")
	_ = os.WriteFile(filler, make([]byte, 4<<20), 0o600) // fails when the disk is full
	n := 0
	var told error
	harness.Until(t, "the peer to end because its disk is full", func() (bool, any) {
		if !p.Running() {
			return true, nil
		}
		n++
		told = try(t, p, fmt.Sprintf("m-%d", n))
		return false, told
	})
	if err := p.Wait(); err == nil {
		t.Error("got exit code 0, want a failure")
	}
	quoted(t, "disk.md", "the disk is full: write entry … of the raft log: … no space left on device", p.LogTail(1<<20))
	// The pending call gets the reason, or the connection breaks before.
	if status.Code(told) != codes.Unavailable {
		t.Errorf("the last call: got %v, want code %s", told, codes.Unavailable)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, p, "m-after")
}

// expired starts a peer with an expired certificate.
func expired(t *testing.T) {
	p := stoppedPeer(t)
	dir := t.TempDir()
	ca, err := issue.NewCA("prod", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	old, err := ca.Peer("prod", p.ID, []string{"127.0.0.1"}, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"ca.pem": ca.Pair.Cert, "peer.pem": old.Cert, "peer-key.pem": old.Key,
		"gossip.key": []byte(base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"server"}, arguments(p)[2:]...) // without --insecure
	_, stderr := bench.Run(t, append(args, "--tls-ca", filepath.Join(dir, "ca.pem"), "--tls-cert",
		filepath.Join(dir, "peer.pem"),
		"--tls-key", filepath.Join(dir, "peer-key.pem"), "--gossip-key-file", filepath.Join(dir, "gossip.key"))...)
	quoted(t, "keys.md", "read certificate …: the other peers would refuse it: x509: certificate has expired or is "+
		"not yet valid: … make a new one with: holdfast tls cert create", stderr)
}

// lostKey starts a peer without the key of its secrets.
func lostKey(t *testing.T) {
	p := stoppedPeer(t)
	keys := func(id string) string {
		file := filepath.Join(t.TempDir(), "secrets.keys")
		line := id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id[:1], 32))) + "\n"
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	p.Add("--secrets-key-file", keys("first"))
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "a secret to be stored", func() (bool, any) {
		conn, err := grpc.NewClient(p.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		_, err = holdfastv1.NewSecretServiceClient(conn).PutSecret(ctx,
			&holdfastv1.PutSecretRequest{Name: "bmc", Type: "bmc", Values: map[string]string{"username": "u", "password": "p"}})
		return err == nil, err
	})
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Add("--secrets-key-file", keys("second"))
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the peer to log that it leads without the key", func() (bool, any) {
		output := p.LogTail(1 << 20)
		return strings.Contains(output, "leading without a secrets key"), output
	})
	quoted(t, "keys.md", "leading without a secrets key: no recent leader has it; runs that need such a secret fail "+
		"until the key is back", p.LogTail(1<<20))
	quoted(t, "keys.md", "secrets are sealed under key …, which is not in …", p.LogTail(1<<20))
}
