package load

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// agentVersion is the version of simulated agents.
const agentVersion = "load-1"

// Agent is an agent of a machine (machine registration, spec 000).
type Agent struct{ ID, Token, Pool string }

// Request writes a whole HTTP request, a POST with a token, into buf.
func Request(buf []byte, host, path, token string, body []byte) []byte {
	buf = append(buf[:0], "POST "...)
	buf = append(append(buf, path...), " HTTP/1.1\r\nHost: "...)
	buf = append(append(buf, host...), "\r\nAuthorization: Bearer "...)
	buf = append(append(buf, token...),
		"\r\nUser-Agent: holdfast-load\r\nContent-Type: application/json\r\nContent-Length: "...)
	buf = append(strconv.AppendInt(buf, int64(len(body)), 10), "\r\n\r\n"...)
	return append(buf, body...)
}

// Keepalive writes the request of a keepalive with random metrics.
func (a Agent) Keepalive(buf []byte, host string) []byte {
	var room [320]byte
	body := fmt.Appendf(room[:0], `{"machine_id":%q,"provider_name":"generic","pool_name":%q,"agent_version":%q,"metrics":{"cpu_utilization_pct":%.1f,"memory_utilization_pct":%.1f,"total_cpu_available":%d,"total_memory_available":%d,"free_gpu_count":%d}}`,
		a.ID, a.Pool, agentVersion, rand.Float64()*100, rand.Float64()*100, rand.IntN(64_000), rand.IntN(524_288), rand.IntN(9)) //nolint:gosec // no secret
	return Request(buf, host, "/api/v1/machine/keepalive", a.Token, body)
}

// Register writes the request of a registration.
func (a Agent) Register(buf []byte, host string) []byte {
	body := fmt.Appendf(nil, `{"token":"","machine_id":%q,"hostname":%q,"provider_name":"generic","pool_name":%q,"cpu":"64000m","memory":"512Gi","gpu_count":"8","private_ip":"10.0.0.1"}`,
		a.ID, "host-"+a.ID, a.Pool)
	return Request(buf, host, "/api/v1/machine/register", a.Token, body)
}

// Interval returns the interval that the server requests, or zero if it requests none.
func Interval(answer []byte) time.Duration {
	var a struct {
		NextKeepaliveMS int64 `json:"next_keepalive_ms"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return 0
	}
	return time.Duration(a.NextKeepaliveMS) * time.Millisecond
}

// Wrong returns the error of a response that is not 200.
func Wrong(status int, body []byte, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("status %d: %.200s", status, body)
}
