package simulate

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
)

// farewell has services and pool managers sign off, as real ones do that are stopped, and says how
// many did. Agents have no word for it (spec 000): a machine that is switched off is missed, and so
// are these. It comes after the report, which counts whom the cluster missed while the fleet lived.
func (f *fleet) farewell(ctx context.Context, r *Report) {
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
			if err == nil && (status == http.StatusOK || status == http.StatusNotFound) { // or the cluster has forgotten it
				left.Add(1)
			} else {
				refused.Add(1)
			}
			return nil
		})
		r.Left[k.name] = left.Load()
		if n := refused.Load(); n > 0 || err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%d of the %s could not sign off: the cluster will miss them",
				len(k.members)-int(left.Load()), k.name))
		}
	}
}
