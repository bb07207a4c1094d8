package transport

import "github.com/hashicorp/raft"

// SetHeartbeatHandler implements raft.Transport. The library handles heartbeats beside its main
// loop. One of a newer term would change the term while the main loop, still leading, appends an
// entry. The entry would get the new term, in which the new leader writes another one at its
// index (hashicorp/raft#695). So such a heartbeat is passed to the main loop. It overtakes the
// requests in pump, of which one may wait for this peer's disk.
func (g *Gate) SetHeartbeatHandler(handle func(raft.RPC)) {
	g.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) { g.passHeartbeat(rpc, handle) })
}

func (g *Gate) passHeartbeat(rpc raft.RPC, beside func(raft.RPC)) {
	l := g.local.Load()
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if l == nil || !ok || req.Term <= l.Term() {
		beside(rpc)
		return
	}
	select {
	case g.rpcs <- rpc:
	case <-g.stop:
		rpc.Respond(nil, errHungUp)
	}
}
