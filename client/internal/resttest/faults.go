package resttest

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Faults returns handlers of failing hosts; well is the handler of a healthy one. A nil
// handler refuses connections.
func Faults(well http.HandlerFunc) []http.HandlerFunc {
	lost := func(_ http.ResponseWriter, r *http.Request) { // handles the request but loses the response
		well(nowhere{}, r)
		panic(http.ErrAbortHandler)
	}
	return []http.HandlerFunc{
		nil, Silent, Torn, lost,
		Answer(500, `{"message":"Failed to register machine"}`), Answer(503, ""), Answer(429, ""),
		Answer(502, "<html>"), Answer(404, ""), Answer(403, `{"message":"Invalid token"}`),
		Answer(401, ""), Answer(302, ""),
	}
}

// Storm makes some of the hosts fail for a while, each in its own way, and then restores
// them. Any subset fails for up to an hour, but all hosts together only for up to most. It
// returns how many hosts failed. Storm waits by calling sleep.
func Storm(
	r *rand.Rand, n *Network, hosts []string, well http.HandlerFunc,
	most time.Duration, sleep func(time.Duration),
) int {
	r.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	ill, faults, lasts := hosts[:r.IntN(len(hosts)+1)], Faults(well), time.Hour
	if len(ill) == len(hosts) {
		lasts = most
	}
	for _, h := range ill {
		n.Serve(h, faults[r.IntN(len(faults))])
	}
	sleep(UpTo(r, lasts))
	for _, h := range ill {
		n.Serve(h, well)
	}
	return len(ill)
}

// UpTo returns a random time up to most.
func UpTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// nowhere discards a response.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
