// Package poolapi is the HTTP API of pool registration (spec 001, POOLREG-18xxx): pool managers register, beat and leave; marketplace
// providers register; schedulers ask which pools have room.
//
// It owns the wire form and its errors, {"error": code, "message": text}. Who may call is the gate's to decide, what a call means the
// services'. It must not know the FSM or the cluster.
package poolapi

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/httpjson"
)

type api struct {
	pools holdfastv1.PoolServiceClient
	beats holdfastv1.HeartbeatServiceClient
}

// Register adds the routes to a mux. The services are called through rpc.
func Register(m *auth.Mux, rpc grpc.ClientConnInterface) {
	a := &api{pools: holdfastv1.NewPoolServiceClient(rpc), beats: holdfastv1.NewHeartbeatServiceClient(rpc)}
	for _, r := range []struct {
		pattern, method string
		handler         http.HandlerFunc
	}{
		{"POST /v2/pools/register", "holdfast.v1.PoolService/RegisterPool", a.register},
		{"POST /v2/pools/{id}/heartbeat", "holdfast.v1.HeartbeatService/HeartbeatPool", a.heartbeat},
		{"POST /v2/pools/{id}/deregister", "holdfast.v1.PoolService/DeregisterPool", a.deregister},
		{"GET /v2/pools", "holdfast.v1.PoolService/ListPools", a.list},
		{"GET /v2/pools/{id}", "holdfast.v1.PoolService/GetPool", a.get},
		{"POST /v2/platform/providers/register", "holdfast.v1.PoolService/RegisterProvider", a.registerProvider},
	} {
		m.HandleFunc(r.pattern, auth.SameAs(r.method), refused, r.handler)
		m.HandleFunc(r.pattern+"/{$}", auth.SameAs(r.method), refused, r.handler)
	}
}

// failure is the body of every error.
type failure struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}

func refused(w http.ResponseWriter, _ *http.Request, code int, err *auth.Error) {
	httpjson.Write(w, code, failure{codeName(code), err.Message})
}

func codeName(code int) string {
	switch code {
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusTooManyRequests:
		return "rate_limited"
	case http.StatusRequestEntityTooLarge:
		return "payload_too_large"
	case http.StatusServiceUnavailable:
		return "unavailable"
	case http.StatusBadRequest:
		return "invalid_request"
	}
	return "internal"
}

// read takes a body, or answers what is wrong with it.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	err := httpjson.Read(r, v)
	if err == nil {
		return true
	}
	code := http.StatusBadRequest
	if bad, ok := errors.AsType[*httpjson.Bad](err); ok && bad.TooLarge {
		code = http.StatusRequestEntityTooLarge
	}
	httpjson.Write(w, code, failure{codeName(code), err.Error()})
	return false
}

func fail(w http.ResponseWriter, err error) {
	st := status.Convert(err)
	code, name := http.StatusInternalServerError, ""
	switch st.Code() {
	case codes.Unauthenticated:
		code = http.StatusUnauthorized
	case codes.PermissionDenied:
		code = http.StatusForbidden
	case codes.InvalidArgument:
		code = http.StatusBadRequest
	case codes.NotFound:
		code, name = http.StatusNotFound, "pool_not_found"
	case codes.FailedPrecondition, codes.AlreadyExists:
		code, name = http.StatusConflict, "conflict"
	case codes.ResourceExhausted:
		code = http.StatusTooManyRequests
	case codes.Unavailable, codes.DeadlineExceeded:
		code = http.StatusServiceUnavailable
	}
	if name == "" {
		name = codeName(code)
	}
	httpjson.Write(w, code, failure{name, st.Message()})
}

func (a *api) register(w http.ResponseWriter, r *http.Request) {
	var in pool
	if !read(w, r, &in) {
		return
	}
	resp, err := a.pools.RegisterPool(r.Context(), &holdfastv1.RegisterPoolRequest{Pool: in.proto()})
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, map[string]any{
		"pool_id": resp.GetPool().GetPoolId(), "status": "registered", "heartbeat_interval_ms": resp.GetHeartbeatIntervalMs(),
	})
}

