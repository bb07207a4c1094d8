package page

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestPageTokens(t *testing.T) {
	first, err := Parse(10, "", "machines", "phase=READY")
	if err != nil {
		t.Fatal(err)
	}
	token := first.token("m-1")
	for _, tt := range []struct {
		name  string
		token string
		what  []string
		size  int32
		ok    bool
	}{
		{"the same list", token, []string{"machines", "phase=READY"}, 10, true},
		{"another page size", token, []string{"machines", "phase=READY"}, 500, true},
		{"another filter", token, []string{"machines", "phase=RMA"}, 10, false},
		{"another list", token, []string{"runs", "phase=READY"}, 10, false},
		{"parts shifted", token, []string{"machinesp", "hase=READY"}, 10, false},
		{"cut", token[:6], []string{"machines", "phase=READY"}, 10, false},
		{"no key", base64.RawURLEncoding.EncodeToString(make([]byte, 8)), []string{"machines", "phase=READY"}, 10, false},
		{"not base64", "!!!", []string{"machines", "phase=READY"}, 10, false},
		{"negative size", "", []string{"machines", "phase=READY"}, -1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse(tt.size, tt.token, tt.what...)
			if (err == nil) != tt.ok || tt.ok && p.After != "m-1" {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	for size, want := range map[int32]int{0: 100, 1: 1, 1000: 1000, 5000: 1000} {
		if p, err := Parse(size, "", "x"); err != nil || p.size != want {
			t.Errorf("page_size %d: got %+v, %v, want %d", size, p, err, want)
		}
	}
}

// TestPageBytes checks that a page fits in gRPC's default limit of a client.
func TestPageBytes(t *testing.T) {
	rows := func(yield func(string, *holdfastv1.Plan) bool) {
		for i := range 50 {
			if !yield(fmt.Sprintf("%02d", i), &holdfastv1.Plan{DisplayName: strings.Repeat("x", 200<<10)}) {
				return
			}
		}
	}
	p, _ := Parse(0, "", "x")
	got, next, err := Collect(context.Background(), p, rows, nil)
	if err != nil || next == "" {
		t.Fatalf("got token %q, %v", next, err)
	}
	if size := proto.Size(&holdfastv1.ListPlansResponse{Plans: got}); size > 4<<20 || size < 2<<20 {
		t.Errorf("the page has %d bytes", size)
	}
}

func TestCollectStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	seen := 0
	rows := func(yield func(string, *holdfastv1.Plan) bool) {
		for ; yield("k", nil); seen++ {
		}
	}
	p, _ := Parse(0, "", "x")
	if _, _, err := Collect(ctx, p, rows, func(*holdfastv1.Plan) bool { return false }); err == nil {
		t.Error("a call that is over went on")
	}
}
