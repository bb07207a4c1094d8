package resttest

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Faults are ways in which a host that answers as well does can fail. Nil is one that refuses
// connections.
func Faults(well http.HandlerFunc) []http.HandlerFunc {
	lost := func(_ http.ResponseWriter, r *http.Request) { // the answer is lost, what it answers is not
		well(nowhere{}, r)
		panic(http.ErrAbortHandler)
	}
	return []http.HandlerFunc{
		nil, Silent, Torn, lost, Answer(500, `{"message":"Failed to register machine"}`), Answer(503, ""), Answer(429, ""),
		Answer(502, "<html>"), Answer(404, ""), Answer(403, `{"message":"Invalid token"}`), Answer(401, ""), Answer(302, ""),
	}
}

// Storm makes some of the hosts ill for a while, each in its way, and then well again: any number
// of them for up to an hour, but all of them for up to most. It returns how many were ill. Sleep
// lets time pass.
func Storm(r *rand.Rand, n *Network, hosts []string, well http.HandlerFunc, most time.Duration, sleep func(time.Duration)) int {
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

// UpTo is a time up to most.
func UpTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}

// nowhere takes an answer that nobody gets.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}