// sameID refuses a body that names another pool than the path.
func sameID(w http.ResponseWriter, r *http.Request, body string) bool {
	if id := r.PathValue("id"); body != "" && body != id {
		httpjson.Write(w, http.StatusBadRequest, failure{"invalid_request", "pool_id is " + strconv.Quote(body) + " in the body and " + strconv.Quote(id) + " in the path"})
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
	resp, err := a.beats.HeartbeatPool(r.Context(), &holdfastv1.HeartbeatPoolRequest{
		PoolId: r.PathValue("id"), Gpus: p.GetGpus(), WorkersTotal: p.GetWorkersTotal(), WorkersReady: p.GetWorkersReady(), WorkersBusy: p.GetWorkersBusy(),
		UptimeSeconds: p.GetUptimeSeconds(),
	})
	if err != nil {
		fail(w, err)
		return
	}
	httpjson.Write(w, http.StatusOK, map[string]any{"status": resp.GetStatus(), "next_heartbeat_ms": resp.GetNextHeartbeatMs()})
}

func (a *api) deregister(w http.ResponseWriter, r *http.Request) {
	var in struct {
		PoolID string `json:"pool_id"`
		Reason string `json:"reason"`
	}
	if r.ContentLength != 0 && !read(w, r, &in) || !sameID(w, r, in.PoolID) {
		return
	}
	if _, err := a.pools.DeregisterPool(r.Context(), &holdfastv1.DeregisterPoolRequest{PoolId: r.PathValue("id"), Reason: in.Reason}); err != nil {
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

// list answers pools, those with room where that is asked for: ?min_available_vram_gb=&gpu_model=&region=.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	req := &holdfastv1.ListPoolsRequest{GpuModel: q.Get("gpu_model"), Region: q.Get("region"), Filter: q.Get("filter"), PageSize: 1000}
	if s := q.Get("min_available_vram_gb"); s != "" {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0 && v < 1e12) {
			httpjson.Write(w, http.StatusBadRequest, failure{"invalid_request", "min_available_vram_gb is " + strconv.Quote(s) + ": want a number of gigabytes"})
			return
		}
		req.MinAvailableVramGb = v
	}
	all := make([]shown, 0)
	for {
		resp, err := a.pools.ListPools(r.Context(), req)
		if err != nil {
			fail(w, err)
			return
		}
		for _, p := range resp.GetPools() {
			all = append(all, show(p))
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	httpjson.Write(w, http.StatusOK, map[string]any{"pools": all, "total": len(all)})
}

// registration is a marketplace provider's (specs/README.md, 001).
type registration struct {
	ProviderID string `json:"provider_id"`
	Endpoint   string `json:"endpoint"`
	AuthToken  string `json:"auth_token"` // only its hash is kept
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
	p := &holdfastv1.PlatformProvider{
		ProviderId: in.ProviderID, Endpoint: in.Endpoint, PricePerToken: in.Pricing.PerToken, PricePerHour: in.Pricing.PerHour, Currency: in.Pricing.Currency,
		TotalGpus: in.Capacity.TotalGPUs, TotalVramGb: in.Capacity.TotalVRAMGB, GpuModels: in.Capacity.GPUModels,
		UptimeGuarantee: in.SLA.UptimeGuarantee, MaxLatencyMs: in.SLA.MaxLatencyMS, Country: in.Geo.Country, Region: in.Geo.Region,
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
	httpjson.Write(w, http.StatusOK, map[string]any{
		"provider_id": resp.GetProvider().GetProviderId(), "status": resp.GetProvider().GetStatus(), "platform_margin_percent": resp.GetPlatformMarginPercent(),
	})
}

func stamp(seconds int64) any {
	if seconds == 0 {
		return nil
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339)
}
