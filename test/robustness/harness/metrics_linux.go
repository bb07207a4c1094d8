package harness

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
)

// Metrics returns the values of a peer's /metrics, by name and labels as printed there.
func (c *Cluster) Metrics(ctx context.Context, p *localcluster.Peer) (map[string]float64, error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL("/metrics"), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.HTTP().Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask peer %s for its metrics: %w", p.ID, err)
	}
	defer func() { _ = res.Body.Close() }()
	values := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && name != "#" {
			values[name] = v
		}
	}
	return values, lines.Err()
}
