package providers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
)

func TestReadEraseReport(t *testing.T) {
	sda := providers.ErasedDisk{Name: "sda", Serial: "S1", Erased: true, How: "ATA secure erase"}
	bad := providers.ErasedDisk{Name: "sda", Serial: "S1", How: "frozen"}
	const ok, worse = "holdfast-erase disk sda S1 erased ATA secure erase\n", "holdfast-erase disk sda S1 failed frozen\n"
	for name, c := range map[string]struct {
		in   string
		want providers.EraseReport
	}{
		"nothing": {"", providers.EraseReport{}},
		"all": {"noise\n" + ok + "holdfast-erase done 1 of 1\n",
			providers.EraseReport{Disks: []providers.ErasedDisk{sda}, Complete: true}},
		"cut": {ok + "holdfast-erase done 1 of 1",
			providers.EraseReport{Disks: []providers.ErasedDisk{sda}}},
		"not to the end": {ok, providers.EraseReport{Disks: []providers.ErasedDisk{sda}}},
		"one more than reported": {ok + "holdfast-erase done 2 of 2\n",
			providers.EraseReport{Disks: []providers.ErasedDisk{sda}}},
		"fewer than there are": {ok + "holdfast-erase done 1 of 2\n",
			providers.EraseReport{Disks: []providers.ErasedDisk{sda}}},
		"a failed one, done": {worse + "holdfast-erase done 1 of 1\n",
			providers.EraseReport{Disks: []providers.ErasedDisk{bad}}},
		"reported twice, worse": {ok + worse + "holdfast-erase done 1 of 1\n",
			providers.EraseReport{Disks: []providers.ErasedDisk{bad}}},
		"reported twice, better": {worse + ok + "holdfast-erase done 1 of 1\n",
			providers.EraseReport{Disks: []providers.ErasedDisk{bad}}},
		"another disk after it": {"holdfast-erase done 0 of 0\n" + ok,
			providers.EraseReport{Disks: []providers.ErasedDisk{sda}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, providers.ReadEraseReport(c.in)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzReadEraseReport checks that a report is complete only if it has at least as many disks as it
// states, and all were erased.
func FuzzReadEraseReport(f *testing.F) {
	f.Add("holdfast-erase disk sda S1 erased x\nholdfast-erase done 1 of 1\n")
	f.Fuzz(func(t *testing.T, in string) {
		r := providers.ReadEraseReport(in)
		for _, d := range r.Disks {
			if r.Complete && !d.Erased || d.Name == "" {
				t.Errorf("got report %+v of %q", r, in)
			}
		}
	})
}
