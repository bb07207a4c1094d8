package installs

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// editSession returns a copy of the open session of a valid token.
func editSession(t *core.Tx, sum []byte) (*internalv1.StoredInstall, *refusal.Error) {
	s, err := sessions.AdmitInstaller(t.State, sum)
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(s), nil
}

// AppendInstallLog appends to the installer's log. It skips bytes that are already stored and
// refuses gaps.
func AppendInstallLog(t *core.Tx, c *internalv1.AppendInstallLog) (*holdfastv1.Install, *refusal.Error) {
	s, err := editSession(t, c.GetSha256())
	if err != nil {
		return nil, err
	}
	i := s.GetInstall()
	if len(c.GetData()) > maxInstallLog {
		return nil, refusal.InvalidField("data", "has %d bytes, at most %d are allowed",
			len(c.GetData()), maxInstallLog)
	}
	if c.GetOffset() < 0 || c.GetOffset() > i.GetLogBytes() {
		return nil, refusal.New(refusal.Aborted, refusal.ReasonLogGap,
			"the installer's log has %d bytes: an append at %d would leave a gap",
			i.GetLogBytes(), c.GetOffset()).
			With("next", fmt.Sprint(i.GetLogBytes()))
	}
	run, ok := t.Runs.Get(i.GetRunId())
	if !ok || lifecycle.Ended(run) {
		return nil, refusal.New(refusal.OutOfRange, sessions.ReasonInstallOver, "run %s of this install has ended",
			i.GetRunId())
	}
	i.LastSeenAt = t.Now
	if skip := i.GetLogBytes() - c.GetOffset(); skip < int64(len(c.GetData())) {
		fresh := c.GetData()[skip:]
		run = shallow.Run(run)
		runs.AppendReported(t, run, &holdfastv1.LogChunk{
			Ts: t.Now, Stream: "installer", Step: i.GetStep(), Attempt: i.GetAttempt(), Data: fresh,
		})
		i.LogBytes += int64(len(fresh))
		run.Revision = t.Index
		t.Runs.Put(run) // no event: a log tail follows log_bytes
	}
	t.Installs.Put(s)
	return i, nil
}
