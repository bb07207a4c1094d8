package simulate

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
)

// deregister deregisters services and pool managers, as real ones do when they stop, and counts
// them. Agents cannot deregister (spec 000): they expire. It is called after the report, which
// counts the members that expired during the simulation.
func (f *fleet) deregister(ctx context.Context, r *Report) {
	for _, k := range f.kinds {
		if k.leave == nil || len(k.members) == 0 {
			continue
		}
		var left, refused atomic.Int64
		err := each(ctx, len(k.members), func(ctx context.Context, i int) error {
			m := k.members[i]
			if !m.known {
				return nil
			}
			p := f.peers[int(m.peer)%len(f.peers)]
			status, _, err := p.Post(ctx, k.leave(i, p.Addr))
			if err == nil && (status == http.StatusOK || status == http.StatusNotFound) { // 404: it has expired already
				left.Add(1)
			} else {
				refused.Add(1)
			}
			return nil
		})
		r.Left[k.name] = left.Load()
		if n := refused.Load(); n > 0 || err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%d of the %s could not deregister: they will expire",
				len(k.members)-int(left.Load()), k.name))
		}
	}
}
