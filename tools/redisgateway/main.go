// Command redisgateway is compared with a peer by `holdfast-bench`: a gateway that keeps
// its machines in Redis, as it is commonly written. For each keepalive it obtains the
// machine's lock (bsm/redislock), writes the hash (HSET), sets its expiry (EXPIRE) and
// releases the lock, with go-redis over TCP. It requires no token, and Redis syncs to disk
// once a second.
//
// It is a separate module, so that peers do not link its clients. It starts its own
// redis-server, prints its address and the ids of both processes, and ends with its
// standard input.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

const (
	ttl      = 300 * time.Second // of a machine
	lockTTL  = 10 * time.Second
	retry    = 100 * time.Millisecond // while another request holds the lock
	patience = 10 * time.Second
)

func main() {
	cert := flag.String("cert", "", "`file` with its certificate; none: no TLS")
	key := flag.String("key", "", "`file` with the key")
	dir := flag.String("dir", ".", "`directory` for the data of Redis")
	flag.Parse()
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := run(ctx, *cert, *key, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "redisgateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cert, key, dir string) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	pid, stop, err := startRedis(ctx, addr, dir)
	if err != nil {
		return err
	}
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	if err := wait(ctx, client); err != nil {
		return fmt.Errorf("wait for redis-server: %w", err)
	}
	mux := http.NewServeMux()
	g := &gateway{redis: client, locks: redislock.New(client)}
	mux.HandleFunc("POST /api/v1/machine/keepalive", g.keepalive)
	return serve(ctx, mux, cert, key, pid)
}

// freeAddr returns an unused address. If another process takes it first, Redis reports that
// and ends.
func freeAddr(ctx context.Context) (string, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}

func startRedis(ctx context.Context, addr, dir string) (pid int, stop func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "redis.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	ctx, kill := context.WithCancel(ctx)
	server := exec.CommandContext(ctx, "redis-server", "--bind", host, "--port", port, "--dir", dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		kill()
		return 0, nil, errors.Join(fmt.Errorf("start redis-server: %w", err), log.Close())
	}
	return server.Process.Pid, func() {
		kill()
		_ = server.Wait() // it was killed, so it returns an error
		_ = log.Close()
	}, nil
}

// wait blocks until Redis answers.
func wait(ctx context.Context, client *redis.Client) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		err := client.Ping(ctx).Err()
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

// serve serves on a free port of loopback until ctx ends.
func serve(ctx context.Context, h http.Handler, cert, key string, redisPID int) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: patience, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	go func() { // ends with ctx
		<-ctx.Done()
		_ = srv.Close()
	}()
	fmt.Println(ln.Addr(), os.Getpid(), redisPID)
	if cert == "" {
		err = srv.Serve(ln)
	} else {
		err = srv.ServeTLS(ln, cert, key)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

type gateway struct {
	redis *redis.Client
	locks *redislock.Client
}

type keepalive struct {
	MachineID    string             `json:"machine_id"`
	PoolName     string             `json:"pool_name"`
	ProviderName string             `json:"provider_name"`
	AgentVersion string             `json:"agent_version"`
	Metrics      map[string]float64 `json:"metrics"`
}

func (g *gateway) keepalive(w http.ResponseWriter, r *http.Request) {
	var in keepalive
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	if err := g.update(r.Context(), &in, now); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The error is ignored: the client is gone.
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "ok", "machine_state": map[string]any{
		"machine_id": in.MachineID, "status": "ready", "pool_name": in.PoolName, "last_keepalive": now,
		"ttl_seconds": int(ttl.Seconds()), "agent_version": in.AgentVersion,
	}})
}

// update writes a machine while it holds its lock.
func (g *gateway) update(ctx context.Context, in *keepalive, now string) error {
	key := "provider:machine:" + in.ProviderName + ":" + in.PoolName + ":" + in.MachineID
	lock, err := g.locks.Obtain(ctx, key+":lock", lockTTL,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(retry)})
	if err != nil {
		return fmt.Errorf("lock %s: %w", key, err)
	}
	defer func() { _ = lock.Release(ctx) }() // it expires by itself
	fields := map[string]any{"status": "ready", "last_keepalive": now, "agent_version": in.AgentVersion}
	for name, v := range in.Metrics {
		fields[name] = v
	}
	if err := g.redis.HSet(ctx, key, fields).Err(); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	if err := g.redis.Expire(ctx, key, ttl).Err(); err != nil {
		return fmt.Errorf("set the expiry of %s: %w", key, err)
	}
	return nil
}
