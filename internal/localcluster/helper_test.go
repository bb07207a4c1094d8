package localcluster

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestMain makes the test binary act as holdfast when a test has started it as a peer.
func TestMain(m *testing.M) {
	if os.Getenv("LOCALCLUSTER_PEER") != "" {
		if err := actAsPeer(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// actAsPeer serves /readyz with n1 as the leader, and records each start in its data directory.
func actAsPeer(args []string) error {
	fs := flag.NewFlagSet("peer", flag.ContinueOnError)
	vals := map[string]*string{}
	for _, name := range []string{"config", "node-id", "data-dir", "grpc-addr", "http-addr", "raft-addr", "gossip-addr",
		"bootstrap-expect", "join", "raft-multiplier"} {
		vals[name] = fs.String(name, "", "")
	}
	fs.Bool("insecure", false, "")
	broken := fs.Bool("broken", false, "")
	if args[0] == "fake-hardware" && args[1] == "--addr" {
		http.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
		return http.ListenAndServe(args[2], nil)
	}
	if args[0] != "server" {
		return fmt.Errorf("unknown command %q", args[0])
	}
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	id := *vals["node-id"]
	if *broken && id == "n2" {
		return fmt.Errorf("peer %s is broken", id)
	}
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "HOLDFAST_") && kv != "HOLDFAST_GIVEN=1" {
			return fmt.Errorf("environment has %s", kv)
		}
	}
	if err := os.MkdirAll(*vals["data-dir"], 0o700); err != nil {
		return err
	}
	for _, name := range []string{"grpc-addr", "raft-addr", "gossip-addr"} {
		l, err := net.Listen("tcp", *vals[name])
		if err != nil {
			return err
		}
		defer l.Close()
	}
	fmt.Fprintf(os.Stderr, "peer %s: %s\n", id, strings.Join(args, " "))
	role := "follower"
	if id == "n1" {
		role = "leader"
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM) // first: the test stops a peer as soon as it is ready
	l, err := net.Listen("tcp", *vals["http-addr"])
	if err != nil {
		return err
	}
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"role": role, "leader": "n1", "applied_index": 7, "more": true})
	})
	go func() { _ = http.Serve(l, nil) }()
	<-stop
	return nil
}
