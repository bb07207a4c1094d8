// Package poolapi is the HTTP API of pool registration (spec 001, POOLREG-18xxx). Pool
// managers register, send heartbeats and deregister. Marketplace providers register.
// Schedulers query pools with free capacity.
//
// It owns the wire form and its errors, {"error": code, "message": text}. The gate decides
// which calls are allowed, and the gRPC services carry them out. It must not import the FSM
// or the cluster.
package poolapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

// Heartbeats accepts heartbeats (server.Heartbeats). Its errors are statuses.
type Heartbeats interface {
	HeartbeatPool(ctx context.Context, r *holdfastv1.HeartbeatPoolRequest) (*holdfastv1.HeartbeatPoolResponse, error)
}

type api struct {
	pools      holdfastv1.PoolServiceClient
	heartbeats Heartbeats
}

// Register adds the routes to a mux, each with and without a trailing slash. Calls to the
// services use rpc; heartbeats go to heartbeats.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface, heartbeats Heartbeats) {
	a := &api{pools: holdfastv1.NewPoolServiceClient(rpc), heartbeats: heartbeats}
	m.Fallback("/v2/", lost)
	route := httpjson.NewRoute
	httpjson.Add(m, refused,
		route("POST /v2/pools/register", "PoolService/RegisterPool", a.register),
		route("POST /v2/pools/{id}/heartbeat", "HeartbeatService/HeartbeatPool", a.heartbeat),
		route("POST /v2/pools/{id}/deregister", "PoolService/DeregisterPool", a.deregister),
		route("GET /v2/pools", "PoolService/ListPools", a.list),
		route("GET /v2/pools/{id}", "PoolService/GetPool", a.get),
		route("POST /v2/platform/providers/register", "PoolService/RegisterProvider", a.registerProvider),
	)
}

// failure is the body of an error.
type failure struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}

func refuse(w http.ResponseWriter, code int, message string) {
	name := map[int]string{
		http.StatusBadRequest:            "invalid_request",
		http.StatusUnauthorized:          "unauthorized",
		http.StatusForbidden:             "forbidden",
		http.StatusNotFound:              "pool_not_found",
		http.StatusConflict:              "conflict",
		http.StatusRequestEntityTooLarge: "payload_too_large",
		http.StatusTooManyRequests:       "rate_limited",
		http.StatusServiceUnavailable:    "unavailable",
	}[code]
	httpjson.Write(w, code, failure{cmp.Or(name, "internal"), message})
}

func refused(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
	refuse(w, code, err.Message)
}

// lost responds to a path without a route. Its error name differs from that of an unknown
// pool, because clients register again if their pool is unknown.
func lost(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
	name := "not_found"
	if code == http.StatusMethodNotAllowed {
		name = "method_not_allowed"
	}
	httpjson.Write(w, code, failure{name, err.Message})
}

func fail(w http.ResponseWriter, err error) {
	refuse(w, httpjson.Status(err), httpjson.MessageAs(err, member))
}

// member returns the member of this API for a field of a pool or provider.
func member(field string) string {
	if f, ok := strings.CutPrefix(field, "provider."); ok {
		return cmp.Or(map[string]string{ //nolint:gosec // names of members, no credentials
			"price_per_token": "pricing.per_token", "price_per_hour": "pricing.per_hour", "currency": "pricing.currency",
			"total_gpus": "capacity.total_gpus", "total_vram_gb": "capacity.total_vram_gb",
			"gpu_models": "capacity.gpu_models", "uptime_guarantee": "sla.uptime_guarantee",
			"max_latency_ms": "sla.max_latency_ms", "country": "geo.country", "region": "geo.region",
			"auth_token_sha256": "auth_token",
		}[f], f)
	}
	return strings.TrimPrefix(field, "pool.")
}

// read decodes the body. If it is invalid, it writes the error and returns false.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	bad := httpjson.Read(r, v)
	if bad != nil {
		refuse(w, bad.Status(), bad.Message)
	}
	return bad == nil
}

func (a *api) register(w http.ResponseWriter, r *http.Request) {
	var in pool
	if !read(w, r, &in) {
		return
	}
	if in.PoolID == "" { // checked before the gate compares it with the token's pool
		refuse(w, http.StatusBadRequest, "pool_id: is required")
		return
	}
	if strings.TrimSpace(in.Endpoint) == "" {
		refuse(w, http.StatusBadRequest, "endpoint: is required: want a URL such as http://10.0.0.7:9200")
		return
	}
	resp, err := a.pools.RegisterPool(r.Context(), &holdfastv1.RegisterPoolRequest{Pool: in.proto()})
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, registered{
		PoolID: resp.GetPool().GetPoolId(), Status: "registered", HeartbeatIntervalMS: resp.GetHeartbeatIntervalMs(),
	})
}

// sameID refuses a body whose pool differs from the one in the path.
func sameID(w http.ResponseWriter, r *http.Request, body string) bool {
	if id := r.PathValue("id"); body != "" && body != id {
		message := "pool_id is " + strconv.Quote(body) + " in the body and " + strconv.Quote(id) + " in the path"
		refuse(w, http.StatusBadRequest, message)
		return false
	}
	return true
}

