package rest

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
	"github.com/holdfast-metal/holdfast/client/internal/resttest"
)

// A silent peer delays one request by two seconds; the next one starts at another peer. A request
// that creates something waits for the first peer to fail instead.
func TestPostRacesSilentPeer(t *testing.T) {
	for _, tt := range []struct {
		name     string
		silent   []string
		oneByOne bool
		took     time.Duration // until the first answer
	}{
		{"one of three", []string{"a"}, false, hedge.First},
		{"two of three", []string{"a", "b"}, false, 2 * hedge.First},
		{"one by one", []string{"a"}, true, DefaultTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &resttest.Network{}
				for _, h := range []string{"a", "b", "c"} {
					n.Serve(h, resttest.Answer(http.StatusOK, "{}"))
				}
				for _, h := range tt.silent {
					n.Serve(h, resttest.Silent)
				}
				p := peers(t, Config{URLs: []string{"http://a", "http://b", "http://c"}, Transport: n})
				began := time.Now()
				for i := range 3 { // later requests take no time
					a, err := p.Post(t.Context(), Request{Path: "/x", OneByOne: tt.oneByOne})
					if took := time.Since(began); err != nil || !a.OK() || took != tt.took {
						t.Errorf("request %d: got %+v, %v after %v, want it after %v", i+1, a, err, took, tt.took)
					}
				}
				if got := n.Calls("a"); got != 1 {
					t.Errorf("got %d requests to the silent peer, want 1", got)
				}
			})
		})
	}
}

// With a short deadline (a deregistration within five seconds), all peers are tried.
func TestPostWithShortDeadlineRacesSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &resttest.Network{}
		n.Serve("a", resttest.Silent)
		n.Serve("b", resttest.Silent)
		n.Serve("c", resttest.Answer(http.StatusOK, "{}"))
		p := peers(t, Config{URLs: []string{"http://a", "http://b", "http://c"}, Transport: n})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if a, err := p.Post(ctx, Request{Path: "/x"}); err != nil || !a.OK() {
			t.Errorf("got %+v, %v, want the answer of the third peer", a, err)
		}
	})
}
