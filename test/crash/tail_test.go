package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// tailed is a log as one reader received it from the beginning.
type tailed struct {
	run, name string
	done      chan error

	mu   sync.Mutex
	data []byte
	gaps []string
}

// take adds a chunk, which must begin where the last one ended.
func (l *tailed) take(c *holdfastv1.LogChunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.GetOffset() != int64(len(l.data)) {
		l.gaps = append(l.gaps, fmt.Sprintf("a chunk begins at %d after %d bytes", c.GetOffset(), len(l.data)))
	}
	l.data = append(l.data, c.GetData()...)
}

func (l *tailed) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.data)
}

// follow tails a log with the SDK.
func follow(ctx context.Context, cl *client.Client, run string) *tailed {
	l := &tailed{run: run, name: "client", done: make(chan error, 1)}
	go func() {
		l.done <- cl.FollowLogs(ctx, run, 0, func(c *holdfastv1.LogChunk) error {
			l.take(c)
			return nil
		})
	}()
	return l
}

// followBare tails a log without the SDK, beginning at one peer.
func followBare(ctx context.Context, t *testing.T, c *harness.Cluster, run string, at int) *tailed {
	l := &tailed{run: run, name: "bare", done: make(chan error, 1)}
	go func() {
		l.done <- overPeers(ctx, t, c, at, func(rpc holdfastv1.RunServiceClient) error {
			stream, err := rpc.StreamRunLogs(ctx, &holdfastv1.StreamRunLogsRequest{RunId: run, Offset: int64(len(l.bytes()))})
			for err == nil {
				var chunk *holdfastv1.LogChunk
				if chunk, err = stream.Recv(); err == nil {
					l.take(chunk)
				}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		})
	}()
	return l
}

// check compares the tail with the final log of every peer.
func (l *tailed) check(t *testing.T, c *harness.Cluster) {
	t.Helper()
	select {
	case err := <-l.done:
		if err != nil {
			t.Errorf("tail of %s (%s): %v", l.run, l.name, err)
		}
	case <-t.Context().Done():
		t.Fatal("the test has ended")
	}
	for _, gap := range l.gaps {
		t.Errorf("tail of %s (%s): %s", l.run, l.name, gap)
	}
	for _, p := range c.Peers() {
		var whole bytes.Buffer
		err := c.Dial(p.GRPCAddr).ReadLogs(t.Context(), l.run, 0, func(chunk *holdfastv1.LogChunk) error {
			whole.Write(chunk.GetData())
			return nil
		})
		if err != nil {
			t.Errorf("read the log of %s at %s: %v", l.run, p.ID, err)
		}
		if !bytes.Equal(whole.Bytes(), l.bytes()) {
			t.Errorf("tail of %s (%s): got %d bytes that differ from the log at %s (%d)", l.run, l.name, len(l.bytes()), p.ID,
				whole.Len())
		}
	}
}
