package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-metal/holdfast/test/robustness/check/final"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

func TestLinearizable(t *testing.T) {
	unknown := func(op workload.Op) workload.Op {
		op.Outcome, op.Got, op.Machines = workload.Unknown, nil, nil
		return op
	}
	const wrong = "cannot be put into an order"
	for _, tt := range []struct {
		name  string
		h     *workload.History
		final *final.Record
		want  string
	}{
		{"nothing", of(), record(), ""},
		{"read of a write", of(wrote(0, 10, "a", "", 1), read(20, 30, "a", "", 1)), record(), ""},
		{"read without a write", of(wrote(0, 10, "a", "", 1), read(20, 30, "", "", 1)), record(), wrong},
		{"reads during a write", of(wrote(0, 100, "a", "", 1), read(20, 30, "", "", 0),
			read(40, 50, "a", "", 1)), record(), ""},
		{"write read and then not", of(wrote(0, 100, "a", "", 1), read(20, 30, "a", "", 1), read(40, 50, "", "", 0)),
			record(), wrong},
		{"unknown write that appears late", of(unknown(wrote(0, 10, "a", "", 1)), read(20, 30, "", "", 0),
			read(40, 50, "a", "", 1)), record(), ""},
		{"unknown write that appears and disappears", of(unknown(wrote(0, 10, "a", "", 1)), read(20, 30, "a", "", 0),
			read(40, 50, "", "", 1)), record(), wrong},
		{"run begins and ends", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "r", 1),
			read(40, 50, "", "", 2)), record("q", "r"), ""},
		{"run active again", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "", 2),
			read(40, 50, "", "r", 1)), record("q", "r"), wrong},
		{"run active before its creation", of(read(0, 5, "", "r", 1), started(10, 20, "q", "r", "PENDING", 1)),
			record("q", "r"), wrong},
		{"first run active after another began", of(started(0, 10, "q", "r", "PENDING", 1),
			started(20, 30, "q2", "r2", "PENDING", 2), read(40, 50, "", "r", 1)), record("q", "r", "q2", "r2"), wrong},
		{"two runs active in turn", of(started(0, 10, "q", "r", "PENDING", 1),
			started(0, 10, "q2", "r2", "PENDING", 2), got(20, 30, "q", "r", "RUNNING", 3), got(40, 50, "q2", "r2", "RUNNING",
				3)), record("q", "r", "q2", "r2"), wrong},
		{"run of an unknown start", of(unknown(started(0, 10, "q", "r", "PENDING", 1)), read(20, 30, "", "r", 1)),
			record("q", "r"), ""},
		{"unknown start never applied", of(unknown(started(0, 10, "q", "r", "PENDING", 1)),
			started(20, 30, "q2", "r2", "PENDING", 1), read(40, 50, "", "r2", 1)), record("q2", "r2"), ""},
		{"unknown start applied after another run", of(unknown(started(0, 10, "q", "r", "PENDING", 1)),
			started(20, 30, "q2", "r2", "PENDING", 1), read(40, 50, "", "r", 1)), record("q", "r", "q2", "r2"), ""},
		{"refusal with the active run",
			of(started(0, 10, "q", "r", "PENDING", 1), refused(20, 30, "q2", "ACTIVE_RUN", "r")), record("q", "r"), ""},
		{"refusal with an ended run", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "", 2),
			refused(40, 50, "q2", "ACTIVE_RUN", "r")), record("q", "r"), wrong},
		{"replay refused as busy", of(started(0, 10, "q", "r", "PENDING", 1), refused(20, 30, "q", "ACTIVE_RUN", "r")),
			record("q", "r"), wrong},
		{"replay of an ended run", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "", 2),
			started(40, 50, "q", "r", "SUCCEEDED", 2)), record("q", "r"), ""},
		{"replay with an ended run as active", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "", 2),
			started(40, 50, "q", "r", "RUNNING", 1)), record("q", "r"), wrong},
		{"created run not found", of(started(0, 10, "q", "r", "PENDING", 1),
			at(20, 30, workload.Op{Kind: workload.GetRun, Machine: machine, Run: "r", Outcome: workload.Refused,
				Reason: "RUN_NOT_FOUND"})), record("q", "r"), wrong},
		{"late cancel", of(started(0, 10, "q", "r", "PENDING", 1),
			at(20, 30, workload.Op{Kind: workload.CancelRun, Machine: machine, Run: "r", Outcome: workload.Refused,
				Reason: "RUN_FINISHED"}),
			got(40, 50, "q", "r", "RUNNING", 1)), record("q", "r"), wrong},
		{"old content of a plan",
			of(at(0, 10, workload.Op{Kind: workload.CreatePlan, Plan: "reg", Value: "a",
				Machines: []workload.MachineSeen{{ID: "reg", Value: "a"}}}),
				at(20, 30, workload.Op{Kind: workload.GetPlan, Plan: "reg", Machines: []workload.MachineSeen{{ID: "reg"}}})),
			record(), wrong},
		{"stale read", of(wrote(0, 10, "a", "", 1),
			func() workload.Op { op := read(20, 30, "", "", 0); op.Stale = true; return op }()), record(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			expect(t, linearizable(t.Context(), tt.h, tt.final, dir), tt.want)
			pictures, err := filepath.Glob(filepath.Join(dir, "*.html"))
			if err != nil || (len(pictures) > 0) != (tt.want != "") {
				t.Errorf("got pictures %v, %v", pictures, err)
			}
			for _, p := range pictures {
				if st, err := os.Stat(p); err != nil || st.Size() < 1000 {
					t.Errorf("picture %s: %v, %v", p, st, err)
				}
			}
		})
	}
}

// TestLinearizableEnd checks that the final reads are part of the history, so that a lost last
// write is found.
func TestLinearizableEnd(t *testing.T) {
	f := record()
	f.Reads = []workload.Op{read(100, 110, "a", "", 1)}
	expect(t, linearizable(t.Context(), of(wrote(0, 10, "a", "", 1)), f, t.TempDir()), "")
	expect(t, linearizable(t.Context(), of(wrote(0, 10, "a", "", 1), wrote(20, 30, "b", "", 2)), f, t.TempDir()),
		"cannot be put")
}
