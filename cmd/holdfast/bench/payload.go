package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	poolName     = "bench"
	agentVersion = "bench-1"
)

// agent is a machine that reports for itself (machine registration, spec 000).
type agent struct {
	id, token string
}

func newAgent(i int, token string) agent { return agent{id: fmt.Sprintf("m-%06d", i), token: token} }

// request writes a whole HTTP request into buf.
func (a agent) request(buf []byte, host, path string, body []byte) []byte {
	buf = append(buf[:0], "POST "...)
	buf = append(append(buf, path...), " HTTP/1.1\r\nHost: "...)
	buf = append(append(buf, host...), "\r\nAuthorization: Bearer "...)
	buf = append(append(buf, a.token...), "\r\nUser-Agent: holdfast-bench\r\nContent-Type: application/json\r\nContent-Length: "...)
	buf = append(strconv.AppendInt(buf, int64(len(body)), 10), "\r\n\r\n"...)
	return append(buf, body...)
}

// keepalive writes the request of a keepalive, with metrics that are others each time.
func (a agent) keepalive(buf []byte, host string) []byte {
	var room [320]byte
	body := fmt.Appendf(room[:0], `{"machine_id":%q,"provider_name":"generic","pool_name":%q,"agent_version":%q,"metrics":{"cpu_utilization_pct":%.1f,"memory_utilization_pct":%.1f,"total_cpu_available":%d,"total_memory_available":%d,"free_gpu_count":%d}}`,
		a.id, poolName, agentVersion, rand.Float64()*100, rand.Float64()*100, rand.IntN(64_000), rand.IntN(524_288), rand.IntN(9)) //nolint:gosec // no secret
	return a.request(buf, host, "/api/v1/machine/keepalive", body)
}

// register writes the request of a registration.
func (a agent) register(buf []byte, host string) []byte {
	body := fmt.Appendf(nil, `{"token":"","machine_id":%q,"hostname":%q,"provider_name":"generic","pool_name":%q,"cpu":"64000m","memory":"512Gi","gpu_count":"8","private_ip":"10.0.0.1"}`,
		a.id, "host-"+a.id, poolName)
	return a.request(buf, host, "/api/v1/machine/register", body)
}

// interval reads when the server wants to hear of a machine again; zero when it does not say.
func interval(answer []byte) time.Duration {
	var a struct {
		NextKeepaliveMS int64 `json:"next_keepalive_ms"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return 0
	}
	return time.Duration(a.NextKeepaliveMS) * time.Millisecond
}