func (a *api) heartbeat(w http.ResponseWriter, r *http.Request) {
	var in pool
	if !read(w, r, &in) || !sameID(w, r, in.PoolID) {
		return
	}
	p := in.proto()
	resp, err := a.heartbeats.HeartbeatPool(r.Context(), &holdfastv1.HeartbeatPoolRequest{
		PoolId:        r.PathValue("id"),
		Gpus:          p.GetGpus(),
		WorkersTotal:  p.GetWorkersTotal(),
		WorkersReady:  p.GetWorkersReady(),
		WorkersBusy:   p.GetWorkersBusy(),
		UptimeSeconds: p.GetUptimeSeconds(),
	})
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, heard{Status: resp.GetStatus(), NextHeartbeatMS: resp.GetNextHeartbeatMs()})
}

func (a *api) deregister(w http.ResponseWriter, r *http.Request) {
	var in struct {
		PoolID string `json:"pool_id"`
		Reason string `json:"reason"`
	}
	if bad := httpjson.ReadAny(r, &in); bad != nil {
		refuse(w, bad.Status(), bad.Message)
		return
	}
	if !sameID(w, r, in.PoolID) {
		return
	}
	req := &holdfastv1.DeregisterPoolRequest{PoolId: r.PathValue("id"), Reason: in.Reason}
	if _, err := a.pools.DeregisterPool(r.Context(), req); err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, map[string]any{"pool_id": r.PathValue("id"), "status": "deregistered"})
}

func (a *api) get(w http.ResponseWriter, r *http.Request) {
	p, err := a.pools.GetPool(r.Context(), &holdfastv1.GetPoolRequest{PoolId: r.PathValue("id")})
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, show(p))
}

// list responds with pools. ?min_available_vram_gb=, gpu_model= and region= select pools
// with free capacity.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	req := &holdfastv1.ListPoolsRequest{
		GpuModel: q.Get("gpu_model"),
		Region:   q.Get("region"),
		Filter:   q.Get("filter"),
	}
	if s := q.Get("min_available_vram_gb"); s != "" {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0 && v < 1e12) {
			want := ": want a number of gigabytes"
			refuse(w, http.StatusBadRequest, "min_available_vram_gb is "+strconv.Quote(s)+want)
			return
		}
		req.MinAvailableVramGb = v
	}
	all := make([]shown, 0)
	for resp, err := range httpjson.Pages(r.Context(), req, a.pools.ListPools) {
		if err != nil {
			fail(w, err)
			return
		}
		for _, p := range resp.GetPools() {
			all = append(all, show(p))
		}
	}
	httpjson.Write(w, http.StatusOK, map[string]any{"pools": all, "total": len(all)})
}

// registration is the body of a marketplace provider's registration (docs/clients.md, 001).
type registration struct {
	ProviderID string `json:"provider_id"`
	Endpoint   string `json:"endpoint"`
	AuthToken  string `json:"auth_token"` // only its hash is stored
	Pricing    struct {
		PerToken float64 `json:"per_token"`
		PerHour  float64 `json:"per_hour"`
		Currency string  `json:"currency"`
	} `json:"pricing"`
	Capacity struct {
		TotalGPUs   int32    `json:"total_gpus"`
		TotalVRAMGB float64  `json:"total_vram_gb"`
		GPUModels   []string `json:"gpu_models"`
	} `json:"capacity"`
	SLA struct {
		UptimeGuarantee float64 `json:"uptime_guarantee"`
		MaxLatencyMS    float64 `json:"max_latency_ms"`
	} `json:"sla"`
	Geo struct {
		Country string `json:"country"`
		Region  string `json:"region"`
	} `json:"geo"`
}

func (a *api) registerProvider(w http.ResponseWriter, r *http.Request) {
	var in registration
	if !read(w, r, &in) {
		return
	}
	if strings.TrimSpace(in.Endpoint) == "" {
		refuse(w, http.StatusBadRequest, "endpoint: is required: want a URL such as https://gpu.example.com")
		return
	}
	p := &holdfastv1.PlatformProvider{
		ProviderId:      in.ProviderID,
		Endpoint:        in.Endpoint,
		PricePerToken:   in.Pricing.PerToken,
		PricePerHour:    in.Pricing.PerHour,
		Currency:        in.Pricing.Currency,
		TotalGpus:       in.Capacity.TotalGPUs,
		TotalVramGb:     in.Capacity.TotalVRAMGB,
		GpuModels:       in.Capacity.GPUModels,
		UptimeGuarantee: in.SLA.UptimeGuarantee,
		MaxLatencyMs:    in.SLA.MaxLatencyMS,
		Country:         in.Geo.Country,
		Region:          in.Geo.Region,
	}
	if in.AuthToken != "" {
		sum := sha256.Sum256([]byte(in.AuthToken))
		p.AuthTokenSha256 = sum[:]
	}
	resp, err := a.pools.RegisterProvider(r.Context(), &holdfastv1.RegisterProviderRequest{Provider: p})
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, offered{
		ProviderID:            resp.GetProvider().GetProviderId(),
		Status:                resp.GetProvider().GetStatus(),
		PlatformMarginPercent: resp.GetPlatformMarginPercent(),
	})
}

func stamp(seconds int64) any {
	if seconds == 0 {
		return nil
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
}
