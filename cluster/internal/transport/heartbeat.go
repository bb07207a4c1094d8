package transport

import "github.com/hashicorp/raft"

// SetHeartbeatHandler implements raft.Transport. The library handles heartbeats beside its main
// loop. One of a newer term would change the term while the main loop, still leading, appends an
// entry. The entry would get the new term, in which the new leader writes another one at its
// index (hashicorp/raft#695). So such a heartbeat is passed to the main loop. It overtakes the
// requests in pump, of which one may wait for this peer's disk.
func (g *Gate) SetHeartbeatHandler(handle func(raft.RPC)) {
	g.onHeartbeat.Store(&handle)
}

// heartbeat handles a heartbeat of a peer.
func (g *Gate) heartbeat(b *inbox, rpc raft.RPC) {
	if err := g.permit(b, rpc.Command); err != nil {
		rpc.Respond(nil, err)
		return
	}
	handle := g.onHeartbeat.Load()
	if handle == nil { // Raft has not started
		rpc.Respond(nil, errHungUp)
		return
	}
	g.passHeartbeat(rpc, *handle)
}

func (g *Gate) passHeartbeat(rpc raft.RPC, direct func(raft.RPC)) {
	l := g.local.Load()
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if l == nil || !ok || req.Term <= l.Term() {
		direct(rpc)
		return
	}
	select {
	case g.rpcs <- rpc:
	case <-g.stop:
		rpc.Respond(nil, errHungUp)
	}
}
