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
		{"a write is read", of(wrote(0, 10, "a", "", 1), read(20, 30, "a", "", 1)), record(), ""},
		{"a write is not read", of(wrote(0, 10, "a", "", 1), read(20, 30, "", "", 1)), record(), wrong},
		{"a write that is under way is read or not", of(wrote(0, 100, "a", "", 1), read(20, 30, "", "", 0),
			read(40, 50, "a", "", 1)), record(), ""},
		{"a write is read and then not", of(wrote(0, 100, "a", "", 1), read(20, 30, "a", "", 1), read(40, 50, "", "", 0)),
			record(), wrong},
		{"a write that is unknown shows late", of(unknown(wrote(0, 10, "a", "", 1)), read(20, 30, "", "", 0),
			read(40, 50, "a", "", 1)), record(), ""},
		{"a write that is unknown shows and goes", of(unknown(wrote(0, 10, "a", "", 1)), read(20, 30, "a", "", 0),
			read(40, 50, "", "", 1)), record(), wrong},
		{"a run begins and ends", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "r", 1),
			read(40, 50, "", "", 2)), record("q", "r"), ""},
		{"a run is active again", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "", 2),
			read(40, 50, "", "r", 1)), record("q", "r"), wrong},
		{"a run is active before it is made", of(read(0, 5, "", "r", 1), started(10, 20, "q", "r", "PENDING", 1)),
			record("q", "r"), wrong},
		{"another run begins and the first one is active", of(started(0, 10, "q", "r", "PENDING", 1),
			started(20, 30, "q2", "r2", "PENDING", 2), read(40, 50, "", "r", 1)), record("q", "r", "q2", "r2"), wrong},
		{"two runs begin and are active in turn", of(started(0, 10, "q", "r", "PENDING", 1),
			started(0, 10, "q2", "r2", "PENDING", 2), got(20, 30, "q", "r", "RUNNING", 3), got(40, 50, "q2", "r2", "RUNNING",
				3)), record("q", "r", "q2", "r2"), wrong},
		{"a run of an unknown start", of(unknown(started(0, 10, "q", "r", "PENDING", 1)), read(20, 30, "", "r", 1)),
			record("q", "r"), ""},
		{"an unknown start that was never applied", of(unknown(started(0, 10, "q", "r", "PENDING", 1)),
			started(20, 30, "q2", "r2", "PENDING", 1), read(40, 50, "", "r2", 1)), record("q2", "r2"), ""},
		{"an unknown start that was applied after another run", of(unknown(started(0, 10, "q", "r", "PENDING", 1)),
			started(20, 30, "q2", "r2", "PENDING", 1), read(40, 50, "", "r", 1)), record("q", "r", "q2", "r2"), ""},
		{"a refusal names the active run",
			of(started(0, 10, "q", "r", "PENDING", 1), refused(20, 30, "q2", "ACTIVE_RUN", "r")), record("q", "r"), ""},
		{"a refusal names a run that has ended", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "", 2),
			refused(40, 50, "q2", "ACTIVE_RUN", "r")), record("q", "r"), wrong},
		{"a replay is refused as busy", of(started(0, 10, "q", "r", "PENDING", 1), refused(20, 30, "q", "ACTIVE_RUN", "r")),
			record("q", "r"), wrong},
		{"a replay of what has ended", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "", 2),
			started(40, 50, "q", "r", "SUCCEEDED", 2)), record("q", "r"), ""},
		{"a replay shows a run active that has ended", of(started(0, 10, "q", "r", "PENDING", 1), read(20, 30, "", "", 2),
			started(40, 50, "q", "r", "RUNNING", 1)), record("q", "r"), wrong},
		{"a run that was made is not found", of(started(0, 10, "q", "r", "PENDING", 1),
			at(20, 30, workload.Op{Kind: workload.GetRun, Machine: machine, Run: "r", Outcome: workload.Refused,
				Reason: "RUN_NOT_FOUND"})), record("q", "r"), wrong},
		{"a cancel comes late", of(started(0, 10, "q", "r", "PENDING", 1),
			at(20, 30, workload.Op{Kind: workload.CancelRun, Machine: machine, Run: "r", Outcome: workload.Refused,
				Reason: "RUN_FINISHED"}),
			got(40, 50, "q", "r", "RUNNING", 1)), record("q", "r"), wrong},
		{"a plan is read as it was",
			of(at(0, 10, workload.Op{Kind: workload.CreatePlan, Plan: "reg", Value: "a",
				Machines: []workload.MachineSeen{{ID: "reg", Value: "a"}}}),
				at(20, 30, workload.Op{Kind: workload.GetPlan, Plan: "reg", Machines: []workload.MachineSeen{{ID: "reg"}}})),
			record(), wrong},
		{"a stale read", of(wrote(0, 10, "a", "", 1),
			func() workload.Op { op := read(20, 30, "", "", 0); op.Stale = true; return op }()), record(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			expect(t, linearizable(t.Context(), tt.h, tt.final, dir), tt.want)
			pictures, err := filepath.Glob(filepath.Join(dir, "*.html"))
			if err != nil || (len(pictures) > 0) != (tt.want != "") {
				t.Errorf("pictures = %v, %v", pictures, err)
			}
			for _, p := range pictures {
				if st, err := os.Stat(p); err != nil || st.Size() < 1000 {
					t.Errorf("picture %s: %v, %v", p, st, err)
				}
			}
		})
	}
}

// The last reads of the record are part of the history: what was acknowledged last is what is
// there.
func TestLinearizableEnd(t *testing.T) {
	f := record()
	f.Reads = []workload.Op{read(100, 110, "a", "", 1)}
	expect(t, linearizable(t.Context(), of(wrote(0, 10, "a", "", 1)), f, t.TempDir()), "")
	expect(t, linearizable(t.Context(), of(wrote(0, 10, "a", "", 1), wrote(20, 30, "b", "", 2)), f, t.TempDir()),
		"cannot be put")
}
