package raftstore

import (
	"time"

	gometrics "github.com/hashicorp/go-metrics/compat"
	"github.com/hashicorp/raft"
)

// measureStore records how long a write of entries took, and their bytes, in any store. Package
// libmetrics exports both with the metrics of Raft.
func measureStore(began time.Time, logs []*raft.Log) {
	bytes := 0
	for _, l := range logs {
		bytes += len(l.Data)
	}
	gometrics.MeasureSince([]string{"raft", "log", "store"}, began)
	gometrics.IncrCounter([]string{"raft", "log", "bytes"}, float32(bytes))
}
