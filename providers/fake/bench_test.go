package fake_test

import (
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/holdfast-metal/holdfast/providers/fake"
)

func BenchmarkInspect(b *testing.B) {
	f := fake.NewFleet(fake.Config{})
	s := httptest.NewServer(f.Handler())
	defer s.Close()
	remote, err := fake.NewRemote(s.URL, 0)
	if err != nil {
		b.Fatal(err)
	}
	for name, p := range map[string]*fake.Provider{"memory": fake.New(f), "http": remote} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var n atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := p.Inspect(b.Context(), machine(fmt.Sprint("m-", n.Add(1)%10_000))); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
