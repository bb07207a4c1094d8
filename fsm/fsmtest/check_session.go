package fsmtest

import (
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm"
)

// checkSessions checks that the records of console sessions have the sizes that are counted.
func checkSessions(v *fsm.View) error {
	var errs []error
	total := int64(0)
	for s := range v.ConsoleSessions("") {
		size := int64(0)
		for out := range v.ConsoleOutput(s.GetSessionId()) {
			size += int64(len(out.GetData())) + 16
		}
		if total += size; size != s.GetRecordedBytes() {
			errs = append(errs, fmt.Errorf("console session %s has %d recorded bytes, its output has %d",
				s.GetSessionId(), s.GetRecordedBytes(), size))
		}
	}
	if n := v.Meta().GetConsoleBytes(); n != total {
		errs = append(errs, fmt.Errorf("%d bytes of console output are counted, there are %d", n, total))
	}
	return errors.Join(errs...)
}
