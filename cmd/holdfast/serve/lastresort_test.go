package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/cluster"
)

func TestLastResort(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		takes time.Duration // duration of the rest
		want  []int         // exit codes
	}{
		{"leader that cannot commit, hanging", fmt.Errorf("%w: nothing for 10s", cluster.ErrStalled),
			time.Hour, []int{1}},
		{"failed disk, hanging", fmt.Errorf("%w: write term 7", cluster.ErrDisk), time.Hour, []int{1}},
		{"ends in time", cluster.ErrStalled, hungTime - time.Millisecond, nil},
		{"another error", errors.New("the data is of another cluster"), time.Hour, nil},
		{"an orderly stop", nil, time.Hour, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []int
				end := &lastResort{exit: func(code int) { got = append(got, code) }, log: slog.New(slog.DiscardHandler)}
				end.after(tc.err)
				<-time.After(tc.takes) // fake clock
				end.stop()
				synctest.Wait()
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("exits (-want +got):\n%s", diff)
				}
			})
		})
	}
}
