package mutant

// unitMutant is a mutant that a unit test notices.
type unitMutant struct {
	name, breaks string
	test         unitTest
	patch        Patch
}

// ofRecord returns the mutants of the recorded clock, of leases over a restore, of old data
// directories and of certificates. No cluster of processes shows them within minutes.
func ofRecord() []unitMutant {
	return []unitMutant{
		{"generationsback", "generations of leases never go down, also not over a restore",
			unitTest{"fsm", "TestRestoreKeepsGenerations"},
			Patch{"fsm/internal/backup/merge.go", "l.Ref.Generation = max(", "l.Ref.Generation = min("}},
		{"creepingclock", "all moves of the recorded clock by leaders' clocks together are bounded",
			unitTest{"fsm", "TestClockBound"},
			Patch{"fsm/internal/core/clock.go", "case ahead <= MaxAhead-millis(k.GetMovedMs()):", "case ahead <= MaxAhead:"}},
		{"olddirectory", "a data directory that lacks a mark which another peer remembers is old",
			unitTest{"cluster/internal/marks", "TestStale"},
			Patch{"cluster/internal/marks/marks.go", "\treturn !has(own, last)\n", "\treturn has(own, nil)\n"}},
		{"endedwhiledown", "a peer that was down presents no certificate that may have ended",
			unitTest{"cluster/peertls", "TestEndedWhileDown"},
			Patch{"cluster/peertls/renew.go", "at.After(renewed.leaf.NotAfter) && ", "at.IsZero() && "}},
		{"notyet", "a clock that is behind refuses no certificate that begins later",
			unitTest{"cluster/peertls", "TestClockBehind"},
			Patch{"cluster/peertls/files.go", "if c.NotBefore.After(at) {", "if c.NotBefore.IsZero() {"}},
	}
}

// mutant returns the mutant with its scenario.
func (u unitMutant) mutant() Mutant {
	return Mutant{Name: u.name, Breaks: u.breaks, Scenario: u.test.scenario(), Patches: []Patch{u.patch}}
}
