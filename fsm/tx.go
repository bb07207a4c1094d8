package fsm

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// tx is the application of one command. Commands check first and write last: one that is
// refused has changed nothing.
type tx struct {
	*state
	codec *logCodec
	index uint64
	cmd   *internalv1.Command
	now   *timestamppb.Timestamp // never goes back, whatever proposers' clocks do; a copy, for the messages made here
}

func newTx(s *state, codec *logCodec, index uint64, c *internalv1.Command) *tx {
	if at := c.GetTime().AsTime(); at.After(s.meta.GetNow().AsTime()) {
		s.meta.Now = timestamppb.New(at)
	}
	return &tx{state: s, codec: codec, index: index, cmd: c, now: proto.CloneOf(s.meta.GetNow())}
}

func (t *tx) dispatch() (proto.Message, *Error) {
	switch op := t.cmd.GetOp().(type) {
	case *internalv1.Command_LeaderEstablished:
		return nil, t.leaderEstablished(op.LeaderEstablished)
	case *internalv1.Command_InitCluster:
		return nil, t.initCluster(op.InitCluster)
	case *internalv1.Command_RaiseFeatureLevel:
		return nil, t.raiseFeatureLevel(op.RaiseFeatureLevel)
	case *internalv1.Command_PutPeer:
		return nil, t.putPeer(op.PutPeer)
	case *internalv1.Command_RemovePeer:
		return nil, t.removePeer(op.RemovePeer)
	case *internalv1.Command_Beat:
		return nil, nil
	case *internalv1.Command_RegisterMachine:
		return result(t.registerMachine(op.RegisterMachine))
	case *internalv1.Command_UpdateMachine:
		return result(t.updateMachine(op.UpdateMachine))
	case *internalv1.Command_SetMachinePhase:
		return result(t.setMachinePhase(op.SetMachinePhase))
	case *internalv1.Command_DeleteMachine:
		return nil, t.deleteMachine(op.DeleteMachine)
	case *internalv1.Command_CreatePlan:
		return result(t.createPlan(op.CreatePlan))
	case *internalv1.Command_DeletePlan:
		return nil, t.deletePlan(op.DeletePlan)
	case *internalv1.Command_StartRun:
		return result(t.startRun(op.StartRun))
	case *internalv1.Command_CancelRun:
		return result(t.cancelRun(op.CancelRun))
	}
	return t.dispatchExecutor()
}

// dispatchExecutor takes the commands of leader tasks, which carry the epoch of their leader: those of
// a leader that has been replaced are refused (DESIGN §2.4).
func (t *tx) dispatchExecutor() (proto.Message, *Error) {
	if e, now := t.cmd.GetEpoch(), t.meta.GetEpoch(); e != now {
		return nil, refuse(Aborted, ReasonStaleEpoch, "command of leader epoch %d refused: the epoch is %d", e, now)
	}
	switch op := t.cmd.GetOp().(type) {
	case *internalv1.Command_ObserveConditions:
		return nil, t.observeConditions(op.ObserveConditions)
	case *internalv1.Command_BeginAttempt:
		return result(t.beginAttempt(op.BeginAttempt))
	case *internalv1.Command_NoteProgress:
		return result(t.noteProgress(op.NoteProgress))
	case *internalv1.Command_EndAttempt:
		return result(t.endAttempt(op.EndAttempt))
	case *internalv1.Command_AbortRun:
		return result(t.abortRun(op.AbortRun))
	case *internalv1.Command_AppendRunLogs:
		return nil, t.appendRunLogs(op.AppendRunLogs)
	case *internalv1.Command_CompactRunLog:
		return nil, t.compactRunLog(op.CompactRunLog)
	}
	panic("command was understood but has no handler") // a test dispatches every operation
}

// result keeps a nil *Machine from becoming a proto.Message that is not nil.
func result[M any, P message[M]](m P, err *Error) (proto.Message, *Error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}
