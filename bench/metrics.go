package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/bench/load"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// readsServed returns the numbers of reads that a peer has answered, by where they were served:
// leader, follower, forwarded, stale.
func (l *lab) readsServed(ctx context.Context, p *localcluster.Peer) (map[string]float64, error) {
	ctx, stop := context.WithTimeout(ctx, load.CallTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL("/metrics"), nil)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", p.ID, err)
	}
	transport := &http.Transport{TLSClientConfig: l.cluster.TLS(), DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", p.ID, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", res.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", p.ID, err)
	}
	return parseReads(string(text))
}

// parseReads reads the counters of reads from the text of /metrics.
func parseReads(text string) (map[string]float64, error) {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, `holdfast_cluster_reads_total{served="`)
		if !ok {
			continue
		}
		served, number, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return nil, fmt.Errorf("read the counter of reads (%s): %w", served, err)
		}
		all[served] = v
	}
	return all, nil
}

// forwardedShare returns the percentage of a follower's linearizable reads between two counts
// that were forwarded to the leader.
func forwardedShare(before, after map[string]float64) float64 {
	forwarded, own := after["forwarded"]-before["forwarded"], after["follower"]-before["follower"]
	return 100 * forwarded / (forwarded + own)
}
