package images_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

const size = 8 << 20

// TestImagesSurvivePeerLoss uploads to one peer, kills it and removes its disk. The other peers
// must serve the file.
func TestImagesSurvivePeerLoss(t *testing.T) {
	dir := t.TempDir()
	binary := program.Holdfast(t)
	// Without the build, which may take long on a busy machine.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: binary, Dir: filepath.Join(dir, "cluster"),
		RaftMultiplier: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range c.Peers() {
				t.Logf("log of %s:\n%s", p.ID, p.LogTail(3000))
			}
		}
		_ = c.Close()
	})
	leader, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	taker := c.Peers()[0] // a follower
	addr := c.Addrs()[0]
	if taker == leader {
		taker, addr = c.Peers()[1], c.Addrs()[1]
	}
	through := func(addrs ...string) *client.Client {
		cl, err := client.Dial(client.Config{Addrs: addrs, TLS: c.TLS(), Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cl.Close() })
		return cl
	}

	all := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(all) // never fails
	copy(all, "XFSB")                             // a root file system
	raw := sha256.Sum256(all)
	sum := hex.EncodeToString(raw[:])
	image := &holdfastv1.Image{Name: "debian", Disk: &holdfastv1.Image_File{Sha256: sum, SizeBytes: size}}
	one := through(addr)
	have, err := one.UploadFile(ctx, client.Upload{SHA256: sum, Size: size, From: bytes.NewReader(all)})
	if err != nil || len(have) < 2 {
		t.Fatalf("upload through %s: got copies at %v, %v", taker.ID, have, err)
	}
	if _, err := one.Images().AddImage(ctx, &holdfastv1.AddImageRequest{Image: image}); err != nil {
		t.Fatal(err)
	}
	if err := taker.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Peers() {
		if p != taker {
			download(ctx, t, c, p, all)
		}
	}
	if err := taker.Wipe(); err != nil {
		t.Fatal(err)
	}
	if err := taker.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	download(ctx, t, c, taker, all)
}

// download reads a file in two ranges and without credentials, like an installer that reconnects.
// It waits for a peer that is restarting.
func download(ctx context.Context, t *testing.T, c *localcluster.Cluster, p *localcluster.Peer, all []byte) {
	t.Helper()
	var got []byte
	conf := c.TLS()
	conf.Certificates, conf.GetClientCertificate = nil, nil
	anonymous := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	defer anonymous.CloseIdleConnections()
	for _, span := range []string{"bytes=0-2999999", "bytes=3000000-"} {
		for {
			part, code, err := get(ctx, anonymous, p.URL("/images/debian/disk"), span)
			if err == nil && code == http.StatusPartialContent {
				got = append(got, part...)
				break
			}
			if ctx.Err() != nil || err == nil && code != http.StatusServiceUnavailable && code != http.StatusNotFound {
				t.Fatalf("download %s from %s: %d, %v: %s", span, p.ID, code, err, part)
			}
			time.Sleep(50 * time.Millisecond) // sleep: polls
		}
	}
	if !bytes.Equal(got, all) {
		t.Errorf("download from %s: got %d bytes that differ from the upload", p.ID, len(got))
	}
}

func get(ctx context.Context, c *http.Client, url, span string) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Range", span)
	resp, err := c.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, 0, fmt.Errorf("read: %w", err)
	}
	return b, resp.StatusCode, nil
}
