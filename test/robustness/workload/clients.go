package workload

import (
	"context"
	"net"
	"net/url"
	"time"

	"github.com/holdfast-metal/holdfast/client/discovery"
	"github.com/holdfast-metal/holdfast/client/machine"
	"github.com/holdfast-metal/holdfast/client/poolreg"
)

// Clients act as fast as the SDK allows, so that leases of six seconds are useful.
const (
	heartbeatEvery = time.Second
	tryFor         = 2 * time.Second // at one peer
)

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

func dialer() func(context.Context, string, string) (net.Conn, error) {
	return (&net.Dialer{Timeout: time.Second, KeepAlive: 15 * time.Second}).DialContext
}

// metal supplies the facts of an agent.
type metal struct{}

func (metal) Specs(context.Context) (machine.Specs, error) {
	return machine.Specs{Hostname: "h", PrivateIP: "10.0.0.1", CPUMillicores: 8000, MemoryMiB: 16384}, nil
}
func (metal) Metrics(context.Context) (machine.Metrics, error) { return machine.Metrics{}, nil }

// gpus supplies the state of a pool manager.
type gpus struct{}

func (gpus) State(context.Context) (poolreg.State, error) {
	return poolreg.State{GPUs: []poolreg.GPU{{ID: 0, Model: "RTX 4090", TotalVRAMGB: new(24), AvailableVRAMGB: new(8)}},
		WorkersTotal: 1}, nil
}

func (f *fleet) agent(h *holder) (incarnation, error) {
	a, err := machine.New(machine.Config{Servers: f.w.target.URLs, Token: f.tokens["agent"], MachineID: h.name,
		Pool: f.names().pool, Interval: heartbeatEvery,
		Timeout: tryFor, Transport: h.tap}, metal{})
	if err != nil {
		return incarnation{}, err
	}
	return incarnation{run: a.Run, freeze: h.tap.freeze}, nil
}

func (f *fleet) poolManager(h *holder) (incarnation, error) {
	p, err := poolreg.New(poolreg.Config{
		Pool: poolreg.Pool{
			ID:       h.name,
			Endpoint: "http://10.0.0.1:9200",
			NodeID:   "n",
			Region:   f.names().region,
			Version:  "1",
		},
		Orchestrator:      &poolreg.Server{URLs: f.w.target.URLs, Token: f.tokens[h.name]},
		HeartbeatInterval: heartbeatEvery, Timeout: tryFor, Transport: h.tap,
	}, gpus{})
	if err != nil {
		return incarnation{}, err
	}
	return incarnation{run: p.Run, freeze: h.tap.freeze}, nil
}

// service returns a service whose access tokens are issued by some peer's built-in issuer,
// and valid at all peers.
func (f *fleet) service(h *holder) (incarnation, error) {
	var issuers []string
	for i := range f.w.target.URLs {
		issuers = append(issuers, f.w.target.URLs[(h.number+i)%len(f.w.target.URLs)]+"/oidc")
	}
	s, err := discovery.New(discovery.Config{BaseURLs: f.w.target.URLs, ClientID: f.tokens["service-id"],
		Secret:         f.tokens["service"],
		TokenEndpoints: issuers, DataDir: h.dir, Period: heartbeatEvery, Timeout: tryFor, Transport: h.tap},
		discovery.Target{ServiceName: h.name, Host: f.names().host, Port: 9090, ServiceType: discovery.ToolInvoker})
	if err != nil {
		return incarnation{}, err
	}
	return incarnation{run: s.Run, freeze: h.tap.freeze}, nil
}
