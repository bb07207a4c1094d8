package raftstore

import "testing"

func TestTrailing(t *testing.T) {
	for _, tt := range []struct {
		name string
		most uint64
		w    LogSize
		want uint64
	}{
		{"small entries", 10240, LogSize{8192, 8192 * 300}, 10240},
		{"leases of 100,000 agents", 10240, LogSize{1000, 200_000 * 1000}, trailingBytes / 200_000},
		{"entries of the maximum size", 10240, LogSize{300, 300 << 22}, minTrailing},
		{"fewer configured", 32, LogSize{300, 300 << 22}, 32},
		{"none", 10240, LogSize{}, 10240},
		{"without bytes", 10240, LogSize{500, 0}, 10240},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := trailing(tt.most, tt.w); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
