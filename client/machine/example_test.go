package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/holdfast-metal/holdfast/client/machine"
)

// facts returns constant facts.
type facts struct{}

func (facts) Specs(context.Context) (machine.Specs, error) {
	return machine.Specs{Hostname: "gpu-worker-1", PrivateIP: "192.168.1.100", CPUMillicores: 8000, MemoryMiB: 16384,
		GPUCount: 1}, nil
}

func (facts) Metrics(context.Context) (machine.Metrics, error) {
	return machine.Metrics{CPUUtilizationPct: 15.5, TotalCPUAvailable: 8000, TotalMemoryAvailable: 16384,
		FreeGPUCount: new(1)}, nil
}

// This agent registers, and keeps the machine alive until its context ends.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A peer of a Holdfast cluster.
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			MachineID string `json:"machine_id"`
			CPU       string `json:"cpu"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		switch r.URL.Path {
		case "/api/v1/machine/register":
			fmt.Println("registered:", body.MachineID, body.CPU)
			fmt.Fprint(w, `{"config":null,"machine_state":{"machine_id":"m-123","status":"registered","pool_name":"gpu","ttl_seconds":300}}`)
		case "/api/v1/machine/keepalive":
			fmt.Println("ready:", body.MachineID)
			fmt.Fprint(w, `{"status":"ok","machine_state":{"machine_id":"m-123","status":"ready","ttl_seconds":300}}`)
			cancel()
		}
	}))
	defer peer.Close()

	agent, err := machine.New(machine.Config{
		Servers: []string{peer.URL}, Token: "abc123", MachineID: "m-123", Pool: "gpu", AgentVersion: "0.1.0",
	}, facts{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := agent.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// registered: m-123 8000m
	// ready: m-123
}

// The first start creates an id, and all others find it.
func ExampleIdentity() {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "identity.json")
	first, _, err := machine.Identity(file, "", "uuid of the board")
	if err != nil {
		fmt.Println(err)
		return
	}
	second, _, err := machine.Identity(file, "", "uuid of the board")
	fmt.Println(len(first), first == second, err)
	// Output: 8 true <nil>
}
