package poolreg_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/client/poolreg"
)

// inventory returns a constant state of the pool.
type inventory struct{}

func (inventory) State(context.Context) (poolreg.State, error) {
	return poolreg.State{
		GPUs: []poolreg.GPU{{ID: 0, Model: "RTX 4090", TotalVRAMGB: new(24), ComputeCapability: "8.9",
			AvailableVRAMGB: new(8), Workers: []string{"worker-abc"}, TemperatureCelsius: new(65)}},
		WorkersTotal: 1, WorkersReady: 1, Uptime: time.Hour,
	}, nil
}

// This pool manager registers, sends a heartbeat, and deregisters.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A peer of a Holdfast cluster.
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path)
		switch r.URL.Path {
		case "/v2/pools/register":
			fmt.Fprint(w, `{"pool_id":"pool-1","status":"registered","heartbeat_interval_ms":10000}`)
		case "/v2/pools/pool-1/heartbeat":
			fmt.Fprint(w, `{"status":"healthy","next_heartbeat_ms":10000}`)
			cancel()
		}
	}))
	defer peer.Close()

	client, err := poolreg.New(poolreg.Config{
		Pool: poolreg.Pool{ID: "pool-1", Endpoint: "http://192.168.1.100:9200", NodeID: "gpu-node-1", Region: "EU",
			Version: "0.1.0"},
		Orchestrator: &poolreg.Server{URLs: []string{peer.URL}},
		Registerer:   prometheus.NewRegistry(),
	}, inventory{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// POST /v2/pools/register
	// POST /v2/pools/pool-1/heartbeat
	// POST /v2/pools/pool-1/deregister
}

// The configuration file of POOLREG-18070.
func ExampleParseSettings() {
	settings, err := poolreg.ParseSettings([]byte(`
registration:
  orchestrator_url: "http://orchestrator:8080"
  pool_id: "pool-1"
  heartbeat_interval_ms: 10000
`))
	fmt.Println(settings.PoolID, settings.OrchestratorURL, err)
	_, err = poolreg.ParseSettings([]byte("registration: {poolid: pool-1}"))
	fmt.Println(err)
	// Output:
	// pool-1 http://orchestrator:8080 <nil>
	// read the configuration: error unmarshaling JSON: while decoding JSON: json: unknown field "poolid"
}
