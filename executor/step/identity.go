package step

import (
	"context"
	"fmt"
)

// evidenceIdentity is the evidence that a machine was erased which may be another one: the conflict
// was seen too late.
const evidenceIdentity = "identity_conflict"

// doubt returns why the machine may be another one than its record says, or "". The state refuses
// to begin an attempt that erases it. A conflict that begins during the attempt is checked here.
func (a *Attempt) doubt() string {
	v := a.State.View()
	m, ok := v.Machine(a.Machine.GetMachineId())
	if !ok {
		return ""
	}
	return v.ConflictOf(m)
}

// sure returns an error if the machine may be another one. It is called before an effect that
// erases it, or leads to that.
func (a *Attempt) sure() error {
	why := a.doubt()
	if why == "" {
		return nil
	}
	return &Failure{fmt.Errorf("machine %q may be another one, and nothing erases it until that is decided: %s",
		a.Machine.GetMachineId(), why)}
}

// surely returns an effect that is not carried out if the machine may be another one.
func (a *Attempt) surely(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := a.sure(); err != nil {
			return err
		}
		return do(ctx)
	}
}

// noteDoubt records that the machine may be another one although its disks are being erased. It is
// too late to stop then: the disks would be left half written.
func (a *Attempt) noteDoubt() {
	why := a.doubt()
	if why == "" || a.Seen[evidenceIdentity] != "" {
		return
	}
	a.AddEvidence(map[string]string{evidenceIdentity: why})
	a.Say("the machine may be another one, but its disks are already being erased, so this step continues: %s", why)
}
