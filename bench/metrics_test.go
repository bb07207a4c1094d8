package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadsServed(t *testing.T) {
	got, err := parseReads("# HELP holdfast_cluster_reads_total Reads.\n" +
		"holdfast_cluster_reads_total{served=\"follower\"} 90\nholdfast_cluster_reads_total{served=\"forwarded\"} 1e+01\n" +
		"other{served=\"stale\"} 7\n")
	if diff := cmp.Diff(map[string]float64{"follower": 90, "forwarded": 10}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	if share := forwardedShare(map[string]float64{"follower": 60}, got); share != 25 {
		t.Errorf("got %v%%, want 25%%", share)
	}
	if got, err := parseReads("holdfast_cluster_reads_total{served=\"x\"} many\n"); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}
