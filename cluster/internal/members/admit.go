package members

import (
	"context"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// AdmitPeer lets a peer join that was removed, or that waits for an admin. It works only on the
// leader.
func (ms *Members) AdmitPeer(ctx context.Context, id string) error {
	if _, err := ms.cfg.Leads(); err != nil {
		return ms.refusal(err)
	}
	if err := peertls.CheckName("peer id", id); err != nil {
		return &fsm.Error{Code: fsm.InvalidArgument, Reason: "INVALID_FIELD", Message: err.Error()}
	}
	err := ms.cfg.Commit(ctx, &internalv1.Command{
		Op: &internalv1.Command_AdmitPeer{AdmitPeer: &internalv1.AdmitPeer{Id: id}},
	})
	if err != nil {
		return ms.refusal(err)
	}
	ms.departed.Delete(id)
	ms.cfg.Logger.Warn("peer admitted by an operator", "peer", id)
	ms.gossip.Notify()
	return nil
}

// Waits returns why a peer that is not in the configuration must wait for an admin, or "".
func (ms *Members) Waits(id string) string {
	if _, ok := ms.cfg.View().Admission(id); ok {
		return "" // decided: see roster.denied
	}
	manual := ms.cfg.AdmitManually
	for _, m := range ms.gossip.Peers() {
		if _, in := ms.server(m.Meta.GetId()); in {
			manual = manual || m.Meta.GetAdmitManually()
		}
	}
	if !manual {
		return ""
	}
	return "new peers join only after an admin has admitted them (admit_peers: manual)"
}
