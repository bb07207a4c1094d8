package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
)

// redisServer is the program, of the Debian package redis-server.
const redisServer = "redis-server"

// unlock takes a lock away if it is still ours: how clients of Redis do it.
const unlock = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`

// runRedisGateway starts a Redis server, and in front of it an HTTP server that takes keepalives as a gateway does that keeps its machines
// there: take the machine's lock (SET NX PX), write its hash (HSET), set when it expires (EXPIRE), give the lock back. It asks nobody for
// a token, and leaves to Redis when data goes to disk (each second).
func runRedisGateway(ctx context.Context, out io.Writer, cert, key, dir string) (err error) {
	ports, err := freeport.Claim(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ports.Release()) }()
	addr := ports.Address("127.0.0.1")
	port := addr[len("127.0.0.1:"):]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "redis.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server := exec.CommandContext(ctx, redisServer, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec") //nolint:gosec // a constant name
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return fmt.Errorf("start %s: %w", redisServer, err)
	}
	defer func() {
		stop()
		_ = server.Wait() // it was killed: that is how it ends
	}()
	g := &redisGateway{redis: &redis{addr: addr}}
	if err := g.wait(ctx); err != nil {
		return fmt.Errorf("wait for %s: %w: see %s", redisServer, err, log.Name())
	}
	return serveTarget(ctx, out, cert, key, g, server.Process.Pid)
}

type redisGateway struct {
	redis  *redis
	script string // the digest of unlock
}

// wait waits until Redis answers, and leaves the script there.
func (g *redisGateway) wait(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	for {
		err := g.redis.with(ctx, func(_ context.Context, c *redisConn) (err error) {
			g.script, err = c.do("SCRIPT", "LOAD", unlock)
			return err
		})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ServeHTTP takes a keepalive.
func (g *redisGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		MachineID    string             `json:"machine_id"`
		PoolName     string             `json:"pool_name"`
		ProviderName string             `json:"provider_name"`
		AgentVersion string             `json:"agent_version"`
		Metrics      map[string]float64 `json:"metrics"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	key := "provider:machine:" + in.ProviderName + ":" + in.PoolName + ":" + in.MachineID
	fields := []string{"HSET", key, "status", "ready", "last_keepalive", now, "agent_version", in.AgentVersion}
	for name, v := range in.Metrics {
		fields = append(fields, name, strconv.FormatFloat(v, 'g', -1, 64))
	}
	err := g.redis.with(r.Context(), func(ctx context.Context, c *redisConn) error {
		owner := rand.Text()
		if err := lock(ctx, c, key+":lock", owner); err != nil {
			return err
		}
		for _, command := range [][]string{fields, {"EXPIRE", key, "300"}, {"EVALSHA", g.script, "1", key + ":lock", owner}} {
			if _, err := c.do(command...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "ok", "machine_state": map[string]any{ // the client is gone: nobody to tell
		"machine_id": in.MachineID, "status": "ready", "pool_name": in.PoolName, "last_keepalive": now, "ttl_seconds": 300, "agent_version": in.AgentVersion,
	}})
}

// lock waits for a lock of ten seconds.
func lock(ctx context.Context, c *redisConn, key, owner string) error {
	for {
		_, err := c.do("SET", key, owner, "NX", "PX", "10000")
		if !errors.Is(err, errNil) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
