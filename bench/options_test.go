package bench

import (
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		args, want string // a part of the error
	}{
		{"commit --vs mysql", `set --vs to some of etcd, grpc, ironic, none, not "mysql"`},
		{"runs --vs openstack", `set --vs to some of etcd, grpc, ironic, none, not "openstack"`},
		{"commit --clients 0", "set --clients to numbers of 1 or more"},
		{"commit --slice 1ms", "set --slice to 100ms or more"},
		{"commit --machines 5", "unknown flag: --machines"},
		{"commit -o yaml", `set --output to text or json, not "yaml"`},
		{"commit --only nothing", "set --only to parts of the benchmark commit (startrun, edge)"},
		{"growth --machines 20,10", "set --machines to numbers of 1 or more, ascending"},
		{"failover --kills 0", "set --kills, --watchers and --runs to 1 or more"},
		{"keepalive --agents 0", "set --agents, --storm, --fresh, --connections and --rounds to 1 or more"},
	} {
		cmd := Command("test")
		cmd.SetArgs(strings.Fields(tt.args))
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("bench %s: got %v, want %s", tt.args, err, tt.want)
		}
	}
}

// TestDefaults checks that the defaults are valid, and as large as the goals require.
func TestDefaults(t *testing.T) {
	o := defaults()
	if err := o.check(); err != nil {
		t.Error(err)
	}
	if o.conns != readers || o.watchers != watchWatchers || o.runs != flightRuns {
		t.Errorf("got %+v, want the sizes of the goals", o)
	}
}

// TestWithin checks that a benchmark outside of the goals is part of one that they run.
func TestWithin(t *testing.T) {
	whole := map[string]bool{}
	for _, b := range benchmarks() {
		whole[b.name] = b.within == ""
	}
	for _, b := range benchmarks() {
		if b.within != "" && !whole[b.within] {
			t.Errorf("benchmark %s is within %s, which is not in the goals", b.name, b.within)
		}
	}
}
